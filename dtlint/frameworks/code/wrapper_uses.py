"""Tells whether anything in a file may make a forward pass through a wrapper, with gradients."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtlint.frameworks.code.inside import UNWRAPPING
from dtlint.frameworks.code.objects import OTHER, Maker, makers, wrapped_by
from dtlint.frameworks.code.passes import CALLS_NOTHING, without_gradients
from dtlint.frameworks.pytorch.names import DATA_PARALLEL, DDP, FSDP1
from dtlint.frameworks.pytorch.step_area import called_function
from dtlint.languages.python.bindings import dotted, last_word
from dtlint.languages.python.called import argument_node, given_to
from dtlint.languages.python.calls import called
from dtlint.languages.python.places import Budget, Place, place_of
from dtlint.languages.python.program import Definition, sites

ASKS = frozenset({"isinstance", "hasattr", "getattr", "type", "id"})
"""Functions that ask what an object is, and call nothing of it."""
_TURNS_OVER = frozenset(
    ("cycle", "enumerate", "islice", "iter", "len", "list", "next", "skip_first_batches", "tqdm", "track", "zip")
)
"""Functions that are handed a loader, which is wrapped together with the model (`accelerator.prepare`)."""
NO_PASS = UNWRAPPING | CALLS_NOTHING | _TURNS_OVER
"""Methods and functions that are handed a model and make no forward pass of it."""
_WRAP = frozenset((*DDP, *FSDP1, *DATA_PARALLEL))
_LEVELS = 3
"""Functions within functions through which a model is followed that is handed on."""


def may_be_called(wrapper: Place) -> bool:
    """Whether the file of a wrapper calls it with gradients, or hands it to what may."""
    name = dotted(wrapper.node)
    found = (place_of(wrapper.program, wrapper.module, site) for site in sites(wrapper.module))
    return any(
        _passes(place, name, _LEVELS) and not all(_is_another(item, wrapper) for item in _named(place, name))
        for place in found
    )


def _passes(place: Place, name: str, levels: int) -> bool:
    """Whether a call may be a forward pass, with gradients, of what has a name there."""
    node = place.node
    if not isinstance(node, ast.Call) or not any(True for _ in _named(place, name)):
        return False
    if dotted(node.func) == name:
        return not without_gradients(place)
    if dotted(node.func) in ASKS or last_word(node.func) in NO_PASS or called(place) in _WRAP:
        return False
    helper = called_function(place) if levels else None
    return not without_gradients(place) and (helper is None or _passes_in(helper, place, name, levels))


def _named(place: Place, name: str) -> Iterator[Place]:
    """Where a call has a name: as what it calls, and in what it is given."""
    node = place.node
    parts = (node.func, *given_to(node)) if isinstance(node, ast.Call) else ()
    yield from (place.at(part) for part in parts if dotted(part) == name)


def _passes_in(helper: Definition, call: Place, name: str, levels: int) -> bool:
    """Whether a function may make such a pass of what a call hands it: by the name that it has there, or another."""
    bound = [each for each, bindings in helper.scope.bindings.items() if any(b.kind == "parameter" for b in bindings)]
    inside = [each for each in bound if _is_given(helper, each, call.node, name)]
    if len(inside) != len(list(_named(call, name))) or any(_escapes(helper, each) for each in inside):
        return True
    found = [place_of(call.program, helper.module, site) for site in helper.scope.sites]
    return any(_passes(place, each, levels - 1) for place in found for each in inside)


def _is_given(helper: Definition, parameter: str, call: ast.AST, name: str) -> bool:
    given = argument_node(helper.scope, parameter, call)
    return given is not None and dotted(given) == name


def _escapes(helper: Definition, name: str) -> bool:
    """Whether a function keeps a parameter, returns it or hands it to a function inside it: what it becomes is not
    followed. Its attributes and what calls are given are.
    """
    nodes = list(ast.walk(helper.scope.node))
    read = {id(part) for node in nodes for part in _parts_read(node)}
    loads = (node for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))
    return any(load.id == name and id(load) not in read for load in loads)


def _parts_read(node: ast.AST) -> Iterator[ast.AST]:
    """The names of an expression that it only asks something of, or that calls have, which are looked at one by one."""
    if isinstance(node, ast.Attribute) and node.attr not in ("forward", "__call__"):
        yield node.value
    elif isinstance(node, ast.Compare):
        yield from (node.left, *node.comparators)
    elif isinstance(node, ast.Call):
        yield from (node.func, *given_to(node))


def _is_another(place: Place, wrapper: Place) -> bool:
    """Whether a name certainly stands for another object than the wrapper: the model that this is made of, as in
    `build_optimizer(model)` before `model = DDP(model)`, or an object of another class.
    """
    wraps = [maker.call for maker in _made(wrapper) if maker.call is not None]
    inner = {_node(maker) for call in wraps for maker in wrapped_by(call)}
    own, made = {_node(maker) for maker in _made(wrapper)}, _made(place)
    known = all(maker.call is not None and (maker.kind == OTHER or _node(maker) in inner) for maker in made)
    return bool(made) and known and own.isdisjoint(map(_node, made))


def _made(place: Place) -> list[Maker]:
    return list(makers(place._replace(budget=Budget())))


def _node(maker: Maker) -> ast.AST | None:
    return maker.call.node if maker.call is not None else None
