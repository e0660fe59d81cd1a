"""Which of the statements that bind a name, or an attribute of an object, count at a place."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable

from dtlint.languages.python.places import Condition, Place, conditions_at, one_of_several
from dtlint.languages.python.tree import Binding, Guard, Scope


def reaching(place: Place, holder: Scope, bindings: Iterable[Binding]) -> list[tuple[Binding, tuple[Guard, ...]]]:
    """The bindings that can reach `place`, each with the conditions that the place itself does not stand under.

    The last unconditional one hides what is before it. One that stands after the place counts if the name is used in
    another scope, or if a loop comes back from it to the place and nothing in the loop hides it.
    """
    candidates = list(bindings)
    shared = next((item for item in candidates if isinstance(item.place, ast.Global | ast.Nonlocal)), None)
    if shared is not None:
        return [(shared, ())]
    before: list[tuple[Binding, tuple[Guard, ...]]] = []
    after: list[tuple[Binding, tuple[Guard, ...]]] = []
    held = frozenset(place.guards)
    excluded = _excluded(place.guards)
    for binding in candidates:
        if any((id(guard.test), guard.holds) in excluded for guard in binding.guards):
            continue
        rest = tuple(guard for guard in binding.guards if guard not in held)
        if holder is place.scope and not _comes_before(binding, place.node):
            after.append((binding, rest))
            continue
        if not rest:
            before.clear()
        before.append((binding, rest))
    base, both = before[:1] if before and not before[0][1] else [], _both_branches(before)
    hiding = {loop for binding, _ in (*base, *both[:1]) for loop in binding.loops}
    carried = [item for item in after if _comes_back(item[0], place.node, hiding)]
    return [*([item for item in before if item[1]] if both else before), *carried]


def _both_branches(
    reached: list[tuple[Binding, tuple[Guard, ...]]],
) -> tuple[tuple[Binding, tuple[Guard, ...]], ...]:
    """The bindings of a name in an `if` and in its `else`, which together hide a value that it had before."""
    tests = {id(each[1][0].test): each for each in reached if len(each[1]) == 1 and each[1][0].test is not None}
    for each in reached:
        other = tests.get(id(each[1][0].test)) if len(each[1]) == 1 else None
        if other is not None and other[1][0].holds != each[1][0].holds:
            return each, other
    return ()


def _comes_before(binding: Binding, use: ast.AST) -> bool:
    """Whether a binding acts before a use of the name in the same scope: in `x = x + 1` it does not."""
    if binding.kind == "parameter" or not hasattr(use, "lineno"):
        return True
    if binding.kind == "value" and binding.node is not None:
        return _end_position(binding.node) <= _position(use)
    return _position(binding.place) < _position(use)


def _comes_back(binding: Binding, use: ast.AST, hiding: Collection[ast.AST]) -> bool:
    """Whether a loop leads from a binding back to a use before it; `hiding` are the loops that bind the name anew."""
    around = (loop for loop in binding.loops if _position(loop) <= _position(use) <= _end_position(loop))
    return any(loop not in hiding for loop in around)


def _position(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def _end_position(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "end_lineno", 0), getattr(node, "end_col_offset", 0)


def _excluded(guards: Iterable[Guard]) -> frozenset[tuple[int, bool]]:
    """The branches, by their test and its outcome, that do not run where these conditions hold."""
    return frozenset((id(guard.test), not guard.holds) for guard in guards if guard.test is not None)


def set_by_methods(
    place: Place, owned: list[tuple[Scope, Binding]]
) -> list[tuple[Scope, Binding, tuple[Condition, ...]]]:
    """The bindings of an attribute that stand at the end of the methods that make them, each with its conditions; of
    several methods any may have run last. A None that a method sets in advance for another one does not count.
    """
    methods: dict[Scope, list[Binding]] = {}
    for method, binding in owned:
        methods.setdefault(method, []).append(binding)
    last = {method: list(at_the_end(bindings)) for method, bindings in methods.items()}
    if sum(not is_none(items) for items in last.values()):
        last = {method: items for method, items in last.items() if not is_none(items)}
    found = []
    for method, items in last.items():
        setter = (one_of_several(place, f"as {method.name} sets it"),) if len(last) > 1 else ()
        for item in items:
            inside = place._replace(scope=method, guards=item.guards)
            found.append((method, item, (*setter, *conditions_at(inside, item.guards))))
    return found


def at_the_end(bindings: list[Binding]) -> list[Binding]:
    """The bindings that no later one without a condition hides."""
    return bindings[max((index for index, binding in enumerate(bindings) if not binding.guards), default=0) :]


def is_none(bindings: list[Binding]) -> bool:
    """Whether a name is only given None."""
    return all(isinstance(item.node, ast.Constant) and item.node.value is None for item in bindings)


def is_global(binding: Binding) -> bool:
    """Whether a function says of a name that it is one of the module, or of a function around."""
    return isinstance(binding.place, ast.Global | ast.Nonlocal)
