"""Follows an expression to the wrapper that the model which it stands for is taken out of."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeGuard

from dtlint.frameworks.code.objects import set_in
from dtlint.frameworks.pytorch.step_area import called_function
from dtlint.languages.python.bindings import dotted, last_word
from dtlint.languages.python.called import argument_node
from dtlint.languages.python.callers import callers
from dtlint.languages.python.instances import instances, property_of
from dtlint.languages.python.names import lookup
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Definition
from dtlint.languages.python.reaching import reaching
from dtlint.languages.python.tree import Binding

UNWRAPPING = frozenset({"unwrap_model", "extract_model_from_parallel"})
"""Functions of Accelerate that return the model inside."""
_LEVELS = 4
"""Names and helper functions through which a model is followed to the wrapper that it is taken out of."""


def taken_from(place: Place, levels: int = _LEVELS) -> Place | None:
    """`model` of an expression that stands for `model.module` or `accelerator.unwrap_model(model)`, in one of its
    branches at least.
    """
    node = place.node
    if not levels or not place.budget.spend():
        return None
    if isinstance(node, ast.Attribute) and node.attr == "module" and dotted(node.value):
        return place.at(node.value)
    if isinstance(node, ast.Call) and node.args and last_word(node.func) in UNWRAPPING and dotted(node.args[0]):
        return place.at(node.args[0])
    if _asks_for_module(node):
        return place.at(node.args[0])
    stands_for = (taken_from(inner, levels - 1) for inner in _meanings(place))
    return next((found for found in stands_for if found is not None), None)


def _asks_for_module(node: ast.AST) -> TypeGuard[ast.Call]:
    """`getattr(model, "module")`, also with what is taken of a model without a wrapper."""
    if not (isinstance(node, ast.Call) and dotted(node.func) == "getattr" and len(node.args) > 1):
        return False
    name = node.args[1]
    return isinstance(name, ast.Constant) and name.value == "module" and bool(dotted(node.args[0]))


def _meanings(place: Place) -> Iterator[Place]:
    """What a conditional expression, a name with one binding, or a call of a function of the program stands for."""
    node = place.node
    if isinstance(node, ast.IfExp):
        yield from (place.at(node.body), place.at(node.orelse))
    elif isinstance(node, ast.Name):
        holder, bindings = lookup(place.scope, node.id)
        bound = [binding for binding, _ in reaching(place, holder, bindings)] if holder is not None else []
        if holder is not None and len(bound) == 1:
            yield from _bound(place._replace(scope=holder), node.id, bound[0])
    elif isinstance(node, ast.Attribute):
        yield from _of_attribute(place, node)
    elif isinstance(node, ast.Call):
        yield from _returns(place, called_function(place))


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
    if binding.kind == "value" and not binding.path and binding.node is not None:
        yield place._replace(node=binding.node)
    elif binding.kind == "parameter":
        entered = [frame.call for frame in place.frames if frame.scope is place.scope]
        calls_of = callers(place.program, Definition(place.module, place.scope)) if not entered else ()
        outside = entered or [place_of(place.program, module, call) for module, call in calls_of]
        given = argument_node(place.scope, name, outside[0].node) if len(outside) == 1 else None
        if given is not None:
            yield outside[0].at(given)
