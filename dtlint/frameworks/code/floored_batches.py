"""Finds accumulations that a program works out from the number of ranks, and rounds down: `code.floored_batches`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from math import prod

from dtlint.frameworks import Member
from dtlint.frameworks.code.loss_factors import counts_ranks
from dtlint.frameworks.code.mentions import mentions
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.constants import evaluate
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import stands
from dtlint.languages.python.tree import Site
from dtlint.record import NamedTuple
from dtlint.value import Value, written

_ACCUMULATION = re.compile(r"accum|micro_?(?:steps|batches)|(?:^|_)gas$", re.IGNORECASE)
"""Spellings of the number of batches that make up a step."""
_CHECKED = re.compile(r"assert\b[^\n]{0,120}%|%[^\n]{0,80}(?:world|num_processes|gpus|ranks)", re.IGNORECASE)
"""Words of programs that look at the remainder themselves."""
_WHOLE = frozenset(("int", "max", "math.floor", "floor"))
"""Functions that leave a quotient as it is where it is a whole number and not too small."""


class Quotient(NamedTuple):
    """An expression that is one number divided by others."""

    over: Place
    under: tuple[Place, ...]


def floored_batches(program: Program) -> tuple[Member, ...]:
    """The collection `code.floored_batches`: `total`, the batch of a step that all ranks share, and `each`, what a rank
    takes of it at once, where the program takes `total // (each * ranks)` such turns, `least` of them at least, and
    looks at no remainder.
    """
    if mentions(program, _CHECKED):
        return ()
    found = (_member(place) for place in _accumulations(program))
    return tuple(member for member in found if member is not None)


def _accumulations(program: Program) -> Iterator[Place]:
    """The values that are given to names of accumulations, where they are quotients rounded down."""
    for module in program.modules.values():
        for scope in module.scopes if "/" in module.source.text else ():
            for name, bindings in scope.bindings.items() if scope.bindings else ():
                for binding in bindings if _ACCUMULATION.search(name.rpartition(".")[2]) else ():
                    if binding.kind == "value" and isinstance(binding.node, ast.expr) and not binding.path:
                        yield place_of(program, module, Site(binding.node, scope, binding.guards, ()))


def _member(place: Place) -> Member | None:
    return None if stands(place) is False else shared_among_ranks(place)


def shared_among_ranks(place: Place) -> Member | None:
    """How often a rank takes its part of a batch that all ranks share, where an expression works that out and rounds it
    down: `total`, `each` and `least` as above; None for any other expression.
    """
    inner, least = _unwrapped(place.node)
    quotient = _quotient(place.at(inner))
    if quotient is None:
        return None
    ranks = [each for each in quotient.under if counts_ranks(each) is True]
    others = [_number(each) for each in quotient.under if each not in ranks]
    total = _number(quotient.over)
    if len(ranks) != 1 or not others or total is None or not all(others):
        return None
    span = place.module.span(place.node)
    each = prod(number for number in others if number is not None)
    return Member(span, {"total": written(total, span), "each": written(each, span), "least": written(least, span)})


def _unwrapped(node: ast.AST) -> tuple[ast.AST, int]:
    """What is rounded, and the least that it may be: of `max(1, int(a / b))` the quotient, and 1."""
    least = 0
    while isinstance(node, ast.Call) and dotted(node.func) in _WHOLE:
        inner = [each for each in node.args if not isinstance(each, ast.Constant)]
        if len(inner) != 1:
            break
        bounds = [each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, int)]
        node, least = inner[0], max(least, *bounds, 0)
    return node, least


def _quotient(place: Place) -> Quotient | None:
    """`a // (b * c)`, `a // b // c`."""
    node = place.node
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.FloorDiv | ast.Div):
        return None
    under = tuple(_factors(place.at(node.right)))
    inner = _quotient(place.at(node.left))
    return Quotient(place.at(node.left), under) if inner is None else Quotient(inner.over, (*inner.under, *under))


def _factors(place: Place) -> Iterator[Place]:
    node = place.node
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        yield from _factors(place.at(node.left))
        yield from _factors(place.at(node.right))
    else:
        yield place


def _number(place: Place) -> int | None:
    value = evaluate(place._replace(budget=place.budget.anew()))
    known = isinstance(value, Value) and isinstance(value.value, int) and not isinstance(value.value, bool)
    return value.value if known and isinstance(value, Value) and isinstance(value.value, int) else None
