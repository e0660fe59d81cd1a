"""The grammar of rule expressions: text to a tree.

Precedence is Python's. Names have dots in them and may contain Python's keywords (`batch.global`).

- choice: either, or `either if either else choice`
- either: both, joined by `or`
- both: denial, joined by `and`
- denial: comparison, with any number of `not` before it
- comparison: sum, compared in a chain by == != < <= > >= `in` `not in`
- sum: product, joined by + and -
- product: signed, joined by * / // %
- signed: atom, with any number of - before it
- atom: a number, a text in quotes, true, false, none, a name, a call, a list, a choice in parentheses
"""

from __future__ import annotations

import re
from collections.abc import Callable

from dtlint.record import NamedTuple
from dtlint.rulebook.syntax import (
    LARGEST_INTEGER,
    Arithmetic,
    Call,
    Comparison,
    Conditional,
    Constant,
    Denial,
    ExpressionError,
    Items,
    Junction,
    Name,
    Negative,
    Tree,
)
from dtlint.value import Plain

LONGEST = 400
"""Characters of the longest expression."""

DEEPEST = 25
"""Levels of parentheses, lists and calls in the deepest expression; reading and evaluating recurse as deep."""

MOST_OPERATORS = 40
"""Operators of the longest expression; evaluating recurses as deep."""

CONSTANTS: dict[str, Plain] = {
    "true": True,
    "false": False,
    "none": None,
    "True": True,
    "False": False,
    "None": None,
}


class _Token(NamedTuple):
    kind: str
    text: str
    offset: int


_TOKEN = re.compile(
    r"""\s*(?:
    (?P<number>(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
  | (?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)
  | (?P<string>"[^"\\]*"|'[^'\\]*')
  | (?P<sign>//|==|!=|<=|>=|[-+*/%<>()\[\],])
  | (?P<end>$)
    )""",
    re.VERBOSE | re.ASCII,
)

_WORDS = frozenset(("and", "or", "not", "in", "if", "else"))
_COMPARISONS = frozenset(("==", "!=", "<", "<=", ">", ">=", "in"))


def parse(text: str) -> Tree:
    """The tree of an expression; ExpressionError with the place of what does not belong there."""
    if len(text) > LONGEST:
        raise ExpressionError(f"longer than {LONGEST} characters; make it a named fact", text, 0)
    parser = _Parser(text)
    tree = parser.choice()
    if parser.token.kind != "end":
        raise parser.unexpected("the end")
    return tree


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    at = 0
    while not tokens or tokens[-1].kind != "end":
        match = _TOKEN.match(text, at)
        if match is None:
            at += len(text[at:]) - len(text[at:].lstrip())
            raise ExpressionError(_refusal(text, at), text, at)
        kind = str(match.lastgroup)
        tokens.append(_Token(kind, match.group(kind), match.start(kind)))
        at = match.end()
    return tokens


def _refusal(text: str, at: int) -> str:
    sign = text[at]
    if sign in "\"'":
        return "a text that does not end, or that has a backslash in it"
    return {
        "=": "'=' alone; equality is written ==",
        "&": "'&'; write 'and'",
        "|": "'|'; write 'or'",
        "{": "a brace; lists are written [a, b]",
    }.get(sign, f"{sign!r} is not allowed in an expression")


