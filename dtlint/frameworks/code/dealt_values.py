"""Tells what a rank has measured on its own share of the samples: a sum or a list that grows in a loop over a loader
that deals them to the ranks.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dtlint.frameworks.code.loss_factors import bound
from dtlint.frameworks.code.mentions import turned_over
from dtlint.frameworks.code.objects import kinds, makers
from dtlint.frameworks.code.samplers import SAMPLERS
from dtlint.languages.python.bindings import dotted, last_word
from dtlint.languages.python.calls import call_at, called, passed
from dtlint.languages.python.following import ways
from dtlint.languages.python.places import Budget, Place, place_of
from dtlint.languages.python.tree import Site
from dtlint.source import Span

_LOADERS = ("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")
_PREPARES = ("prepare", "prepare_data_loader")
_SHARED = re.compile(r"gather|reduce|broadcast|bcast|sync|agree|compute|world", re.IGNORECASE)
"""Words of functions after which all ranks may know the same."""
_GROWS = ("append", "extend")
_SIZES = frozenset({"len", "size", "numel"})
_MAX_LEVELS = 3


def measured_by_rank(place: Place, name: str) -> Span | None:
    """The loader, dealt to the ranks, over which a sum or a list of this name certainly grows by what each batch gives;
    None for any other.
    """
    found = (_dealt_loader(grown, loops) for grown, loops in _growths(place, name))
    return next((loader for loader in found if loader is not None), None)


def measured_in_turn(call: Place, given: ast.expr) -> Span | None:
    """The loader, dealt to the ranks, from whose batch an argument of a call in its loop certainly comes; None for any
    other.
    """
    site = next((site for site in call.scope.sites if site.node is call.node), None)
    return _dealt_loader(call.at(given), site.loops) if site is not None else None


def _dealt_loader(value: Place, loops: tuple[ast.AST, ...]) -> Span | None:
    """The loader that one of the loops around goes through, dealt to the ranks, on whose batch a value rests."""
    for loop in (each for each in loops if isinstance(each, ast.For)):
        if _rests_on(value, _targets(loop), _MAX_LEVELS) is not True:
            continue
        iterable = next(turned_over(Site(loop, value.scope, (), (loop,))))
        if _is_dealt(value.at(iterable)._replace(guards=(), frames=(), budget=Budget())):
            return value.module.span(iterable)
    return None


def _growths(place: Place, name: str) -> Iterator[tuple[Place, tuple[ast.AST, ...]]]:
    """What is added to a sum or a list in its own function, and the loops around that."""
    for binding in place.scope.bindings.get(name, ()):
        if isinstance(binding.node, ast.AugAssign):
            yield place.at(binding.node.value)._replace(guards=binding.guards), binding.loops
    for site in (site for word in _GROWS for site in place.module.called.get(word, ())):
        if site.scope is place.scope and (item := _grown_by(site.node, name)) is not None:
            yield place_of(place.program, place.module, site).at(item), site.loops


def _grown_by(node: ast.AST, name: str) -> ast.expr | None:
    """The one item that a call puts into a list of this name."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or len(node.args) != 1:
        return None
    return node.args[0] if dotted(node.func.value) == name else None


def _targets(loop: ast.For) -> frozenset[str]:
    """The names that a loop binds to a batch: not the count of its turns, which all ranks have alike."""
    counts = any(isinstance(node, ast.Call) and dotted(node.func) == "enumerate" for node in ast.walk(loop.iter))
    of_batch = loop.target.elts[1:] if counts and isinstance(loop.target, ast.Tuple) else [loop.target]
    return frozenset(node.id for each in of_batch for node in ast.walk(each) if isinstance(node, ast.Name))


def _rests_on(place: Place, names: frozenset[str], levels: int) -> bool | None:
    """Whether an expression rests on one of the names, by way of others; None where the ranks may have agreed on it."""
    found: bool | None = False
    for node in _told_apart(place.node):
        if isinstance(node, ast.Call) and _SHARED.search(place.module.text(node.func, 100)):
            return None
        if isinstance(node, ast.Name) and node.id in names:
            found = True
        elif isinstance(node, ast.Name) and levels:
            inner = [_rests_on(item, names, levels - 1) for item, each in bound(place, node.id) if each.kind == "value"]
            if None in inner:
                return None
            found = found or any(inner)
    return found


def _told_apart(expression: ast.AST) -> Iterator[ast.AST]:
    """The parts of an expression, without sizes of tensors: samplers deal every rank as many samples."""
    waiting = [expression]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Call) and last_word(node.func) in _SIZES:
            continue
        yield node
        waiting += [] if isinstance(node, ast.Attribute) and node.attr == "shape" else ast.iter_child_nodes(node)


def _is_dealt(loader: Place) -> bool:
    """Whether a loader certainly deals the samples: an Accelerator has prepared it, or it has a DistributedSampler."""
    made = [maker.call for maker in makers(loader)]
    return bool(made) and all(call is not None and _deals(call) for call in made)


def _deals(made: Place) -> bool:
    function = made.node.func if isinstance(made.node, ast.Call) else None
    if isinstance(function, ast.Attribute) and function.attr in _PREPARES:
        return kinds(made.at(function.value)) == {"accelerator"}
    if called(made) not in _LOADERS:
        return False
    samplers = [way.end for item in passed(call_at(made, called(made)), "sampler", 3) for way in ways(item.place)]
    return bool(samplers) and all(isinstance(end, Place) and called(end) in SAMPLERS for end in samplers)
