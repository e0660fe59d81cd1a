"""Finds loops that go backward as often as a rank's own samples decide: parts of `code.divergences`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtlint.frameworks.code.mentions import passes, picked_by_rank
from dtlint.frameworks.code.open_lengths import Opened, agreeing_lines, is_held, opened, origins
from dtlint.frameworks.pytorch.names import FSDP1, FSDP2
from dtlint.languages.python.places import Budget, Place
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import standing
from dtlint.languages.python.tree import Scope
from dtlint.record import NamedTuple

_GATHERING = (*FSDP1, *FSDP2, "deepspeed.initialize")
"""What exchanges in every pass, whatever is accumulated without exchange."""
_LEVELS = 2


class Uneven(NamedTuple):
    """A loop that goes backward, in the function around it, what decides how often it turns, and the data of this rank
    that this comes of.
    """

    place: Place
    loop: ast.For
    opened: Opened
    data: Place


def uneven_loops(program: Program) -> Iterator[Uneven]:
    """The loops that turn over a list which this rank's own samples make longer or shorter, and over whose length the
    ranks do not agree first.
    """
    if _may_be_right(program):
        return
    told: set[int] = set()
    for place, site in passes(program):
        for loop in (loop for loop in site.loops if isinstance(loop, ast.For) and id(loop) not in told):
            here = place._replace(node=loop.iter, guards=(), budget=Budget())
            if any(line < loop.lineno for line in agreeing_lines(here.scope)) or _is_cut(here, loop):
                continue
            found = opened(here)
            own = next(_of_rank(found), None) if found is not None else None
            if found is not None and own is not None:
                told.add(id(loop))
                yield Uneven(here, loop, found, own)


def _is_cut(place: Place, loop: ast.For) -> bool:
    """Whether something may end a loop before its list does, or makes the list as long as it should be."""
    ends = (ast.Break, ast.Return, ast.Raise)
    lists = _names_behind(place.scope, loop.iter)
    return any(isinstance(node, ends) for node in ast.walk(loop)) or any(is_held(place.scope, name) for name in lists)


def _names_behind(scope: Scope, expression: ast.AST) -> set[str]:
    """The names of a function that how long an expression is rests on, and those that these are made of."""
    found: set[str] = set()
    waiting = [expression]
    while waiting:
        names = set(_measured(waiting.pop())) - found
        found |= names
        waiting += [each.node for name in names for each in scope.bindings.get(name, ()) if each.node is not None]
    return found


def _measured(node: ast.AST) -> Iterator[str]:
    """The names whose length, or number, decides how long a list is: of `[x[i : i + n] for i in range(0, len(x), n)]`
    x and n.
    """
    parts: list[ast.expr] = []
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.ListComp | ast.GeneratorExp):
        parts = [each.iter for each in node.generators]
    elif isinstance(node, ast.Call):
        parts = node.args
    elif isinstance(node, ast.BinOp):
        parts = [node.left, node.right]
    for part in parts:
        yield from _measured(part)


def _of_rank(found: Opened) -> Iterator[Place]:
    """The data that the number of this rank goes into."""
    for data in found.data:
        yield from (each for each in origins(data._replace(budget=Budget())) if picked_by_rank(each, _LEVELS))


def _may_be_right(program: Program) -> bool:
    """Whether a program lets ranks end early, or exchanges in some passes only."""
    words = {word for module in program.modules.values() for word in module.called}
    return "Join" in words or ("no_sync" in words and not standing(program, _GATHERING))
