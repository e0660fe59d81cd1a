"""Launches left over from the repository that this one is a copy of: the program that they start did not come along."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from dtlint.runs.forks import FORKED
from dtlint.runs.model import Run
from dtlint.runs.parsers import parser_of
from dtlint.runs.tree import Tree


def marked(runs: Iterable[Run], tree: Tree) -> tuple[Run, ...]:
    """The runs, each with the path of its program where that is left over."""
    kept = tuple(runs)
    named = [_named(run, tree) for run in kept]
    gone = frozenset(path for path in dict.fromkeys(named) if path and _is_nowhere(path, tree))
    return tuple(run._replace(left_over=path) if path in gone else run for run, path in zip(kept, named, strict=True))


def _named(run: Run, tree: Tree) -> str:
    """The program that a launch names in a copy of the framework whose arguments it passes, where that was not found;
    "" for one that may lie elsewhere.
    """
    if run.launch is None or not any(reading.layer == FORKED and not reading.frontend for reading in run.readings):
        return ""
    path = next((word.text or "" for word in run.launch.argv if word.shown.endswith(".py")), "")
    if not _is_of_the_tree(path) or _is_read(path, run):
        return ""
    return path if _is_in_a_copy(run.launch.place.source.file, tree) else ""


def _is_read(path: str, run: Run) -> bool:
    """Whether the program is among what the run was read from: it lies here, or the script writes it."""
    return any(PurePosixPath(source.path).name == PurePosixPath(path).name for source in run.sources)


def _is_of_the_tree(path: str) -> bool:
    """Whether a path is meant to lead to a file of the repository: its folder is neither another machine's nor to be
    filled in.
    """
    return bool(path) and not path.startswith(("/", "~")) and not any(mark in path for mark in ("://", "<", "*"))


def _is_in_a_copy(script: Path | None, tree: Tree) -> bool:
    return script is not None and parser_of(tree, (script.parent,)) is not None


def _is_nowhere(path: str, tree: Tree) -> bool:
    """Whether no file has this path, whichever folder it is meant from; below a folder that is not here (one to be
    filled in, a submodule) it may lie.
    """
    files, parts = tree.listing.files, tuple(part for part in PurePosixPath(path).parts if part != "..")
    if tree.listing.cut or (len(parts) > 1 and not any(parts[0] in file.parts for file in files)):
        return False
    return not any(file.parts[-len(parts) :] == parts for file in files)
