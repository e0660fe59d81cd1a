"""Values that the conditions around a use exclude: under `if size > 1:` the size is not its default of 1."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtlint.languages.python.arithmetic import compared, written
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.names import attribute_bindings, lookup
from dtlint.languages.python.places import Place, Way, unknown
from dtlint.languages.python.tree import Guard
from dtlint.value import Option, Setting, Value


def admitted(place: Place, found: list[Option]) -> list[Option]:
    """The options that the conditions around a name leave; unknown if they leave none of those that are assumed."""
    guards = list(_told_of(place)) if place.guards and found else []
    if not guards:
        return found
    left = [option for option in found if not any(_excludes(place, guard, option) for guard in guards)]
    assumed = any(isinstance(option.value, Value) and option.value.origin.kind == "assumed" for option in found)
    if left or not assumed:
        return left or found
    name = dotted(place.node)
    return [Option("", unknown(place, f"the condition around it excludes what {name} is by default"))]


def replaced(place: Place, way: Way, value: Setting) -> bool:
    """Whether a later binding under conditions replaces an earlier value, which meets them: `if x is None: x = 4`."""
    tests = [condition.guard for condition in way.conditions]
    if not isinstance(value, Value) or not tests:
        return False
    name = dotted(place.node)
    return bool(name) and all(
        guard.test is not None and _names(guard.test, name) and _outcome(place, guard.test, value) is guard.holds
        for guard in tests
    )


def _told_of(place: Place) -> Iterator[Guard]:
    """The conditions around a name that say something of it, and after which nothing binds it anew."""
    name = dotted(place.node)
    guards = [guard for guard in place.guards if guard.test is not None and name and _names(guard.test, name)]
    if not guards:
        return
    bindings = [
        *lookup(place.scope, name)[1],
        *(item for _, item in attribute_bindings(place.module, place.scope, name)),
    ]
    for guard in guards:
        if not any(guard in binding.guards for binding in bindings):
            yield guard


def _names(test: ast.expr, name: str) -> bool:
    """Whether a test asks for a name: by itself, denied, compared, or as a part of `and` and `or`."""
    if isinstance(test, ast.BoolOp):
        return any(_names(part, name) for part in test.values)
    if isinstance(test, ast.UnaryOp):
        return _names(test.operand, name)
    if isinstance(test, ast.Compare):
        return dotted(test.left) == name
    return dotted(test) == name


def _excludes(place: Place, guard: Guard, option: Option) -> bool:
    if guard.test is None or not isinstance(option.value, Value):
        return False
    return _outcome(place, guard.test, option.value) is (not guard.holds)


def _outcome(place: Place, test: ast.expr, value: Value) -> bool | None:
    """What a test says if the name at a place has a value; None where it depends on more."""
    name = dotted(place.node)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _outcome(place, test.operand, value)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp):
        decisive = isinstance(test.op, ast.Or)
        parts = [_outcome(place, part, value) for part in test.values]
        return decisive if decisive in parts else (not decisive if None not in parts else None)
    if isinstance(test, ast.Compare):
        return _compared(place, test, name, value)
    return bool(value.value) if dotted(test) == name else None


def _compared(place: Place, test: ast.Compare, name: str, value: Value) -> bool | None:
    right = test.comparators[0]
    if dotted(test.left) != name or len(test.ops) != 1 or not isinstance(right, ast.Constant):
        return None
    if not isinstance(right.value, bool | int | float | str | None):
        return None
    result = compared(place, test.ops[0], value, written(place, right.value))
    return bool(result.value) if isinstance(result, Value) else None
