"""Which files of a tree start training or configure it, and of what kind each is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dtlint.report.terminal import printable

if TYPE_CHECKING:
    from dtlint.runs.model import Run, RunSet

ABOUT_THE_RUN = ("hand-over", "requirements", "program")
"""Layers that say something of a run and are no kind of file."""


def files_text(runs: RunSet) -> str:
    """A line per file: its path, a tab, and what dtlint reads it as, the kinds separated by commas."""
    kinds: dict[str, dict[str, None]] = {}
    for run in runs.runs:
        for path, kind in _kinds(run):
            kinds.setdefault(path, {})[kind] = None
    return "".join(f"{printable(path)}\t{','.join(found)}\n" for path, found in sorted(kinds.items()))


def _kinds(run: Run) -> Iterator[tuple[str, str]]:
    """The launch script, and every file that was read for the run with the layer that it speaks in."""
    if run.launch is not None and run.launch.place.original().source.file is not None:
        yield run.launch.place.original().path, "launch"
    for reading in run.readings:
        source = None if reading.place is None else reading.place.original().source
        if source is not None and source.file is not None and reading.layer not in ABOUT_THE_RUN:
            yield source.path, reading.layer
