"""Parses shell arithmetic into a tree of small tuples."""

from __future__ import annotations

import re
from functools import lru_cache

from dtlint.languages.traced import UNKNOWN_CHARACTER
from dtlint.record import NamedTuple

TOKEN = re.compile(
    r"\s*(?:(\d+#[\w@]+|0[xX][0-9a-fA-F]+|\d+)|([A-Za-z_]\w*)"
    rf"|(<<=|>>=|\*\*|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&^|]=|[-+*/%&^|<>=!~?:,()\[\]]|{UNKNOWN_CHARACTER}))"
)
PRECEDENCE = {
    "||": 3, "&&": 4, "|": 5, "^": 6, "&": 7, "==": 8, "!=": 8, "<": 9, ">": 9, "<=": 9, ">=": 9,
    "<<": 10, ">>": 10, "+": 11, "-": 11, "*": 12, "/": 12, "%": 12, "**": 14,
}  # fmt: skip
ASSIGNING = frozenset(("=", "+=", "-=", "*=", "/=", "%=", "&=", "^=", "|=", "<<=", ">>="))
MAX_NESTING = 25
MAX_TOKENS = 200


class Number(NamedTuple):
    """An integer."""

    value: int


class Name:
    """A variable, perhaps with a subscript."""

    __slots__ = ("name", "subscript")

    def __init__(self, name: str, subscript: Expression | None = None) -> None:
        self.name = name
        self.subscript = subscript


class Hole(NamedTuple):
    """An unknown operand: the `number`-th of the expression."""

    number: int


class Unary:
    """`-x`, `!x`, `++x`."""

    __slots__ = ("operand", "operator")

    def __init__(self, operator: str, operand: Expression) -> None:
        self.operator = operator
        self.operand = operand


class Postfix(NamedTuple):
    """`x++`, `x--`."""

    operator: str
    operand: Name


class Binary:
    """`left operator right`, the comma and the assignments included."""

    __slots__ = ("left", "operator", "right")

    def __init__(self, operator: str, left: Expression, right: Expression) -> None:
        self.operator = operator
        self.left = left
        self.right = right


class Ternary:
    """`test ? yes : no`."""

    __slots__ = ("no", "test", "yes")

    def __init__(self, test: Expression, yes: Expression, no: Expression) -> None:
        self.test = test
        self.yes = yes
        self.no = no


Expression = Number | Name | Hole | Unary | Postfix | Binary | Ternary


class NotArithmetic(Exception):  # noqa: N818 - an answer, caught where expressions are evaluated
    """The text is no arithmetic expression."""


class _Tokens:
    """The tokens of an expression and the position among them."""

    __slots__ = ("at", "depth", "holes", "tokens")

    def __init__(self, text: str) -> None:
        self.tokens: list[str] = []
        self.at = 0
        self.depth = 0
        self.holes = 0
        at = 0
        stripped = text.rstrip()
        while at < len(stripped):
            match = TOKEN.match(stripped, at)
            if not match:
                raise NotArithmetic(stripped[at:])
            self.tokens.append(match[0].strip())
            at = match.end()
        if len(self.tokens) > MAX_TOKENS:
            raise NotArithmetic("too long")

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def expect(self, token: str) -> None:
        if self.take() != token:
            raise NotArithmetic(f"{token} expected")


@lru_cache(maxsize=512)
def parse_arithmetic(text: str) -> Expression:
    """The expression that `text` writes (empty: 0); NotArithmetic if it writes none."""
    tokens = _Tokens(text)
    if not tokens.tokens:
        return Number(0)
    expression = _comma(tokens)
    if tokens.peek():
        raise NotArithmetic(tokens.peek())
    return expression


def _comma(tokens: _Tokens) -> Expression:
    left = _assignment(tokens)
    while tokens.peek() == ",":
        tokens.take()
        left = Binary(",", left, _assignment(tokens))
    return left


def _assignment(tokens: _Tokens) -> Expression:
    tokens.depth += 1
    if tokens.depth > MAX_NESTING:
        raise NotArithmetic("nested too deep")
    left = _ternary(tokens)
    if tokens.peek() in ASSIGNING:
        if not isinstance(left, Name):
            raise NotArithmetic("only a variable is assigned to")
        left = Binary(tokens.take(), left, _assignment(tokens))
    tokens.depth -= 1
    return left


def _ternary(tokens: _Tokens) -> Expression:
    test = _binary(tokens, 3)
    if tokens.peek() != "?":
        return test
    tokens.take()
    yes = _assignment(tokens)
    tokens.expect(":")
    return Ternary(test, yes, _assignment(tokens))


def _binary(tokens: _Tokens, least: int) -> Expression:
    left = _unary(tokens)
    while (precedence := PRECEDENCE.get(tokens.peek(), 0)) >= least:
        operator = tokens.take()
        tokens.depth += 1
        if tokens.depth > MAX_NESTING:
            raise NotArithmetic("nested too deep")
        left = Binary(operator, left, _binary(tokens, precedence if operator == "**" else precedence + 1))
        tokens.depth -= 1
    return left


def _unary(tokens: _Tokens) -> Expression:
    if tokens.peek() not in ("-", "+", "!", "~", "++", "--"):
        return _postfix(tokens)
    tokens.depth += 1
    if tokens.depth > MAX_NESTING:
        raise NotArithmetic("nested too deep")
    operator = tokens.take()
    operand = Unary(operator, _unary(tokens))
    tokens.depth -= 1
    return operand


def _postfix(tokens: _Tokens) -> Expression:
    operand = _primary(tokens)
    if tokens.peek() in ("++", "--") and isinstance(operand, Name):
        return Postfix(tokens.take(), operand)
    return operand


def _primary(tokens: _Tokens) -> Expression:
    token = tokens.take()
    if token == "(":
        inner = _comma(tokens)
        tokens.expect(")")
        return inner
    if token == UNKNOWN_CHARACTER:
        tokens.holes += 1
        return Hole(tokens.holes - 1)
    if token[:1].isdecimal():
        return Number(integer(token))
    if not (token[:1].isalpha() or token[:1] == "_"):
        raise NotArithmetic(token or "an operand is missing")
    if tokens.peek() != "[":
        return Name(token)
    tokens.take()
    index = _comma(tokens)
    tokens.expect("]")
    return Name(token, index)


def integer(token: str) -> int:
    """The number that a literal writes: decimal, octal, hexadecimal or BASE#DIGITS; NotArithmetic if it writes none."""
    if len(token) > 64:
        raise NotArithmetic(token)
    try:
        if "#" in token:
            base, digits = token.split("#")
            return int(digits, int(base))
        if token[:2].lower() == "0x":
            return int(token, 16)
        return int(token, 8) if token[0] == "0" else int(token)
    except ValueError:
        raise NotArithmetic(token) from None
