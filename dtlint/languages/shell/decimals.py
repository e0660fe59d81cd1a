"""Decimal arithmetic as bc does it: every division is cut off at `scale` digits."""

from __future__ import annotations

from decimal import ROUND_DOWN, Context, Decimal, DecimalException

CONTEXT = Context(prec=60)
COMPARED = frozenset(("<", ">", "<=", ">=", "==", "!="))
MAX_TOKENS = 100


def decimal_value(tokens: list[str], scale: int) -> str | None:
    """The value of the tokens of an expression as bc prints it, None if they are none."""
    if len(tokens) > MAX_TOKENS:
        return None
    waiting = list(tokens)
    try:
        value = _comparison(waiting, scale)
    except (IndexError, DecimalException):
        return None
    return None if waiting else _printed(value)


def _printed(value: Decimal) -> str:
    text = format(value, "f")
    sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
    if value == 0:
        return "0"
    return sign + (digits[1:] if digits.startswith("0.") else digits)


def _comparison(tokens: list[str], scale: int) -> Decimal:
    left = _sum(tokens, scale)
    if tokens and tokens[0] in COMPARED:
        operator = tokens.pop(0)
        right = _sum(tokens, scale)
        answers = {
            "<": left < right,
            ">": left > right,
            "<=": left <= right,
            ">=": left >= right,
            "==": left == right,
            "!=": left != right,
        }
        return Decimal(int(answers[operator]))
    return left


def _sum(tokens: list[str], scale: int) -> Decimal:
    value = _product(tokens, scale)
    while tokens and tokens[0] in ("+", "-"):
        operator = tokens.pop(0)
        right = _product(tokens, scale)
        value = CONTEXT.add(value, right) if operator == "+" else CONTEXT.subtract(value, right)
    return value


def _places(value: Decimal) -> int:
    exponent = value.as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _cut_off(value: Decimal, places: int) -> Decimal:
    return value.quantize(Decimal(1).scaleb(-places), rounding=ROUND_DOWN, context=CONTEXT)


def _product(tokens: list[str], scale: int) -> Decimal:
    value = _power(tokens, scale)
    while tokens and tokens[0] in ("*", "/", "%"):
        operator = tokens.pop(0)
        right = _power(tokens, scale)
        if operator == "*":
            most = max(scale, _places(value), _places(right))
            value = _cut_off(CONTEXT.multiply(value, right), min(_places(value) + _places(right), most))
        elif operator == "/":
            value = _cut_off(CONTEXT.divide(value, right), scale)
        else:
            quotient = _cut_off(CONTEXT.divide(value, right), scale)
            value = CONTEXT.subtract(value, CONTEXT.multiply(quotient, right))
    return value


def _power(tokens: list[str], scale: int) -> Decimal:
    base = _unary(tokens, scale)
    if tokens and tokens[0] in ("^", "**"):
        tokens.pop(0)
        return CONTEXT.power(base, _power(tokens, scale))
    return base


def _unary(tokens: list[str], scale: int) -> Decimal:
    token = tokens.pop(0)
    if token == "-":
        return -_unary(tokens, scale)
    if token == "(":
        value = _comparison(tokens, scale)
        if tokens.pop(0) != ")":
            raise IndexError
        return value
    return Decimal(token)
