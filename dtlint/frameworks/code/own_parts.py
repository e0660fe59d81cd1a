"""Finds the parts of what ranks share that a loop goes through on each: `range(rank, n, world)`, turns by number."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtlint.frameworks.code.blocks import is_number_of_ranks
from dtlint.frameworks.code.how_many import how_many
from dtlint.frameworks.code.mentions import bare
from dtlint.frameworks.code.ranks import is_rank
from dtlint.frameworks.code.shards import Shard, shards_in, strides
from dtlint.languages.python.bindings import dotted, last_word
from dtlint.languages.python.constants import evaluate
from dtlint.languages.python.following import ways
from dtlint.languages.python.names import lookup
from dtlint.languages.python.places import Budget, Place
from dtlint.languages.python.tree import Guard, Site
from dtlint.record import NamedTuple
from dtlint.value import Value

_SPLITTER, _FILLS = "split_between_processes", "apply_padding"
"""Accelerate's context that hands each rank a part, the first ones one more than the others, unless it fills them up
with the last (accelerate 0.20.3 to 1.15.0 state.py, PartialState.split_between_processes).
"""
Loop = ast.For | ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp


class Part(NamedTuple):
    """What a rank takes, where the loop turns over it, and how many things the ranks share, where that is known."""

    shard: Shard
    place: Place
    shared: int | None = None


def parts_around(place: Place, site: Site) -> Iterator[Part]:
    """The parts that the loops around a call turn over, and those that a condition in them picks by number."""
    here = place._replace(guards=(), budget=Budget())
    for loop in loops_around(site):
        for iterable in _iterables(loop):
            yield from _in_iterable(here.at(bare(iterable)))
    for guard in site.guards if loops_around(site) else ():
        if _is_turn(here, guard) and guard.test is not None:
            yield Part(Shard(here.at(guard.test)), here.at(guard.test))


def loops_around(site: Site) -> list[Loop]:
    """The loops around a call that turn over something, and the comprehensions that it stands in."""
    return [loop for loop in site.loops if isinstance(loop, Loop)]


def _iterables(loop: Loop) -> list[ast.expr]:
    return [loop.iter] if isinstance(loop, ast.For) else [part.iter for part in loop.generators]


def _in_iterable(here: Place) -> Iterator[Part]:
    yield from (Part(shard, here) for shard in shards_in(here))
    yield from _handed_out(here)
    for end in (way.end for way in ways(here)):
        if not isinstance(end, Place):
            continue
        if strides(end):
            yield Part(Shard(end), here, _strided(end))
        elif isinstance(end.node, ast.ListComp) and any(_picks(end, test) for test in end.node.generators[0].ifs):
            yield Part(Shard(end), here, how_many(end.at(bare(end.node.generators[0].iter))))


def _strided(end: Place) -> int | None:
    """The number behind the last one of `range(rank, n, world)`."""
    node = end.node
    if not (isinstance(node, ast.Call) and dotted(node.func) == "range" and len(node.args) == 3):
        return None
    last = evaluate(end.at(node.args[1]))
    certain = isinstance(last, Value) and last.origin.kind == "written"
    return last.value if certain and isinstance(last, Value) and isinstance(last.value, int) else None


def _handed_out(here: Place) -> Iterator[Part]:
    """`with accelerator.split_between_processes(prompts) as mine:`, where nothing fills the parts up."""
    holder, bindings = lookup(here.scope, here.node.id) if isinstance(here.node, ast.Name) else (None, ())
    for binding in bindings if holder is not None else ():
        call = binding.node
        if binding.kind != "opaque" or not isinstance(call, ast.Call) or last_word(call.func) != _SPLITTER:
            continue
        filled = len(call.args) > 1 or any(keyword.arg in (_FILLS, None) for keyword in call.keywords)
        if holder is not None and call.args and not filled:
            made = here._replace(scope=holder, node=call)
            yield Part(Shard(made), here, how_many(made.at(call.args[0])))


def _is_turn(here: Place, guard: Guard) -> bool:
    """Whether a condition lets a rank take its own turns: `i % world == rank`, and what stands behind
    `if i % world != rank: continue`.
    """
    if not isinstance(guard.test, ast.Compare) or len(guard.test.ops) != 1:
        return False
    wanted = ast.Eq if guard.holds else ast.NotEq
    return isinstance(guard.test.ops[0], wanted) and _compares(here, guard.test)


def _picks(end: Place, test: ast.expr) -> bool:
    inside = next((scope for scope in end.scope.inner if scope.node is end.node), end.scope)
    return _is_turn(end._replace(scope=inside), Guard(test, True))


def _compares(here: Place, test: ast.Compare) -> bool:
    """Whether what is left of a number divided by the number of ranks is compared with the rank."""
    for left, right in ((test.left, test.comparators[0]), (test.comparators[0], test.left)):
        if isinstance(left, ast.BinOp) and isinstance(left.op, ast.Mod) and is_rank(here.at(right), 0):
            return is_number_of_ranks(here.at(left.right))
    return False
