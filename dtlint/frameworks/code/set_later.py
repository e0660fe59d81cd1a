"""Tells whether a call certainly runs only after another: further down in a function that leads to both."""

from __future__ import annotations

from collections.abc import Iterator

from dtlint.frameworks.code.ranks import is_apart
from dtlint.languages.python.callers import callers
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Definition
from dtlint.languages.python.reach import enclosing_function, stands

_LEVELS = 3
"""Functions within functions that lead to a call."""
_MOST_CALLERS = 6


def runs_later(call: Place, other: Place) -> bool:
    """Whether every way to a call passes the other one first: on each, both are led to by calls of one function, the
    other one's further up, and that certainly runs.
    """
    others = [way for way in _ways(other, _LEVELS) if all(map(certainly_runs, way))]
    ways = list(_ways(call, _LEVELS))
    return bool(others) and all(any(_is_behind(way, before) for before in others) for way in ways)


def certainly_runs(call: Place) -> bool:
    """Whether a call is reached in a run of several processes: `if dist.is_initialized():` holds there."""
    return bool(stands(call._replace(guards=tuple(each for each in call.guards if not is_apart(call, each)))))


def _ways(call: Place, levels: int) -> Iterator[tuple[Place, ...]]:
    """The chains of calls that lead to a call, innermost first; one of more than six callers is not followed."""
    function = enclosing_function(call.scope)
    calling = callers(call.program, Definition(call.module, function)) if function is not None and levels else ()
    outside = [place_of(call.program, module, site) for module, site in calling if site.scope is not call.scope]
    if not outside or len(outside) > _MOST_CALLERS:
        yield (call,)
        return
    for step in outside:
        yield from ((call, *way) for way in _ways(step, levels - 1))


def _is_behind(way: tuple[Place, ...], before: tuple[Place, ...]) -> bool:
    """Whether one chain of calls leaves the first function that it shares with another further down."""
    shared = ((step, first) for step in way for first in before if step.scope is first.scope)
    step, first = next(shared, (None, None))
    return step is not None and first is not None and _line(step) > _line(first)


def _line(place: Place) -> int:
    return getattr(place.node, "lineno", 0)
