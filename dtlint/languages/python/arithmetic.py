"""Arithmetic and comparisons over known values, bounded: a hostile file may ask for 9**9**9."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping

from dtlint.languages.python.places import Place, unknown
from dtlint.value import Choice, Origin, Plain, Setting, Unknown, Value

Known = Value | Unknown

_MAX_BITS = 128
_MAX_TEXT = 4_000

_ARITHMETIC: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_COMPARISONS: Mapping[type[ast.cmpop], Callable[[Plain, Plain], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.eq,
    ast.IsNot: operator.ne,
}


def written(place: Place, value: Plain) -> Value:
    """A value that stands at a place."""
    return Value(value, Origin("written", place.module.span(place.node), place.chain))


def computed(place: Place, value: Plain, *parts: Value) -> Value:
    """A value that follows from others at a place; assumed if one of them is."""
    soft = next((part.origin for part in parts if part.origin.kind == "assumed"), None)
    span = place.module.span(place.node)
    if soft is not None:
        return Value(value, Origin("assumed", span, place.chain, soft.note, soft.how))
    return Value(value, Origin("written", span, place.chain))


def as_sure_as(value: Setting, key: Value) -> Setting:
    """What a key picks, no surer than the key: an item looked up by a default is assumed as the default is."""
    if isinstance(value, Choice):
        return Choice(tuple(option._replace(value=_no_surer(option.value, key)) for option in value.options))
    return _no_surer(value, key)


def _no_surer(value: Known, key: Value) -> Known:
    if not isinstance(value, Value) or key.origin.kind != "assumed" or value.origin.kind == "assumed":
        return value
    told = key.origin
    return value._replace(origin=value.origin._replace(kind="assumed", note=told.note, how=told.how))


def calculated(place: Place, operation: ast.operator, left: Known, right: Known) -> Known:
    """The result of an arithmetic operator; unknown where an operand is, or where it would grow out of bounds."""
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return _symbolic(operation, left, right)
    a, b = left.value, right.value
    function = _ARITHMETIC.get(type(operation))
    if isinstance(a, str) and isinstance(b, str) and function is operator.add and len(a) + len(b) < _MAX_TEXT:
        return computed(place, a + b, left, right)
    if isinstance(a, tuple) and isinstance(b, tuple) and function is operator.add and len(a) + len(b) < _MAX_TEXT:
        return computed(place, a + b, left, right)
    if (
        function is None
        or not isinstance(a, int | float)
        or not isinstance(b, int | float)
        or _too_large(function, a, b)
    ):
        return unknown(place, "computed when the script runs")
    try:
        return computed(place, function(a, b), left, right)
    except (ArithmeticError, ValueError):
        return unknown(place, "the arithmetic fails")


_SYMBOLS: Mapping[type[ast.operator], str] = {ast.Mult: "*", ast.FloorDiv: "//"}


def _symbolic(operation: ast.operator, left: Known, right: Known) -> Unknown:
    """`world_size // 8`: a share or a multiple of a setting of the cluster means something too."""
    symbol = _SYMBOLS.get(type(operation), "")
    words = [_meaning(left), _meaning(right)]
    doubt = left if isinstance(left, Unknown) else right if isinstance(right, Unknown) else Unknown("")
    if not symbol or not all(words) or " " in words[1]:
        return doubt._replace(means="")
    return doubt._replace(means=f"{words[0]} {symbol} {words[1]}")


def _meaning(value: Known) -> str:
    """The setting that an unknown stands for, or a positive number as it is written; "" for anything else."""
    if isinstance(value, Unknown):
        return value.means
    whole = isinstance(value.value, int) and not isinstance(value.value, bool) and value.value > 0
    return str(value.value) if whole else ""


def _too_large(function: Callable[[float, float], float], a: float, b: float) -> bool:
    if function is operator.pow:
        return abs(a) > 1e6 or abs(b) > _MAX_BITS or (a < 0 and not float(b).is_integer())
    return any(isinstance(item, int) and item.bit_length() > _MAX_BITS for item in (a, b))


def compared(place: Place, comparison: ast.cmpop, left: Value, right: Value) -> Known:
    """The result of one comparison of two known values."""
    a, b = left.value, right.value
    function = _COMPARISONS.get(type(comparison))
    if function is not None:
        return computed(place, function(a, b), left, right)
    if isinstance(comparison, ast.In | ast.NotIn) and isinstance(b, tuple):
        return computed(place, (a in b) is isinstance(comparison, ast.In), left, right)
    if isinstance(a, int | float) and isinstance(b, int | float):
        return computed(place, _ordered(comparison, a, b), left, right)
    return unknown(place, "a comparison that is made when the script runs")


def _ordered(comparison: ast.cmpop, left: float, right: float) -> bool:
    if isinstance(comparison, ast.Lt | ast.GtE):
        return (left < right) is isinstance(comparison, ast.Lt)
    return (left > right) is isinstance(comparison, ast.Gt)
