"""Runs of one launch line that are equal in every world of its script are one run."""

from __future__ import annotations

from collections.abc import Sequence

from dtlint.runs.model import Run
from dtlint.value import Value

MOST_BRANCHES = 8
"""Most conditions that are listed of one run."""


def merged(runs: Sequence[Run]) -> list[Run]:
    """Runs of one launch line that are equal in every world are one run; its branch is dropped, or lists the
    conditions.
    """
    groups: dict[tuple[object, ...], list[Run]] = {}
    for run in runs:
        groups.setdefault(_signature(run), []).append(run)
    lines: dict[tuple[str, int, str], int] = {}
    for signature in groups:
        place = groups[signature][0].launch
        assert place is not None
        key = place.place.source.path, place.place.start, groups[signature][0].role
        lines[key] = lines.get(key, 0) + 1
    return [_merge(group, lines) for group in groups.values()]


def _merge(group: list[Run], lines: dict[tuple[str, int, str], int]) -> Run:
    first = group[0]
    assert first.launch is not None
    alone = lines[first.launch.place.source.path, first.launch.place.start, first.role] == 1
    branches = list(dict.fromkeys(run.branch for run in group if run.branch))
    callers = dict.fromkeys(path for run in group if run.launch is not None for path in run.launch.callers)
    return first._replace(
        launch=first.launch._replace(callers=tuple(callers)),
        branch=None if alone or not branches else _listed(branches),
    )


def _listed(branches: Sequence[str]) -> str:
    """The conditions of a run, a few of many."""
    more = len(branches) - MOST_BRANCHES
    return " or ".join(branches[:MOST_BRANCHES]) + (f" or {more} others" if more > 0 else "")


def _signature(run: Run) -> tuple[object, ...]:
    launch = run.launch
    assert launch is not None
    words = tuple(word.shown for word in launch.argv)
    values = tuple(
        (name, setting.value if isinstance(setting, Value) else "?")
        for name, setting in sorted(run.plan.settings.items())
    )
    return launch.place.source.path, launch.place.start, run.role, words, values
