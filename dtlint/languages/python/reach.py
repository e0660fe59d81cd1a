"""Tells whether a statement is reached, by the conditions around it and around the calls that lead to it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from dtlint.languages.python.callers import callers, times_named
from dtlint.languages.python.calls import Call, calls
from dtlint.languages.python.constants import undecided
from dtlint.languages.python.places import Condition, Place, conditions_at, place_of
from dtlint.languages.python.program import Definition, Program, is_entry
from dtlint.languages.python.sharing import kept
from dtlint.languages.python.tree import Scope
from dtlint.record import NamedTuple

_MAX_STEPS = 700
"""Most steps for one condition: those that take more are not decided by the files anyway."""
_MAX_LEVELS = 3
_MAX_CALLERS = 6
_IMPLICIT = frozenset({"forward", "__call__", "__init__", "__post_init__", "training_step", "main"})
"""Names of functions that are called without being named."""


def standing(program: Program, names: Iterable[str]) -> list[Call]:
    """The calls of these functions that are not certainly left out."""
    return [call for call in calls(program, names) if stands(call.place) is not False]


class Reach(NamedTuple):
    """Whether a statement runs (None: not known) and, if that is not known, under which condition."""

    verdict: bool | None
    condition: str = ""


def stands(place: Place) -> bool | None:
    """Whether a statement is reached; None where that is not known."""
    return reach(place).verdict


def reach(place: Place, level: int = 0) -> Reach:
    """Whether a statement is reached, and the condition that stays open.

    A function of the entry script that nothing in sight calls counts as called; one of another file may be left unused.
    """
    if place.frames:
        return _reach(place, level)
    key = ("reach", place.module.name, place.node, place.scope, place.guards, place.budget.closed, level)
    return kept(place.program, key, lambda: _reach(place, level), lambda: place.budget.left >= 0)


def _reach(place: Place, level: int) -> Reach:
    own = _own(place)
    function = enclosing_function(place.scope)
    if own.verdict is False or function is None or level >= _MAX_LEVELS:
        return own
    if _is_never_built(place, function, level):
        return Reach(False)
    wanted = Definition(place.module, function)
    calls = [
        place_of(place.program, module, site)._replace(budget=place.budget)
        for module, site in callers(place.program, wanted)
    ]
    if not calls:
        return own if _is_started(place, function) else _both(own, Reach(None, f"{function.name} is called"))
    if len(calls) > _MAX_CALLERS:
        return own
    return _both(
        own, _any([reach(call, level + 1) for call in calls if enclosing_function(call.scope) is not function])
    )


def _is_never_built(place: Place, function: Scope, level: int) -> bool:
    """Whether a method is one of a class that the program names only where it builds an object in a branch that is
    certainly not taken: `if False: trainer = Own(...)`.
    """
    owner = function.parent
    if owner is None or not isinstance(owner.node, ast.ClassDef):
        return False
    wanted = Definition(place.module, owner)
    calls = callers(place.program, wanted)
    if not calls or len(calls) > _MAX_CALLERS or any(enclosing_class(site.scope) is owner for _, site in calls):
        return False
    places = (place_of(place.program, module, site)._replace(budget=place.budget) for module, site in calls)
    return all(reach(each, level + 1).verdict is False for each in places) and times_named(
        place.program, wanted
    ) == len(calls)


def enclosing_class(scope: Scope | None) -> Scope | None:
    """The class that a scope is or lies in, None outside classes."""
    while scope is not None and not isinstance(scope.node, ast.ClassDef):
        scope = scope.parent
    return scope


def enclosing_function(scope: Scope | None) -> Scope | None:
    """The function that a scope is or lies in, None at the level of the module."""
    while scope is not None and not isinstance(scope.node, ast.FunctionDef | ast.AsyncFunctionDef):
        scope = scope.parent
    return scope


def outermost_function(scope: Scope | None) -> Scope | None:
    """The function around a scope that lies in no other one, None at the level of the module."""
    found = function = enclosing_function(scope)
    while function is not None:
        found, function = function, enclosing_function(function.parent)
    return found


def _is_started(place: Place, function: Scope) -> bool:
    """Whether a function runs without a call in sight: a spawned one of the entry script, or an implicit one."""
    name = function.name.rpartition(".")[2]
    return name in _IMPLICIT or (is_entry(place.program, place.module) and "." not in function.name)


def _own(place: Place) -> Reach:
    """By the conditions in the function alone; only a run that fails does not meet one that an error is raised for."""
    rest = undecided(_conditions(place))
    if rest is None:
        return Reach(False)
    texts = dict.fromkeys(condition.text for condition in rest if not condition.guard.raises)
    return Reach(None, " and ".join(texts)) if texts else Reach(True)


def _conditions(place: Place) -> Iterator[Condition]:
    """The guards of a statement as conditions; one that leads far does not use up the steps of the others."""
    for guard in place.guards:
        part = place._replace(budget=place.budget.part(_MAX_STEPS))
        yield from conditions_at(part, (guard,))


def _any(found: list[Reach]) -> Reach:
    if not found or any(item.verdict for item in found):
        return Reach(True)
    texts = dict.fromkeys(item.condition for item in found if item.verdict is None)
    return Reach(None, " or ".join(texts)) if texts else Reach(False)


def _both(first: Reach, second: Reach) -> Reach:
    if False in (first.verdict, second.verdict):
        return Reach(False)
    if first.verdict and second.verdict:
        return Reach(True)
    return Reach(None, " and ".join(text for text in (second.condition, first.condition) if text))
