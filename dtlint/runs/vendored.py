"""Copies of a front end in the tree that a run is started from: what they do counts, and not what a release does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dtlint.frameworks import Reading
from dtlint.runs.tree import Tree
from dtlint.source import Unreadable


def vendored_readings(tree: Tree, folders: Sequence[Path], readings: Sequence[Reading]) -> list[Reading]:
    """What the copy of verl's worker says that carries out the run, where there is one around `folders`."""
    chief = next((reading for reading in readings if reading.frontend == "verl" and reading.framework), None)
    if chief is None:
        return []
    from dtlint.frameworks.verl.copy import WORKERS, read

    path = WORKERS.get(chief.framework, "")
    file = next((found for folder in folders if (found := tree.find(path, folder)) is not None), None)
    try:
        return [] if file is None else [read(tree.source(file))]
    except Unreadable:
        return []
