"""Values of operations: arithmetic, comparisons, `and`, `or` and `not`, and texts with values in them."""

from __future__ import annotations

import ast

from dtlint.languages.python.arithmetic import Known, calculated, compared, computed
from dtlint.languages.python.choices import over
from dtlint.languages.python.objects import Evaluate
from dtlint.languages.python.places import Place, unknown
from dtlint.value import Setting, Unknown, Value


def formatted(place: Place, node: ast.JoinedStr, evaluate: Evaluate) -> Setting:
    """`f"{prefix}.dp"` of words and whole numbers."""
    if any(isinstance(part, ast.FormattedValue) and (part.format_spec or part.conversion >= 0) for part in node.values):
        return unknown(place, "a text that is made when the script runs")
    parts = [part.value if isinstance(part, ast.FormattedValue) else part for part in node.values]
    return over(place, [evaluate(place.inner(part)) for part in parts], lambda known: _text(place, known))


def _text(place: Place, parts: list[Known]) -> Known:
    known = [part for part in parts if isinstance(part, Value) and isinstance(part.value, str | int)]
    if len(known) < len(parts):
        return unknown(place, "a text that is made when the script runs")
    return computed(place, "".join(str(part.value) for part in known), *known)


def binary(place: Place, node: ast.BinOp, evaluate: Evaluate) -> Setting:
    """`a + b`."""
    sides = [evaluate(place.inner(node.left)), evaluate(place.inner(node.right))]
    return over(place, sides, lambda known: calculated(place, node.op, known[0], known[1]))


def unary(place: Place, node: ast.UnaryOp, evaluate: Evaluate) -> Setting:
    """`-a`, `not a`."""
    return over(place, [evaluate(place.inner(node.operand))], lambda known: _negated(place, node.op, known[0]))


def _negated(place: Place, operation: ast.unaryop, inner: Known) -> Known:
    if isinstance(inner, Unknown):
        return inner._replace(means="")
    if isinstance(operation, ast.Not):
        return computed(place, not inner.value, inner)
    if isinstance(operation, ast.USub) and isinstance(inner.value, int | float):
        return computed(place, -inner.value, inner)
    return unknown(place, "computed when the script runs")


def boolean(place: Place, node: ast.BoolOp, evaluate: Evaluate) -> Setting:
    """`a or b`, `a and b`: the first operand that decides it."""
    decisive = isinstance(node.op, ast.Or)
    values: list[Setting] = []
    for operand in node.values:
        value = evaluate(place.inner(operand))
        values.append(value)
        if isinstance(value, Value) and bool(value.value) is decisive:
            break
    return over(place, values, lambda known: _decided(known, decisive))


def _decided(values: list[Known], decisive: bool) -> Known:
    """`unknown and False` is false, `unknown or True` is true; another value behind an unknown one is not certain.

    A count of the cluster is not zero: `device_count() or 1` is the count.
    """
    open_operand: Unknown | None = None
    for value in values:
        if isinstance(value, Unknown) and value.means and open_operand is None:
            if decisive:
                return value
        elif isinstance(value, Unknown):
            open_operand = open_operand or value._replace(means="")
        elif bool(value.value) is decisive:
            return value if open_operand is None or isinstance(value.value, bool) else open_operand
    return open_operand or values[-1]


def compare(place: Place, node: ast.Compare, evaluate: Evaluate) -> Setting:
    """`a < b`."""
    if len(node.ops) > 1:
        return unknown(place, "a comparison of several values")
    sides = [evaluate(place.inner(node.left)), evaluate(place.inner(node.comparators[0]))]
    return over(place, sides, lambda known: _compared(place, node.ops[0], known[0], known[1]))


def _compared(place: Place, comparison: ast.cmpop, left: Known, right: Known) -> Known:
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return unknown(place, "a comparison with something unknown")
    return compared(place, comparison, left, right)
