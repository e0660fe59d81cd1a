"""The syntax tree of a rule expression, and the error of a text that has none."""

from __future__ import annotations

from dtlint.record import NamedTuple
from dtlint.value import Plain

LARGEST_INTEGER = 2**128
"""Beyond it an integer is not computed with: no quantity of a training run is that large, and larger ones take time
to multiply."""


class ExpressionError(ValueError):
    """An expression that is not allowed: what is wrong and where, `offset` in code points from its start."""

    def __init__(self, message: str, text: str, offset: int) -> None:
        super().__init__(message)
        self.message = message
        self.text = text
        self.offset = offset

    def caret(self) -> str:
        """The text with a mark under the place at fault."""
        return f"{self.text}\n{' ' * self.offset}^"


class Constant(NamedTuple):
    """A number, text, flag or none."""

    offset: int
    value: Plain


class Name(NamedTuple):
    """A setting, fact, limit or field of a member."""

    offset: int
    name: str


class Call(NamedTuple):
    """A function and its arguments."""

    offset: int
    function: str
    arguments: tuple[Tree, ...]


class Items(NamedTuple):
    """A list."""

    offset: int
    parts: tuple[Tree, ...]


class Negative(NamedTuple):
    """`-operand`."""

    offset: int
    operand: Tree


class Arithmetic(NamedTuple):
    """`left symbol right`."""

    offset: int
    symbol: str
    left: Tree
    right: Tree


class Comparison(NamedTuple):
    """`first < second <= third`: one symbol between each two operands."""

    offset: int
    symbols: tuple[str, ...]
    operands: tuple[Tree, ...]


class Denial(NamedTuple):
    """`not operand`."""

    offset: int
    operand: Tree


class Junction(NamedTuple):
    """Operands joined by `and` or `or`."""

    offset: int
    word: str
    operands: tuple[Tree, ...]


class Conditional(NamedTuple):
    """`one if condition else other`."""

    offset: int
    one: Tree
    condition: Tree
    other: Tree


Tree = Constant | Name | Call | Items | Negative | Arithmetic | Comparison | Denial | Junction | Conditional
