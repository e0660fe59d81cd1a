"""Follows an expression to the wrapper that the model which it stands for is taken out of."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeGuard

from dtlint.frameworks.code.given_items import given_by, is_left_out, items_of
from dtlint.frameworks.code.objects import set_in
from dtlint.frameworks.pytorch.step_area import called_function
from dtlint.languages.python.bindings import dotted, last_word
from dtlint.languages.python.called import argument_node
from dtlint.languages.python.callers import callers
from dtlint.languages.python.instances import instances, property_of
from dtlint.languages.python.names import lookup
from dtlint.languages.python.places import Frame, Place, place_of
from dtlint.languages.python.program import Definition
from dtlint.languages.python.reaching import reaching
from dtlint.languages.python.tree import Binding
from dtlint.record import NamedTuple

UNWRAPPING = frozenset({"unwrap_model", "extract_model_from_parallel"})
"""Functions of Accelerate that return the model inside."""
_LEVELS = 6
"""Names and helper functions through which a model is followed to the wrapper that it is taken out of."""
_COPIES = frozenset({"tuple", "list", "iter"})
"""Functions whose result has the items that they are given."""
_EACH = "each item"
"""A name that no program has, for what a function is handed that `map` calls."""


class _Mapped(NamedTuple):
    """A comprehension or `map`: what becomes of an item, the name that this has there, and the items."""

    made: Place
    name: str
    items: list[Place]


def taken_from(place: Place, path: tuple[int, ...] = (), levels: int = _LEVELS) -> Place | None:
    """`model` of an expression that stands for `model.module` or `accelerator.unwrap_model(model)`, in one of its
    branches at least; with a `path` of an item of what the expression stands for.
    """
    if not levels or not place.budget.spend():
        return None
    wrapper = _wrapper(place.node) if not path else None
    if wrapper is not None:
        return place.at(wrapper)
    mapped = _mapped(place) if path else None
    if mapped is not None:
        return _taken_from_item(mapped, path, levels - 1)
    stands_for = (taken_from(inner, rest, levels - 1) for inner, rest in _meanings(place, path))
    return next((found for found in stands_for if found is not None), None)


def _wrapper(node: ast.AST) -> ast.expr | None:
    """`model` of `model.module`, `unwrap_model(model)` and `getattr(model, "module")`."""
    if isinstance(node, ast.Attribute) and node.attr == "module" and dotted(node.value):
        return node.value
    unwraps = isinstance(node, ast.Call) and node.args and last_word(node.func) in UNWRAPPING and dotted(node.args[0])
    return node.args[0] if isinstance(node, ast.Call) and (unwraps or _asks_for_module(node)) else None


def _taken_from_item(mapped: _Mapped, path: tuple[int, ...], levels: int) -> Place | None:
    """The item of a comprehension's own items that the one at `path` is taken out of."""
    found = taken_from(mapped.made, path[1:], levels)
    taken = _as_given(found) if found is not None else None
    if taken is None or dotted(taken.node) != mapped.name or not 0 <= path[0] < len(mapped.items):
        return None
    return _as_given(mapped.items[path[0]])


def _mapped(place: Place) -> _Mapped | None:
    """`(unwrap(m) for m in models)`, also of those that are not None, and `map(unwrap, models)`."""
    node = place.node
    if isinstance(node, ast.GeneratorExp | ast.ListComp) and len(node.generators) == 1:
        part = node.generators[0]
        inside = next((scope for scope in place.scope.inner if scope.node is node), place.scope)
        items = items_of(place.at(part.iter))
        if all(map(_asks_for_none, part.ifs)):
            kept = [item for item in items if not (part.ifs and is_left_out(item))]
            return _Mapped(place._replace(scope=inside, node=node.elt), dotted(part.target), kept)
    if isinstance(node, ast.Call) and dotted(node.func) == "map" and len(node.args) == 2:
        function = node.args[0]
        items = items_of(place.at(node.args[1]))
        if isinstance(function, ast.Lambda) and len(function.args.args) == 1:
            return _Mapped(place.at(function.body), function.args.args[0].arg, items)
        call = ast.copy_location(ast.Call(function, [ast.Name(_EACH, ast.Load())], []), node)
        return _Mapped(place.at(call), _EACH, items)
    return None


def _asks_for_none(test: ast.expr) -> bool:
    """`model is not None`"""
    return isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.IsNot) and isinstance(test.left, ast.Name)


