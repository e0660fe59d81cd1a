"""Configs of an engine that lie in a tree and that none of its launches takes: a twin, a choice that is not made."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from dtlint.runs.beside import ACCELERATE, DEEPSPEED
from dtlint.runs.model import Run

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


def _is_spare(run: Run, asked: Collection[str]) -> bool:
    if run.launch is not None or any(path in asked for path in run.files):
        return False
    return any(reading.layer in ENGINES for reading in run.readings) and not any(map(_is_program, run.files))


def _is_program(path: str) -> bool:
    return path.endswith((".py", ".ipynb"))