class _Parser:
    """Recursive descent over the tokens of one text. `token` is the next one."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _tokens(text)
        self.index = 0
        self.token = self.tokens[0]
        self.depth = 0
        self.operators = 0

    def unexpected(self, wanted: str) -> ExpressionError:
        """The error that something else than `wanted` comes next."""
        found = "the end" if self.token.kind == "end" else f"'{self.token.text}'"
        return ExpressionError(f"expected {wanted}, found {found}", self.text, self.token.offset)

    def choice(self) -> Tree:
        """An expression of any kind."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise ExpressionError("nested too deeply; make it a named fact", self.text, self.token.offset)
        one = self.either()
        if self.takes("if"):
            condition = self.either()
            self.needs("else")
            one = Conditional(one.offset, one, condition, self.choice())
        self.depth -= 1
        return one

    def either(self) -> Tree:
        """Operands joined by `or`."""
        return self.junction("or", self.both)

    def both(self) -> Tree:
        """Operands joined by `and`."""
        return self.junction("and", self.denial)

    def junction(self, word: str, operand: Callable[[], Tree]) -> Tree:
        """One operand, or several joined by `word`."""
        operands = [operand()]
        while self.takes(word):
            operands.append(operand())
        return operands[0] if len(operands) == 1 else Junction(operands[0].offset, word, tuple(operands))

    def denial(self) -> Tree:
        """`not` before a comparison, any number of times."""
        offsets: list[int] = []
        while self.token.text == "not" and self.token.kind == "name":
            offsets.append(self.operator().offset)
        tree = self.comparison()
        for offset in reversed(offsets):
            tree = Denial(offset, tree)
        return tree

    def comparison(self) -> Tree:
        """A sum, or sums compared in a chain."""
        operands = [self.sum()]
        symbols: list[str] = []
        while True:
            symbol = self.comparison_sign()
            if not symbol:
                break
            symbols.append(symbol)
            operands.append(self.sum())
        return operands[0] if not symbols else Comparison(operands[0].offset, tuple(symbols), tuple(operands))

    def comparison_sign(self) -> str:
        """The comparison sign that comes next, "" if none does."""
        if self.token.text in _COMPARISONS and self.token.kind != "string":
            return self.take().text
        if self.takes("not"):
            self.needs("in")
            return "not in"
        return ""

    def sum(self) -> Tree:
        """Products joined by + and -."""
        return self.chain(("+", "-"), self.product)

    def product(self) -> Tree:
        """Factors joined by * / // %."""
        return self.chain(("*", "/", "//", "%"), self.signed)

    def chain(self, symbols: tuple[str, ...], operand: Callable[[], Tree]) -> Tree:
        """Operands joined from the left."""
        left = operand()
        while self.token.kind == "sign" and self.token.text in symbols:
            sign = self.operator()
            left = Arithmetic(sign.offset, sign.text, left, operand())
        return left

    def signed(self) -> Tree:
        """An atom, or one with minus signs before it."""
        offsets: list[int] = []
        while self.token.kind == "sign" and self.token.text == "-":
            offsets.append(self.operator().offset)
        tree = self.atom()
        for offset in reversed(offsets):
            tree = Negative(offset, tree)
        return tree

    def atom(self) -> Tree:
        """A constant, name, call, list, or an expression in parentheses."""
        token = self.token
        if token.kind == "number":
            return Constant(token.offset, self.number(self.take()))
        if token.kind == "string":
            return Constant(token.offset, self.take().text[1:-1])
        if token.kind == "name" and token.text not in _WORDS:
            return self.named(self.take())
        if self.takes("["):
            return Items(token.offset, self.items("]"))
        if self.takes("("):
            return self.parenthesis(token.offset)
        raise self.unexpected("a value")

    def number(self, token: _Token) -> Plain:
        """The number of a token."""
        try:
            value = float(token.text) if set(token.text) & set(".eE") else int(token.text)
        except ValueError:
            raise ExpressionError("no number, or one too large to compute with", self.text, token.offset) from None
        if abs(value) > LARGEST_INTEGER:
            raise ExpressionError("a number too large to compute with", self.text, token.offset)
        return value

    def named(self, token: _Token) -> Tree:
        """A constant, a name, or a call."""
        if self.takes("("):
            return Call(token.offset, token.text, self.items(")"))
        if token.text in CONSTANTS:
            return Constant(token.offset, CONSTANTS[token.text])
        return Name(token.offset, token.text)

    def parenthesis(self, offset: int) -> Tree:
        """What stands in parentheses: one expression, or a list where there are commas."""
        if self.takes(")"):
            return Items(offset, ())
        first = self.choice()
        if self.takes(")"):
            return first
        self.needs(",")
        return Items(offset, (first, *self.items(")")))

    def items(self, closing: str) -> tuple[Tree, ...]:
        """Expressions between commas, up to `closing`."""
        parts: list[Tree] = []
        while not self.takes(closing):
            parts.append(self.choice())
            if not self.takes(","):
                self.needs(closing)
                break
        return tuple(parts)

    def operator(self) -> _Token:
        """The next token, an operator, which is used up and counted."""
        self.operators += 1
        if self.operators > MOST_OPERATORS:
            raise ExpressionError("too many operators; make it a named fact", self.text, self.token.offset)
        return self.take()

    def take(self) -> _Token:
        """The next token, which is used up."""
        token = self.token
        self.index = min(self.index + 1, len(self.tokens) - 1)
        self.token = self.tokens[self.index]
        return token

    def takes(self, text: str) -> bool:
        """Whether the next token is `text`, which is used up then."""
        if self.token.text == text and self.token.kind in ("sign", "name"):
            self.take()
            return True
        return False

    def needs(self, text: str) -> None:
        """Use up `text`; an error if something else comes next."""
        if not self.takes(text):
            raise self.unexpected(f"'{text}'")