def _as_given(place: Place) -> Place:
    """What a parameter was given by the calls that led to it."""
    given = given_by(place)
    return place if given is None else _as_given(given)


def _asks_for_module(node: ast.AST) -> TypeGuard[ast.Call]:
    """`getattr(model, "module")`, also with what is taken of a model without a wrapper."""
    if not (isinstance(node, ast.Call) and dotted(node.func) == "getattr" and len(node.args) > 1):
        return False
    name = node.args[1]
    return isinstance(name, ast.Constant) and name.value == "module" and bool(dotted(node.args[0]))


def _meanings(place: Place, path: tuple[int, ...]) -> Iterator[tuple[Place, tuple[int, ...]]]:
    """What a conditional expression, a name with one binding, or a call of a function of the program stands for; of
    several items those at `path`.
    """
    node = place.node
    if isinstance(node, ast.IfExp):
        yield from ((place.at(node.body), path), (place.at(node.orelse), path))
    elif isinstance(node, ast.Name):
        holder, bindings = lookup(place.scope, node.id)
        bound = [binding for binding, _ in reaching(place, holder, bindings)] if holder is not None else []
        if holder is not None and len(bound) == 1:
            inner = (*bound[0].path, *path)
            yield from ((found, inner) for found in _bound(place._replace(scope=holder), node.id, bound[0]))
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int):
        yield place.at(node.value), (node.slice.value, *path)
    elif isinstance(node, ast.Tuple | ast.List) and path and 0 <= path[0] < len(node.elts):
        yield place.at(node.elts[path[0]]), path[1:]
    elif isinstance(node, ast.Call) and path and dotted(node.func) in _COPIES and len(node.args) == 1:
        yield place.at(node.args[0]), path
    elif isinstance(node, ast.Attribute):
        yield from ((found, path) for found in _of_attribute(place, node))
    elif isinstance(node, ast.Call):
        yield from ((found, path) for found in _returned(place))


def _returned(place: Place) -> Iterator[Place]:
    """What a call of a function of the program returns."""
    helper = called_function(place)
    if helper is not None:
        yield from _returns(place._replace(frames=(*place.frames, Frame(helper.scope, place))), helper)


def _returns(place: Place, helper: Definition | None) -> Iterator[Place]:
    for site in helper.scope.sites if helper is not None else ():
        if helper is not None and isinstance(site.node, ast.Return) and site.node.value is not None:
            yield place._replace(module=helper.module, scope=helper.scope, node=site.node.value)


def _of_attribute(place: Place, node: ast.Attribute) -> Iterator[Place]:
    """What the property of an object returns, or the one expression that its class's methods set the attribute to."""
    owners = instances(place.inner(node.value))
    if len({owner.definition.scope for owner in owners}) != 1:
        return
    held = list(set_in(place, owners[0].definition, node))
    if not held:
        yield from _returns(place, property_of(place, node))
    for found, binding in held if len(held) == 1 else ():
        inside = place._replace(module=found.module, scope=binding.method or found.scope, frames=())
        yield from _bound(inside, dotted(node), binding)


def original(wrapper: Place) -> Place:
    """`self.model` of an `inner = self.model` whose model is taken out."""
    node = wrapper.node
    holder, bindings = lookup(wrapper.scope, node.id) if isinstance(node, ast.Name) else (None, [])
    stands_for = bindings[0].node if len(bindings) == 1 and bindings[0].kind == "value" else None
    if holder is None or not isinstance(stands_for, ast.Attribute) or bindings[0].path:
        return wrapper
    return wrapper._replace(scope=holder, node=stands_for)


def _bound(place: Place, name: str, binding: Binding) -> Iterator[Place]:
    """What a binding stands for: its expression, or what the only call of the function passes for a parameter."""
    if binding.kind == "value" and binding.node is not None:
        yield place._replace(node=binding.node)
    elif binding.kind == "parameter":
        entered = [frame.call for frame in place.frames if frame.scope is place.scope]
        calls_of = callers(place.program, Definition(place.module, place.scope)) if not entered else ()
        outside = entered or [place_of(place.program, module, call) for module, call in calls_of]
        given = argument_node(place.scope, name, outside[0].node) if len(outside) == 1 else None
        if given is not None:
            yield outside[0].at(given)
