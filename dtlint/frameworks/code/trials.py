"""Loops that try a model out: a few rounds, each timed, and no training."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.constants import evaluate
from dtlint.languages.python.places import Place
from dtlint.value import Choice, Setting, Value

MOST_ROUNDS = 100
"""Rounds of a loop that is over before it trains anything."""

_CLOCKS = (
    "time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "process_time", "default_timer",
    "elapsed_time", "record",
)  # fmt: skip
"""Calls by which a loop measures time."""
_TAKE = ("range", "islice")
"""Iterators that are over after a number of rounds, which is the last of their first two arguments."""


def measures(loop: ast.AST) -> bool:
    """Whether a loop, or a function, asks a clock."""
    inside = (node.func for node in ast.walk(loop) if isinstance(node, ast.Call))
    return any(_last_name(function) in _CLOCKS for function in inside)


def is_trial(place: Place, loop: ast.AST) -> bool:
    """Whether a loop at a place goes through what is listed there (kinds of numbers), or is timed and over after a few
    rounds: by its range, or by a break at a round.
    """
    if isinstance(loop, ast.For) and isinstance(loop.iter, ast.Tuple | ast.List):
        return True
    return measures(loop) and any(_is_few(evaluate(place.at(end))) for end in _ends(loop))


def _is_few(rounds: Setting) -> bool:
    if isinstance(rounds, Choice):
        return all(_is_few(option.value) for option in rounds.options)
    return isinstance(rounds, Value) and isinstance(rounds.value, int) and 0 < rounds.value <= MOST_ROUNDS


def _ends(loop: ast.AST) -> Iterator[ast.expr]:
    """What says after how many rounds a loop is over."""
    if not isinstance(loop, ast.For):
        return
    for node in ast.walk(loop.iter):
        if isinstance(node, ast.Call) and _last_name(node.func) in _TAKE and node.args:
            yield node.args[:2][-1]
    counters = {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
    left = (each.test for each in loop.body if isinstance(each, ast.If) and isinstance(each.body[-1], ast.Break))
    for test in left:
        if isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id in counters:
            yield test.comparators[0]


def _last_name(function: ast.expr) -> str:
    """`record` of `started[trial].record`."""
    return function.attr if isinstance(function, ast.Attribute) else dotted(function)
