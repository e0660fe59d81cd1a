"""The text of a YAML scalar, every character with the place where it stands in the file: for texts in another language
that YAML files hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from dtlint.languages.json_tree import Node
from dtlint.languages.placeholders import TEMPLATE_HOLE
from dtlint.languages.traced import Piece, WrittenSource
from dtlint.record import NamedTuple
from dtlint.source import Source, Span

_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(\r?\n[ \t]*)|(.))|[^\\\n]+|\n", re.DOTALL
)
_ESCAPED = {
    "0": "\0", "a": "\a", "b": "\b", "t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "e": "\x1b", "N": "\x85",
    "_": "\xa0", "L": "\u2028", "P": "\u2029",
}  # fmt: skip


class _Stretch(NamedTuple):
    """Characters of the text and where they stand: `start` to `end` of the file."""

    text: str
    start: int
    end: int


class EmbeddedSource(WrittenSource):
    """A text that a YAML scalar holds. A place in it is that of the same stretch of the file."""

    __slots__ = ()

    def original(self, span: Span) -> Span:
        """The stretch of the file from the first character's place to the last one's."""
        first = super().original(Span(self, span.start, min(span.end, span.start + 1)))
        if span.end <= span.start + 1:
            return first
        last = super().original(Span(self, span.end - 1, span.end))
        if first.source is not last.source or last.end < first.start:
            return super().original(span)
        return first.source.span(first.start, last.end)


def text_of(node: Node) -> tuple[Piece, ...]:
    """The text of a scalar; what a template fills in is an unknown stretch. () for what is no scalar, or nothing."""
    if node.kind in ("object", "array", "null"):
        return ()
    if node.kind == "unknown":
        return (Piece(None, node.span, unknown="no text is written here"),)
    source, span = node.span.source, node.span
    value = str(node.value) if node.kind in ("string", "bare") else span.text
    pieces = _aligned(source, span, value) or [_Stretch(value, span.start, span.end)]
    return tuple(piece for stretch in pieces for piece in _with_holes(source, stretch))


def _with_holes(source: Source, stretch: _Stretch) -> Iterator[Piece]:
    """The stretch as pieces, each hole an unknown one."""
    literal = stretch.end - stretch.start == len(stretch.text)
    at = 0
    for hole in re.finditer(TEMPLATE_HOLE, stretch.text):
        if hole.start() > at:
            yield _piece(source, stretch, at, hole.start())
        place = (
            source.span(stretch.start + hole.start(), stretch.start + hole.end())
            if literal
            else _whole(source, stretch)
        )
        yield Piece(None, place, unknown=f"{hole[0]} is filled in by a template")
        at = hole.end()
    if at < len(stretch.text):
        yield _piece(source, stretch, at, len(stretch.text))


def _piece(source: Source, stretch: _Stretch, start: int, end: int) -> Piece:
    if stretch.end - stretch.start != len(stretch.text):
        return Piece(stretch.text[start:end], _whole(source, stretch))
    return Piece(stretch.text[start:end], source.span(stretch.start + start, stretch.start + end))


def _whole(source: Source, stretch: _Stretch) -> Span:
    return source.span(stretch.start, stretch.end)


def _aligned(source: Source, span: Span, value: str) -> list[_Stretch] | None:
    """The stretches that make up `value`, by the style in which it is written; None where they do not."""
    mark = source.text[span.start : span.start + 1]
    if mark in ("|", ">"):
        ways: Iterator[list[_Stretch]] = _block_ways(source, span)
    elif mark == '"':
        ways = iter([list(_double_quoted(source, span))])
    elif mark == "'":
        ways = iter([list(_single_quoted(source, span))])
    else:
        ways = iter([[line for line in _lines(source, span.start, span.end) if line.text]])
    return next((found for way in ways if (found := _filled(source, way, value, span.start)) is not None), None)


def _filled(source: Source, stretches: list[_Stretch], value: str, start: int) -> list[_Stretch] | None:
    """The stretches with what YAML puts for the line ends between them, if all of it makes `value`."""
    filled: list[_Stretch] = []
    at, end = 0, start
    for stretch in stretches:
        breaks = source.text.count("\n", end, stretch.start)
        between = next((n for n in range(breaks + 1) if _follows(value, at, n, stretch.text)), None)
        if between is None:
            return None
        if between:
            filled.append(_break(source, value[at : at + between], end))
        filled.append(stretch)
        at, end = at + between + len(stretch.text), stretch.end
    rest = value[at:]
    if rest.strip("\n"):
        return None
    return [*filled, _break(source, rest, end)] if rest else filled


def _follows(value: str, at: int, between: int, text: str) -> bool:
    return not value[at : at + between].strip(" \n") and value.startswith(text, at + between)


def _break(source: Source, text: str, end: int) -> _Stretch:
    """What stands for line ends: themselves where they are written so."""
    same = source.text.startswith(text, end)
    return _Stretch(text, end, end + len(text) if same else end)


def _block_ways(source: Source, span: Span) -> Iterator[list[_Stretch]]:
    """The lines of a block scalar without their indentation, which is that of the first one, or less where the header
    says so.
    """
    header = source.text.find("\n", span.start, span.end)
    if header < 0:
        yield []
        return
    lines = list(_raw_lines(source, header + 1, span.end))
    deepest = next((len(line.text) - len(line.text.lstrip(" ")) for line in lines if line.text.strip(" ")), 0)
    for indentation in range(deepest, -1, -1):
        cut = [
            _Stretch(line.text[indentation:], line.start + min(indentation, len(line.text)), line.end) for line in lines
        ]
        yield [line for line in cut if line.text]


def _raw_lines(source: Source, start: int, end: int) -> Iterator[_Stretch]:
    for line in re.compile(r"[^\r\n]*").finditer(source.text, start, end):
        if line[0]:
            yield _Stretch(line[0], line.start(), line.end())


def _lines(source: Source, start: int, end: int) -> Iterator[_Stretch]:
    """The lines from `start` to `end` without the blanks around each inner line end."""
    for line in _raw_lines(source, start, end):
        text = line.text
        left = 0 if line.start == start else len(text) - len(text.lstrip(" \t"))
        kept = text[left:] if line.end == end else text[left:].rstrip(" \t")
        yield _Stretch(kept, line.start + left, line.start + left + len(kept))


def _single_quoted(source: Source, span: Span) -> Iterator[_Stretch]:
    for line in _lines(source, span.start + 1, span.end - 1):
        for part in re.finditer(r"[^']+|''", line.text):
            yield _Stretch("'" if part[0] == "''" else part[0], line.start + part.start(), line.start + part.end())


def _double_quoted(source: Source, span: Span) -> Iterator[_Stretch]:
    """The stretches between escapes, and what each escape stands for; an escaped line end stands for nothing."""
    start, end = span.start + 1, span.end - 1
    fresh = True
    for part in _ESCAPE.finditer(source.text, start, end):
        if part[0] == "\n":
            fresh = True
        elif part[0].startswith("\\"):
            fresh = fresh and part[4] is not None
            if part[4] is None:
                yield _Stretch(_decoded(part), part.start(), part.end())
        else:
            yield from _between_escapes(source, part, fresh and part.start() != start, end)
            fresh = False


def _between_escapes(source: Source, part: re.Match[str], fresh: bool, end: int) -> Iterator[_Stretch]:
    """Plain characters without the blanks beside an unescaped line end."""
    left = len(part[0]) - len(part[0].lstrip(" \t\r")) if fresh else 0
    ends_line = part.end() < end and source.text[part.end()] == "\n"
    text = part[0][left:].rstrip(" \t\r") if ends_line else part[0][left:]
    if text:
        yield _Stretch(text, part.start() + left, part.start() + left + len(text))


def _decoded(escape: re.Match[str]) -> str:
    digits = escape[1] or escape[2] or escape[3]
    if digits:
        return chr(min(int(digits, 16), 0x10FFFF))
    return _ESCAPED.get(escape[5], escape[5])
