"""The sentences of rules: text with `{expression:format}` in it, filled in with the plan's numbers; a clause in `[[ ]]`
is left out where one of its numbers is not known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import cast

from dtlint.interval import Interval
from dtlint.record import NamedTuple
from dtlint.rulebook.expressions import Expression, ExpressionError, Names, compile_expression, suggestion
from dtlint.rulebook.functions import Scope
from dtlint.rulebook.operands import Operand, as_interval, shown
from dtlint.value import Unknown

UNKNOWN = "?"
"""How a table shows what is not known; a sentence says what would tell it."""


class Hole(NamedTuple):
    """A place in a sentence that an expression fills: the expression, and the format that shows it."""

    expression: Expression
    format: str


class Clause(NamedTuple):
    """A part of a sentence that is said only where all of its holes are known."""

    parts: tuple[str | Hole, ...]


Sentence = tuple[str | Hole | Clause, ...]
"""The parts of a sentence: text as it stands, holes, and clauses that may be left out."""

LACKING = re.compile(r"\(not (?:known|told: [^)]{0,400})\)")
"""What a sentence says for a number that is not known and that stands in no clause."""

_COUNTED = "stage|rank|node|GPU|expert|layer|time|head|machine|task|group"
_ONE = re.compile(rf"(?<![\d.,/-])1 (?:(micro-batch|process)es|({_COUNTED})s)\b")
"""A number that a sentence took for more than one, before what it counts."""

_HOLE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")
_FORMAT = re.compile(r":\s*([a-z]+)\s*$")


def compile_sentence(text: str, names: Names) -> Sentence:
    """Split `text` at its `{expression:format}` (`{{` and `}}` are braces as such) and its `[[clauses]]`; double
    brackets without a hole in them stand as they are.

    ExpressionError, its offset within `text`, for a bad expression, format or brace.
    """
    parts: list[str | Hole | Clause] = []
    end = 0
    for start, stop in _clauses(text):
        parts.extend(_pieces(text, end, start, names))
        parts.append(Clause(tuple(_pieces(text, start + len("[["), stop, names))))
        end = stop + len("]]")
    return (*parts, *_pieces(text, end, len(text), names))


def _clauses(text: str) -> Iterator[tuple[int, int]]:
    """Where `[[` and `]]` stand around something with a hole."""
    start = text.find("[[")
    while start >= 0 and (stop := text.find("]]", start)) >= 0:
        if "{" in text[start:stop]:
            yield start, stop
        start = text.find("[[", stop + len("]]"))


def _pieces(text: str, start: int, stop: int, names: Names) -> Iterator[str | Hole]:
    """The text as it stands and the holes between two offsets."""
    for match in _HOLE.finditer(text, start, stop):
        yield from filter(None, [_stretch(text, start, match.start())])
        content = match.group(1)
        yield match.group()[0] if content is None else _hole(content, text, match.start(1), names)
        start = match.end()
    yield from filter(None, [_stretch(text, start, stop)])


def fill(sentence: Sentence, scope: Scope) -> str:
    """The sentence with its numbers, without the clauses that lack one; for a number that it lacks elsewhere, what
    would tell it.
    """
    return _ONE.sub(lambda found: f"1 {found[1] or found[2]}", "".join(_said(part, scope) for part in sentence))


def is_whole(sentence: Sentence, scope: Scope) -> bool:
    """Whether every number of a sentence is known."""
    holes = (part for part in sentence if isinstance(part, Hole))
    return not any(isinstance(hole.expression.evaluate(scope), Unknown) for hole in holes)


def spell(value: Operand, format_: str) -> str:
    """A value in one of FORMATS; a range as `30-47%`."""
    numbers = as_interval(value)
    if isinstance(value, Unknown):
        return UNKNOWN
    if numbers is None:
        return ", ".join(shown(cast("Operand", part)) for part in value) if isinstance(value, tuple) else shown(value)
    return FORMATS[format_](numbers)


def _said(part: str | Hole | Clause, scope: Scope) -> str:
    if isinstance(part, Clause):
        return fill(part.parts, scope) if is_whole(part.parts, scope) else ""
    return part if isinstance(part, str) else _filled(part, scope)


def _filled(hole: Hole, scope: Scope) -> str:
    value = hole.expression.evaluate(scope)
    return _lacking(value) if isinstance(value, Unknown) else spell(value, hole.format)


def _lacking(unknown: Unknown) -> str:
    return f"(not told: {unknown.how})" if unknown.how.startswith("--set") else "(not known)"


def expressions_in(text: str) -> Iterator[str]:
    """The expressions that a sentence is filled with, as they are written."""
    return (_parts(content)[0] for content in _HOLE.findall(text) if content)


def _parts(content: str) -> tuple[str, str]:
    """The expression of a hole and its format."""
    match = _FORMAT.search(content)
    return (content[: match.start()], match.group(1)) if match else (content, "plain")


def _hole(content: str, text: str, start: int, names: Names) -> Hole:
    source, format_ = _parts(content)
    if format_ not in FORMATS:
        message = f"unknown format '{format_}'{suggestion(format_, FORMATS)}"
        raise ExpressionError(message, text, start + len(source) + 1)
    try:
        return Hole(compile_expression(source, names), format_)
    except ExpressionError as error:
        indent = len(source) - len(source.lstrip())
        raise ExpressionError(error.message, text, start + indent + error.offset) from None


def _stretch(text: str, start: int, end: int) -> str:
    for offset in range(start, end):
        if text[offset] in "{}":
            raise ExpressionError("a brace without its partner (a brace as such is written twice)", text, offset)
    return text[start:end]


def _digits(number: float, digits: int = 3) -> str:
    """About `digits` significant digits, thousands separated, without an exponent."""
    if not abs(number) < 1e300:
        return "inf" if number > 0 else str(float("-inf") if number < 0 else number)
    if number == int(number) or abs(number) >= 10 ** (digits - 1):
        return f"{number:,.0f}"
    text = f"{number:.{digits}g}"
    return f"{number:.6f}".rstrip("0") if "e" in text else text


def _exact(number: float) -> str:
    """Every digit of a number, for a sentence about how it is written."""
    return str(int(number)) if abs(number) < 1e300 and number == int(number) else str(number)


def _range(numbers: Interval, show: Callable[[float], str], unit: str = "") -> str:
    low, high = show(numbers.low), show(numbers.high)
    return f"{low}{unit}" if low == high else f"{low}-{high}{unit}"


def _percent(numbers: Interval) -> str:
    return _range(numbers, _percent_digits, "%")


def _percent_digits(share: float) -> str:
    percent = share * 100
    return f"{percent:.1f}" if 0 < abs(percent) < 1 else f"{percent:.0f}"


def _scaled(unit: str, size: float) -> Callable[[Interval], str]:
    return lambda numbers: _range(numbers, lambda number: _digits(number / size, 2), f" {unit}")


_BYTES = (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10), ("bytes", 1))
_SECONDS = (("h", 3600.0, 7200.0), ("min", 60.0, 600.0), ("s", 1.0, 1.0), ("ms", 1e-3, 1e-3), ("us", 1e-6, 0.0))
"""Units of time, their seconds, and from how many seconds on a range is shown in them."""
_COUNTS = (("T", 1e12), ("B", 1e9), ("M", 1e6))


def _bytes(numbers: Interval) -> str:
    unit, size = next((step for step in _BYTES if numbers.high >= step[1]), _BYTES[-1])
    return _range(numbers, lambda number: _digits(number / size), f" {unit}")


def _seconds(numbers: Interval) -> str:
    unit, size, _ = next((step for step in _SECONDS if numbers.high >= step[2]), _SECONDS[-1])
    return _range(numbers, lambda number: _digits(number / size), f" {unit}")


def _count(numbers: Interval) -> str:
    if numbers.high < 1e6:
        return _range(numbers, _digits)
    unit, size = next(step for step in _COUNTS if numbers.high >= step[1])
    return _range(numbers, lambda number: _digits(number / size), unit)


FORMATS: Mapping[str, Callable[[Interval], str]] = {
    "plain": lambda numbers: _range(numbers, lambda number: _digits(number, 4).replace(",", "")),
    "exact": lambda numbers: _range(numbers, _exact),
    "percent": _percent,
    "gb": _scaled("GB", 1e9),
    "gib": _scaled("GiB", 2**30),
    "bytes": _bytes,
    "seconds": _seconds,
    "count": _count,
}
"""How a sentence shows a number: shares as percent, bytes in GB (10^9), GiB (2^30) or the unit that fits, seconds in
the unit that fits, counts as 70B or 4,096, plain, and exact with every digit."""
