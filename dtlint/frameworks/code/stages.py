"""What conditions in code say of DeepSpeed's ZeRO stage."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.tree import Guard

_STAGE = re.compile(r"(?:^|_)(?:zero_|zero_optimization_)?stage$", re.IGNORECASE)
_IS_THIRD = re.compile(r"zero_?(?:stage_?)?3|stage_?3", re.IGNORECASE)
_BELOW = {(ast.Lt, 3), (ast.LtE, 2), (ast.NotEq, 3), (ast.Eq, 0), (ast.Eq, 1), (ast.Eq, 2)}
_NOT_BELOW = {(ast.GtE, 3), (ast.Gt, 2), (ast.Eq, 3)}
"""Comparisons of the stage with a number that hold below stage 3 alone, and those that fail there."""


def is_below_stage_3(guards: Iterable[Guard]) -> bool:
    """Whether a place is reached below ZeRO-3 alone: `zero_stage != 3`, the else of `is_deepspeed_zero3_enabled()`."""
    return any(guard.test is not None and _says_below(guard.test, guard.holds) for guard in guards)


def _says_below(test: ast.expr, holds: bool) -> bool:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _says_below(test.operand, not holds)
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) is holds:
        return any(_says_below(value, holds) for value in test.values)
    if isinstance(test, ast.Compare):
        return _compared(test, holds)
    name = dotted(test.func if isinstance(test, ast.Call) else test)
    return not holds and _IS_THIRD.search(name.rpartition(".")[2]) is not None


def _compared(test: ast.Compare, holds: bool) -> bool:
    number = test.comparators[0]
    if len(test.ops) > 1 or not isinstance(number, ast.Constant) or not _STAGE.search(dotted(test.left)):
        return False
    return (type(test.ops[0]), number.value) in (_BELOW if holds else _NOT_BELOW)
