"""Arithmetic and comparison of what expressions work on: plain values, intervals, and Unknown."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, cast

from dtlint import interval
from dtlint.interval import Interval
from dtlint.rulebook.syntax import LARGEST_INTEGER
from dtlint.value import Plain, Unknown

Operand = Plain | Interval | Unknown
"""What an expression works on and gives."""

Truth = bool | Unknown

OPEN = Unknown("the bounds of what is assumed leave it open")
"""A comparison that holds for some numbers of an interval and not for others."""

_DIVIDED_BY_ZERO = Unknown("a division by zero")
_TOO_LARGE = Unknown("a number too large to compute with")


def as_interval(value: Operand) -> Interval | None:
    """A number or an interval as an interval; None for anything else."""
    if isinstance(value, Interval):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return Interval(value, value)
    return None


def arithmetic(symbol: str, left: Operand, right: Operand) -> Operand:
    """`left symbol right` for + - * / // %, as Python computes it for numbers; Unknown where either is, or where
    there is no result.
    """
    if isinstance(left, Unknown):
        return left
    if isinstance(right, Unknown):
        return right
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        return _point(symbol, left, right)
    first, second = as_interval(left), as_interval(right)
    if first is None or second is None:
        return Unknown(f"{shown(right if second is None else left)} is not a number")
    return _ranges(symbol, first, second)


def negative(value: Operand) -> Operand:
    """`-value`."""
    return arithmetic("-", 0, value) if isinstance(value, Interval) else arithmetic("*", value, -1)


def compare(symbol: str, left: Operand, right: Operand) -> Truth:
    """`left symbol right` for == != < <= > >= in, `not in`: true, false, or Unknown where it is not decided."""
    if isinstance(left, Unknown):
        return left
    if isinstance(right, Unknown):
        return right
    if symbol in ("in", "not in"):
        return _contained(left, right) if symbol == "in" else negation(_contained(left, right))
    if isinstance(left, Interval) or isinstance(right, Interval):
        return _compare_ranges(symbol, left, right)
    if symbol in ("==", "!=") or _ordered(left, right):
        return bool(_COMPARISONS[symbol](left, right))
    return Unknown(f"{shown(left)} and {shown(right)} have no order")


def negation(truth: Truth) -> Truth:
    """`not truth`; not knowing stays not knowing."""
    return truth if isinstance(truth, Unknown) else not truth


def as_truth(value: Operand) -> Truth:
    """A flag as a truth; Unknown for what is no flag (a number is not taken for one)."""
    if isinstance(value, (bool, Unknown)):
        return value
    return Unknown(f"{shown(value)} is neither true nor false")


def shown(value: Operand) -> str:
    """A value as messages show it."""
    if isinstance(value, Interval):
        return f"{value.low:g}-{value.high:g}"
    if isinstance(value, Unknown):
        return "?"
    return (
        {True: "true", False: "false", None: "none"}[value] if value is None or isinstance(value, bool) else str(value)
    )


def _point(symbol: str, left: float, right: float) -> Operand:
    if not (_fits(left) and _fits(right)):
        return _TOO_LARGE
    try:
        result: float = _ARITHMETIC[symbol](left, right)
    except ZeroDivisionError:
        return _DIVIDED_BY_ZERO
    return result if _fits(result) else _TOO_LARGE


def _fits(number: float) -> bool:
    return isinstance(number, float) or -LARGEST_INTEGER <= number <= LARGEST_INTEGER


def _ranges(symbol: str, first: Interval, second: Interval) -> Operand:
    if not (interval.finite(first) and interval.finite(second)):
        return _TOO_LARGE
    if symbol in _INTERVAL_ARITHMETIC:
        return _INTERVAL_ARITHMETIC[symbol](first, second)
    quotient = interval.divide(first, second)
    if quotient is None:
        return _DIVIDED_BY_ZERO
    if symbol == "/":
        return quotient
    whole = interval.rising(lambda number: number // 1, quotient)
    return whole if symbol == "//" else _remainder(first, second, whole)


def _remainder(first: Interval, second: Interval, whole: Interval) -> Operand:
    """first % second: within one period it rises with `first`; over several it takes every value below the divisor."""
    if not second.exact:
        return OPEN
    if whole.exact:
        return Interval(first.low % second.low, first.high % second.low)
    return interval.hull((0, second.low))


def _compare_ranges(symbol: str, left: Operand, right: Operand) -> Truth:
    first, second = as_interval(left), as_interval(right)
    if first is None or second is None:
        return symbol == "!=" if symbol in ("==", "!=") else Unknown(f"{shown(left)} and {shown(right)} have no order")
    verdict = _RANGE_COMPARISONS[symbol](first, second)
    return OPEN if verdict is None else verdict


def _contained(member: Operand, container: Operand) -> Truth:
    if isinstance(container, str):
        return member in container if isinstance(member, str) else False
    if isinstance(container, Interval) or not isinstance(container, tuple):
        return Unknown(f"{shown(container)} is not a list")
    verdicts = [compare("==", member, cast("Operand", other)) for other in container]
    if any(verdict is True for verdict in verdicts):
        return True
    return next((verdict for verdict in verdicts if isinstance(verdict, Unknown)), False)


def _ordered(left: Operand, right: Operand) -> bool:
    return (isinstance(left, (int, float)) and isinstance(right, (int, float))) or (
        isinstance(left, str) and isinstance(right, str)
    )


def _not(verdict: bool | None) -> bool | None:
    return None if verdict is None else not verdict


_ARITHMETIC: Mapping[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
}

_INTERVAL_ARITHMETIC: Mapping[str, Callable[[Interval, Interval], Interval]] = {
    "+": interval.add,
    "-": interval.subtract,
    "*": interval.multiply,
}

_COMPARISONS: Mapping[str, Callable[[Any, Any], object]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

_RANGE_COMPARISONS: Mapping[str, Callable[[Interval, Interval], bool | None]] = {
    "==": interval.equal,
    "!=": lambda first, second: _not(interval.equal(first, second)),
    "<": interval.below,
    "<=": lambda first, second: _not(interval.below(second, first)),
    ">": lambda first, second: interval.below(second, first),
    ">=": lambda first, second: _not(interval.below(first, second)),
}
