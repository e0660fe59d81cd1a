"""Finds what puts a model on a device before it is used: calls, the blocks in which it is made, the functions that make
it or hand it over.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtlint.frameworks.code.first_gpus import blocks_around, chain, moves_in
from dtlint.frameworks.pytorch.step_area import called_function
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.called import argument_node
from dtlint.languages.python.callers import callers
from dtlint.languages.python.names import lookup
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Definition
from dtlint.languages.python.reach import enclosing_function

_LEVELS = 2
"""Functions that make a model or hand it over, one within the other."""


def moves_of(model: Place, use: Place, levels: int = _LEVELS) -> Iterator[Place]:
    """What puts a model on a device before a use in the same function: calls in the expression, where its name is
    bound, and as statements of their own; the blocks in which it is made; what does in the function that makes it, or
    where each call of this one makes it.
    """
    yield from _moves_in_making(model, levels)
    name = dotted(list(chain(model.node))[-1])
    for site in use.scope.sites if name else ():
        if getattr(site.node, "lineno", 0) < getattr(use.node, "lineno", 0):
            yield from _moves_at(place_of(use.program, use.module, site), name, levels)
    yield from _moves_by_callers(use, name) if name and levels else ()


def _moves_in_making(place: Place, levels: int) -> Iterator[Place]:
    """The moves in a chain of calls, the blocks around it, and the moves in the function of the program at its end."""
    yield from moves_in(place)
    made = list(chain(place.node))[-1]
    if isinstance(made, ast.Call):
        yield from blocks_around(place)
        yield from _moves_by_maker(place.at(made), levels) if levels else ()


def _moves_at(place: Place, name: str, levels: int) -> Iterator[Place]:
    """The moves in one statement of the model that a name stands for: `name.cuda()`, `name = Net().cuda()`."""
    node = place.node
    if isinstance(node, ast.Assign) and name in (dotted(target) for target in node.targets):
        made = place.at(node.value)
        yield from _moves_in_making(made, levels)
    elif isinstance(node, ast.Call) and dotted(list(chain(node))[-1]) == name:
        yield from moves_in(place)


def _moves_by_maker(place: Place, levels: int) -> Iterator[Place]:
    """What moves the model that a function of the program returns; nothing where one of its returns has no move."""
    helper = called_function(place)
    sites = [site for site in helper.scope.sites if isinstance(site.node, ast.Return)] if helper is not None else []
    found = []
    for site in sites:
        if helper is not None and isinstance(site.node, ast.Return) and site.node.value is not None:
            here = place_of(place.program, helper.module, site)
            found.append(list(moves_of(here.at(site.node.value), here, levels - 1)))
    yield from (move for each in found if all(found) for move in each)


def _moves_by_callers(place: Place, name: str) -> Iterator[Place]:
    """What moves the model that a function is handed; nothing where one of its calls hands over one without a move."""
    function, (holder, bindings) = enclosing_function(place.scope), lookup(place.scope, name)
    if function is None or holder is not function or all(binding.kind != "parameter" for binding in bindings):
        return
    found = []
    for module, site in callers(place.program, Definition(place.module, function)):
        node, here = argument_node(function, name, site.node), place_of(place.program, module, site)
        found.append(list(moves_of(here.at(node), here, 0)) if node is not None else [])
    yield from (move for each in found if all(found) for move in each)
