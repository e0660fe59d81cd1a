"""Tells whether a rank that skips a backward pass makes it up: the loops end by each rank's own count of them."""

from __future__ import annotations

import ast

from dtlint.frameworks.code.reached import Search
from dtlint.frameworks.code.sharded_loads import LOADS
from dtlint.frameworks.pytorch.names import DDP, FSDP1, FSDP2
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.calls import calls
from dtlint.languages.python.names import qualified
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import stands
from dtlint.languages.python.tree import Scope, Site

_IN_FORWARD = (*FSDP1, *FSDP2, "deepspeed.initialize")
"""What exchanges weights in the forward pass, so that a pass without the backward one leaves the others waiting."""


def makes_up(place: Place, loop: ast.For | ast.While, leaving: ast.stmt) -> bool:
    """Whether a rank that leaves a turn of a loop goes backward with its next batch where the others do with this one,
    and all come to the same number of passes: no other collective lies between, and DDP alone exchanges.
    """
    around = _around(place.scope, loop)
    again = isinstance(leaving, ast.Continue) or (isinstance(leaving, ast.Break) and around[0] is not loop)
    if not again or not _is_ddp_alone(place.program):
        return False
    counters = _counters(around[0], loop, leaving)
    return _ends_by(place, around[0], counters) and not _meets(place, around[0], loop, leaving)


def _around(scope: Scope, loop: ast.AST) -> tuple[ast.AST, ...]:
    """The loops of a function around a loop and itself, outermost first."""
    inside = next((site.loops for site in scope.sites if loop in site.loops), (loop,))
    return inside[: inside.index(loop) + 1]


def _is_ddp_alone(program: Program) -> bool:
    wrapped = any(stands(call.place) is not False for call in calls(program, DDP))
    return wrapped and not any(stands(call.place) is not False for call in calls(program, _IN_FORWARD))


def _counters(outermost: ast.AST, loop: ast.For | ast.While, leaving: ast.stmt) -> frozenset[str]:
    """The names that each full turn of a loop increases behind a statement, and nothing else in the loops sets."""
    behind = (node for node in loop.body if isinstance(node, ast.AugAssign) and node.lineno > leaving.lineno)
    increased = {dotted(node.target) for node in behind if isinstance(node.op, ast.Add)} - {""}
    stored = [dotted(node) for node in ast.walk(outermost) if _is_stored(node)]
    return frozenset(name for name in increased if stored.count(name) == 1)


def _is_stored(node: ast.AST) -> bool:
    return isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store)


def _ends_by(place: Place, loop: ast.AST, counters: frozenset[str]) -> bool:
    """Whether a loop ends by a counter alone: in its test, by a flag that is set under one, or where it is left."""
    test = loop.test if isinstance(loop, ast.While) else None
    if test is not None and _asks(test, counters):
        return True
    if isinstance(test, ast.Name):
        flag = [binding for binding in place.scope.bindings.get(test.id, ()) if loop in binding.loops]
        return bool(flag) and all(any(_asks(each.test, counters) for each in binding.guards) for binding in flag)
    exits = [site for site in place.scope.sites if isinstance(site.node, ast.Return) and loop in site.loops]
    return (
        _is_endless(place, loop)
        and bool(exits)
        and all(any(_asks(each.test, counters) for each in site.guards) for site in exits)
        and not _is_left(loop)
    )


def _is_endless(place: Place, loop: ast.AST) -> bool:
    """`while True`, `for epoch in itertools.count()`"""
    if isinstance(loop, ast.While):
        return isinstance(loop.test, ast.Constant) and bool(loop.test.value)
    source = loop.iter if isinstance(loop, ast.For) else None
    return isinstance(source, ast.Call) and qualified(place.module, source.func, place.scope) == ("itertools.count",)


def _is_left(loop: ast.AST) -> bool:
    """Whether a `break` of a loop's own ends it."""
    waiting = list(ast.iter_child_nodes(loop))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Break):
            return True
        waiting += [] if isinstance(node, ast.For | ast.While) else ast.iter_child_nodes(node)
    return False


def _asks(test: ast.expr | None, counters: frozenset[str]) -> bool:
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return any(_asks(value, counters) for value in test.values)
    return isinstance(test, ast.Compare) and any(dotted(part) in counters for part in (test.left, *test.comparators))


def _meets(place: Place, outermost: ast.AST, loop: ast.AST, leaving: ast.stmt) -> bool:
    """Whether a rank that leaves a turn comes to another collective before its next backward pass: at the end of an
    epoch, or in the forward pass, where DDP sends buffers.
    """
    search = Search(place.program)
    return any(
        search.operations(place_of(place.program, place.module, site)).difference(LOADS)
        for site in place.scope.sites
        if isinstance(site.node, ast.Call) and outermost in site.loops and not _is_behind(site, loop, leaving)
    )


def _is_behind(site: Site, loop: ast.AST, leaving: ast.stmt) -> bool:
    return loop in site.loops and getattr(site.node, "lineno", 0) > leaving.lineno
