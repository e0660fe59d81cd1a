"""Finds the step for what is left over at the end of an epoch, where the exchange of its batch is off."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtlint.frameworks.code.counting import Turn, counter_of, worth
from dtlint.frameworks.code.mentions import turned_over
from dtlint.frameworks.code.microsteps import SAMPLED, Switch, holds_on, outermost, turns
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.names import lookup
from dtlint.languages.python.places import Budget, Place
from dtlint.languages.python.reaching import reaching
from dtlint.languages.python.tree import Guard, Site
from dtlint.record import NamedTuple

_LENGTHS = (113, 127)
"""Numbers of batches that stand in for one that the files do not tell: no accumulation divides them."""
_MAX_NAMES = 4

Conditions = list[tuple[Place, Guard]]


class Tail(NamedTuple):
    """The last batch, on which the optimizer steps in any case: how many there are, and of how many steps it is one;
    None where the files do not tell.
    """

    length: int | None
    accumulation: int | None


def tail_of(switch: Switch, off: Conditions, on: Conditions, unknowns: frozenset[str]) -> Tail | None:
    """The last batch of a loop, if the optimizer steps on it by a condition of its own and the exchange is off there;
    None where any other step is not exchanged, or nothing tells.
    """
    here = outermost(switch.place)
    ends = [end for place, guard in on if guard.test is not None for end in _ends(place, guard.test, 0)]
    if len(ends) != 1 or counter_of(here, switch.loop) is None:
        return None
    end = ends[0]
    counted = _counts_batches(here, switch.loop, end)
    length = None if counted else worth(end._replace(budget=Budget()), Turn({}, unknowns, 0))
    if length is None and not counted:
        return None
    texts = frozenset((end.module.text(counted),)) if counted else frozenset()
    samples = SAMPLED if unknowns else SAMPLED[:1]
    tried = ((number, every) for number in ((length,) if length else _LENGTHS) for every in samples)
    if not all(_is_off(switch, (off, on), (unknowns, every), (texts, number)) for number, every in tried):
        return None
    return Tail(length, None if unknowns else _accumulation(on))


def _ends(place: Place, test: ast.AST, depth: int) -> Iterator[Place]:
    """What a condition compares for equality but for remainders: `len(loader)` of `(i + 1) % 8 == 0 or i + 1 ==
    len(loader)`, names followed.
    """
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
        for part in test.values:
            yield from _ends(place, part, depth)
    elif isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
        yield from _compared(place, test)
    elif isinstance(test, ast.Name) and depth < _MAX_NAMES:
        yield from (end for inner in _values(place, test.id) for end in _ends(inner, inner.node, depth))


def _compared(place: Place, test: ast.Compare) -> Iterator[Place]:
    """The end of a comparison that holds no remainder: `len(loader) - 1` of `i == len(loader) - 1`."""
    sides = (test.left, test.comparators[0])
    if not any(isinstance(node, ast.Mod) for side in sides for node in ast.walk(side)):
        yield place.at(sides[1])


def _values(place: Place, name: str) -> Iterator[Place]:
    holder, bindings = lookup(place.scope, name)
    if holder is None:
        return
    for binding, _ in reaching(place, holder, bindings):
        if binding.kind == "value" and isinstance(binding.node, ast.expr) and not binding.path:
            yield place._replace(scope=holder, node=binding.node)


def _counts_batches(place: Place, loop: ast.For, end: Place) -> ast.Call | None:
    """`len(loader)` in an end, where the loop turns over the loader."""
    batches = {dotted(iterable) for iterable in turned_over(Site(loop, place.scope, (), (loop,)))} - {""}
    for value in (end, *(inner for name in _names(end) for inner in _values(end, name))):
        for node in ast.walk(value.node):
            if isinstance(node, ast.Call) and dotted(node.func) == "len" and dotted(node.args[0]) in batches:
                return node
    return None


def _names(end: Place) -> Iterator[str]:
    return (node.id for node in ast.walk(end.node) if isinstance(node, ast.Name))


def _is_off(
    switch: Switch,
    conditions: tuple[Conditions, Conditions],
    accumulation: tuple[frozenset[str], int],
    counted: tuple[frozenset[str], int],
) -> bool:
    """Whether of the steps that a loop of so many batches makes the one on the last is not exchanged, and it alone."""
    (off, on), length = conditions, counted[1]
    here = outermost(switch.place)
    first = [turn._replace(counts=counted[0], length=length) for turn in turns(here, switch.loop, *accumulation)]
    start = min((min(turn.counters.values()) for turn in first), default=0)
    last = Turn(dict.fromkeys(first[0].counters, start + length - 1), *accumulation, *counted) if first else None
    if last is None or holds_on(on, last) is not True or holds_on(off, last) is not True:
        return False
    before = [turn for turn in first[: length - 1] if holds_on(on, turn) is not False]
    return bool(before) and all(holds_on(off, turn) is False for turn in before)


def _accumulation(on: Conditions) -> int | None:
    """A of `(i + 1) % A == 0` in a condition, names followed."""
    tested = [place.at(guard.test) for place, guard in on if guard.test is not None]
    told = [*tested, *(value for test in tested for name in _names(test) for value in _values(test, name))]
    found = {
        worth(place.at(node.right)._replace(budget=Budget()), Turn({}, frozenset(), 0))
        for place in told
        for node in ast.walk(place.node)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod)
    }
    return found.pop() if len(found) == 1 else None
