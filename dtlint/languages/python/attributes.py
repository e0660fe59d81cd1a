"""Follows an attribute to what the class's methods, a module, a statement or the object itself gives it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.class_constants import constant_ways
from dtlint.languages.python.following import binding_ways, imported_ways
from dtlint.languages.python.handed_on import handed_on
from dtlint.languages.python.instances import declared_ways, is_built_here, members
from dtlint.languages.python.names import attribute_bindings, lookup, qualified
from dtlint.languages.python.places import MAX_DEPTH, Place, Way, conditions_at, unknown
from dtlint.languages.python.program import binding_module, declared_argument
from dtlint.languages.python.reaching import reaching, set_by_methods
from dtlint.languages.python.tree import Binding, Guard, Scope


def attribute_ways(place: Place, node: ast.Attribute) -> Iterator[Way]:
    """`self.x` is what the class's methods bind; `module.x` what that file binds; anything else stands for itself."""
    if handed_on(place.scope, node):
        yield Way((), place)
        return
    owned = attribute_bindings(place.module, place.scope, dotted(node))
    if owned:
        yield from _owned_ways(place, dotted(node), owned)
        return
    names = qualified(place.module, node, place.scope)
    if len(names) == 1 and _is_bound_at_top(place, names[0]):
        yield from imported_ways(place, names[0])
        return
    constant = list(constant_ways(place, node))
    if constant:
        yield from constant
        return
    assigned = _assigned(place, dotted(node))
    if all(rest for _, _, rest in assigned):
        yield from _member_ways(place, node)
    for holder, binding, rest in assigned:
        conditions = conditions_at(place._replace(scope=holder), rest)
        for way in binding_ways(place, holder, dotted(node), binding):
            yield way._replace(conditions=(*conditions, *way.conditions))


def _is_bound_at_top(place: Place, name: str) -> bool:
    found = binding_module(place.program, place.module, name)
    return found is not None and found[1] in found[0].top.bindings


def _assigned(place: Place, name: str) -> list[tuple[Scope, Binding, tuple[Guard, ...]]]:
    """What statements assign to an attribute of the same object (`args.n = 8`) before the place."""
    holder, bindings = lookup(place.scope, name) if name else (None, [])
    root = lookup(place.scope, name.partition(".")[0])[0]
    if holder is None or holder not in (place.scope, root):
        return []
    return [(holder, binding, rest) for binding, rest in reaching(place, holder, bindings)]


def _member_ways(place: Place, node: ast.Attribute) -> Iterator[Way]:
    """What an object of a class of the program holds; an argument of the command line stands for itself."""
    if place.depth > MAX_DEPTH or not place.budget.spend():
        yield Way((), place)
        return
    declared = declared_argument(place.program, node.attr)
    told_by_command = declared is not None and not is_built_here(place.inner(node.value))
    yield from (() if told_by_command else members(place, node)) or (Way((), place),)


def _owned_ways(place: Place, name: str, owned: list[tuple[Scope, Binding]]) -> Iterator[Way]:
    """What the methods of a class bind an attribute to; what the method of the place itself binds before it hides it.
    Where only conditions bind it, it has the default of the class's body else.
    """
    here = reaching(place, place.scope, [binding for method, binding in owned if method is place.scope])
    elsewhere = set_by_methods(place, [item for item in owned if item[0] is not place.scope])
    settled = any(not rest for _, rest in here)
    if not settled and all(binding.guards for _, binding, _ in elsewhere):
        yield from declared_ways(place, name)
    for method, binding, conditions in () if settled else elsewhere:
        for way in _bound_ways(place, method, name, binding):
            yield way._replace(conditions=(*conditions, *way.conditions))
    for binding, rest in here:
        conditions = conditions_at(place._replace(guards=binding.guards), rest)
        for way in _bound_ways(place, place.scope, name, binding):
            yield way._replace(conditions=(*conditions, *way.conditions))


def _bound_ways(place: Place, method: Scope, name: str, binding: Binding) -> Iterator[Way]:
    """What a method binds an attribute to; a sum that each of its calls adds to (`self.step += 1`) is no number."""
    node = binding.node
    counts = isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add | ast.Sub)
    if counts and method.name.rpartition(".")[2] != "__init__":
        yield Way((), unknown(place, f"{name} is counted"))
    else:
        yield from binding_ways(place, method, name, binding)
