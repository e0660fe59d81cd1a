"""Numbers that a program shares out among its ranks only where there are several: `if world > 1: steps //= world`."""

from __future__ import annotations

import ast
from collections.abc import Callable

from dtlint.languages.python.following import ways
from dtlint.languages.python.places import Condition, Place, Way
from dtlint.value import Setting, Unknown, Value

Evaluate = Callable[[Place], Setting]


def is_shared_out(value: Setting, way: Way, later: Setting, evaluate: Evaluate) -> bool:
    """Whether a later binding shares a number out among the ranks, under conditions that leave out one rank alone: it
    has the same number then, so that the share is right for any.
    """
    if not isinstance(value, Value) or not isinstance(later, Unknown) or not way.conditions:
        return False
    number, _, ranks = later.means.partition(" // ")
    if number != str(value.value) or not ranks or " " in ranks:
        return False
    return all(_leaves_out_one(condition, ranks, evaluate) for condition in way.conditions)


def _leaves_out_one(condition: Condition, ranks: str, evaluate: Evaluate) -> bool:
    """Whether a condition fails for one rank alone: `world > 1`, `world != 1`, under any name."""
    place, test = condition.place, condition.guard.test
    ends = [way.end for way in ways(place.at(test))] if test is not None else []
    end = ends[0] if len(ends) == 1 else None
    if not isinstance(end, Place) or not isinstance(end.node, ast.Compare) or len(end.node.ops) != 1:
        return False
    several = isinstance(end.node.ops[0], ast.Gt | ast.NotEq)
    alone = isinstance(end.node.ops[0], ast.Eq | ast.LtE)
    if not (several if condition.guard.holds else alone):
        return False
    left, right = evaluate(end.inner(end.node.left)), evaluate(end.inner(end.node.comparators[0]))
    return isinstance(left, Unknown) and left.means == ranks and isinstance(right, Value) and right.value == 1
