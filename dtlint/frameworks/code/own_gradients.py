"""Finds calls that hand out the features of all ranks with this rank's own gradient alone: an autograd function whose
backward pass takes its part of the gradients and sums nothing over the ranks.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtlint.frameworks.pytorch.step_area import called_function
from dtlint.languages.python.bindings import dotted, last_word
from dtlint.languages.python.called import argument_node
from dtlint.languages.python.names import qualified
from dtlint.languages.python.places import Place
from dtlint.languages.python.program import Definition, definition
from dtlint.languages.python.tree import Scope
from dtlint.record import NamedTuple
from dtlint.source import Span

_BASES = ("torch.autograd.Function", "torch.autograd.function.Function")
_GATHERS = frozenset({"all_gather", "all_gather_into_tensor", "_all_gather_base"})
_EXCHANGES = ("reduce", "gather", "all_to_all", "broadcast", "send", "recv")
"""Words in names of functions by which ranks send gradients to each other."""
_JOINS = frozenset({"cat", "concat", "concatenate", "stack", "vstack", "list", "tuple", "normalize"})
_LEVELS = 4
"""Functions within functions, and names, through which a gather is looked for."""


class Gathered(NamedTuple):
    """What is gathered, the name of the autograd function, and where its backward pass takes its own part."""

    tensor: ast.expr
    layer: str
    taken: Span


def gathered_by(place: Place, levels: int = _LEVELS) -> Gathered | None:
    """What an expression gathers from all ranks with the own gradient alone, None for any other."""
    node = place.node
    if not levels or not isinstance(node, ast.Call) or not place.budget.spend():
        return None
    if last_word(node.func) == "apply" and node.args:
        return _of_layer(place, node)
    if last_word(node.func) in _JOINS and node.args:
        return gathered_by(place.at(node.args[0]), levels - 1)
    helper = called_function(place)
    if helper is not None:
        return _of_helper(place, node, helper, levels)
    return gathered_by(place.at(node.func.value), levels - 1) if isinstance(node.func, ast.Attribute) else None


def _of_layer(place: Place, node: ast.Call) -> Gathered | None:
    """`GatherLayer.apply(x)`"""
    names = qualified(place.module, node.func.value, place.scope) if isinstance(node.func, ast.Attribute) else ()
    layer = definition(place.program, place.module, names[0]) if len(names) == 1 else None
    taken = _own_part(layer) if layer is not None else None
    return Gathered(node.args[0], layer.scope.name, taken) if layer is not None and taken is not None else None


def _of_helper(place: Place, node: ast.Call, helper: Definition, levels: int) -> Gathered | None:
    """What a function of the program returns that is gathered from one of its parameters."""
    inside = place._replace(module=helper.module, scope=helper.scope)
    for value in _returned(helper.scope):
        found = gathered_by(inside.at(value), levels - 1)
        passed = argument_node(helper.scope, base_name(found.tensor), node) if found is not None else None
        if found is not None and passed is not None:
            return found._replace(tensor=passed)
    return None


def _returned(function: Scope) -> Iterator[ast.expr]:
    """What a function returns, and what the names that it returns are bound to."""
    for site in function.sites:
        value = site.node.value if isinstance(site.node, ast.Return) else None
        if value is not None:
            yield value
            yield from (node for node in _values_in(function, value) if isinstance(node, ast.expr))


def _values_in(function: Scope, value: ast.expr) -> Iterator[ast.AST | None]:
    """What the name that an expression joins or is stands for: `cat(parts)` with `parts = Gather.apply(x)`."""
    given = value.args[0] if isinstance(value, ast.Call) and last_word(value.func) in _JOINS and value.args else value
    yield from (binding.node for binding in function.bindings.get(dotted(given), ()))


def base_name(node: ast.expr) -> str:
    """`x` of `x.contiguous()`."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        node = node.func.value
    return dotted(node)


def _own_part(layer: Definition) -> Span | None:
    """Where the backward pass of an autograd function that gathers takes the own part of the gradients, if it sums
    nothing over the ranks.
    """
    owner = layer.scope.node
    names = (name for base in getattr(owner, "bases", ()) for name in qualified(layer.module, base, layer.module.top))
    forward, backward = (_method(layer.scope, name) for name in ("forward", "backward"))
    if not any(name in _BASES for name in names) or forward is None or backward is None:
        return None
    gathers = any(isinstance(node, ast.Call) and last_word(node.func) in _GATHERS for node in ast.walk(forward))
    return _taken(layer, backward) if gathers and not _exchanges(backward) else None


def _method(owner: Scope, name: str) -> ast.FunctionDef | None:
    found = (scope.node for scope in owner.inner if scope.name.endswith(f".{name}"))
    return next((node for node in found if isinstance(node, ast.FunctionDef)), None)


def _exchanges(function: ast.FunctionDef) -> bool:
    """Whether a function sends something to other ranks, or hands the gradients on to what may."""
    called = {last_word(node.func) for node in ast.walk(function) if isinstance(node, ast.Call)}
    return any(word in name for name in called for word in _EXCHANGES)


def _taken(layer: Definition, backward: ast.FunctionDef) -> Span | None:
    """Where a backward pass cuts its part out of the gradients: `grads[rank]`, `grad[rank * n : (rank + 1) * n]`."""
    given = [*backward.args.args[1:], *([backward.args.vararg] if backward.args.vararg is not None else [])]
    names = {item.arg for item in given}
    parts = (node for node in ast.walk(backward) if isinstance(node, ast.Subscript))
    return next((layer.module.span(node) for node in parts if base_name(node.value) in names), None)
