"""Tells whether a statement is reached, by the conditions around it and around the calls that lead to it."""

from __future__ import annotations

import ast

from dtlint.languages.python.constants import holds
from dtlint.languages.python.places import Place, conditions_at, place_of
from dtlint.languages.python.program import Definition, callers
from dtlint.languages.python.tree import Scope
from dtlint.record import NamedTuple

_MAX_LEVELS = 3
_MAX_CALLERS = 6
_IMPLICIT = frozenset({"forward", "__call__", "__init__", "training_step", "main"})
"""Names of functions that are called without being named."""


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
    key = (place.node, place.scope, place.guards, level)
    if key not in place.program.memo.reaches:
        place.program.memo.reaches[key] = _reach(place, level)
    found = place.program.memo.reaches[key]
    return found if isinstance(found, Reach) else Reach(None)


def _reach(place: Place, level: int) -> Reach:
    own = _own(place)
    function = enclosing_function(place.scope)
    if own.verdict is False or function is None or level >= _MAX_LEVELS:
        return own
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


def enclosing_function(scope: Scope | None) -> Scope | None:
    """The function that a scope is or lies in, None at the level of the module."""
    while scope is not None and not isinstance(scope.node, ast.FunctionDef | ast.AsyncFunctionDef):
        scope = scope.parent
    return scope


def _is_started(place: Place, function: Scope) -> bool:
    """Whether a function runs without a call in sight: a spawned one of the entry script, or an implicit one."""
    name = function.name.rpartition(".")[2]
    return name in _IMPLICIT or (place.module.name == place.program.entry and "." not in function.name)


def _own(place: Place) -> Reach:
    verdicts = [(holds(condition), condition.text) for condition in conditions_at(place, place.guards)]
    if any(verdict is False for verdict, _ in verdicts):
        return Reach(False)
    texts = list(dict.fromkeys(text for verdict, text in verdicts if verdict is None))
    return Reach(None, " and ".join(texts)) if texts else Reach(True)


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
