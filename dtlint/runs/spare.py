"""Runs of a tree that nobody asks about by name and of which not all is here: configs of an engine that no launch
takes, and launches of programs that lie elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from dtlint.runs.beside import ACCELERATE, DEEPSPEED
from dtlint.runs.forks import FORKED, fetches_release
from dtlint.runs.model import Run
from dtlint.runs.tree import Tree

ENGINES = frozenset((ACCELERATE, DEEPSPEED))
"""Layers of files that say how an engine works, and not what it trains: that says the launch which takes them."""


def marked(runs: Iterable[Run], asked: Collection[str]) -> tuple[Run, ...]:
    """The runs, those marked as spare that are the config of an engine alone where other runs that train are launched.
    `asked` are the paths of files that the user names: who names a file asks about it.
    """
    kept = tuple(runs)
    if not any(run.launch is not None and run.role != "other" for run in kept):
        return kept
    return tuple(run._replace(spare=True) if _is_spare(run, asked) else run for run in kept)


def with_unseen(runs: Sequence[Run], asked: Collection[str], tree: Tree) -> tuple[Run, ...]:
    """The runs of a repository, those marked as unseen whose program it does not have, unless it says that it takes a
    release's; `asked` as above.
    """
    found = [_is_unseen(run, asked) for run in runs]
    if not any(found) or fetches_release(tree):
        return tuple(runs)
    return tuple(run._replace(unseen=unseen) for run, unseen in zip(runs, found, strict=True))


def _is_spare(run: Run, asked: Collection[str]) -> bool:
    if run.launch is not None or any(path in asked for path in run.files):
        return False
    return any(reading.layer in ENGINES for reading in run.readings) and not any(map(_is_program, run.files))


def _is_unseen(run: Run, asked: Collection[str]) -> bool:
    """Whether a launch with arguments of Megatron names a program of which nothing was read: it may be a fork."""
    launch = run.launch
    if launch is None or not any(reading.layer == FORKED for reading in run.readings):
        return False
    if any(path in asked for path in (launch.place.path, *launch.callers)):
        return False
    return any(word.shown.endswith(".py") for word in launch.argv) and not any(map(_is_program, run.files))


def _is_program(path: str) -> bool:
    return path.endswith((".py", ".ipynb"))
