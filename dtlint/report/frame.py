"""Code frames: the lines that a finding speaks of, each marked place with a label, across any number of files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from dtlint.record import NamedTuple
from dtlint.report.terminal import cells, printable, width, wrap
from dtlint.source import Source, Span

Paint = Callable[[str], str]
"""Gives a stretch of text its colour."""

MOST_MARKS = 8
"""Places shown in one frame; further ones are counted, for nobody reads a finding of twenty places."""

CUT = "\N{HORIZONTAL ELLIPSIS}"


class Mark(NamedTuple):
    """A place to underline with `sign` (^ for the finding itself, - for what it rests on), and what it contributes."""

    span: Span
    label: str
    sign: str
    paint: Paint


class _Excerpt(NamedTuple):
    """A marked line as shown: its text, and the columns from which to which the mark goes."""

    text: str
    start: int
    end: int


def code_frame(marks: Sequence[Mark], columns: int, dim: Paint) -> list[str]:
    """The lines of a frame at most `columns` wide: the first mark's file first, each file's lines in order."""
    shown = [mark for mark in marks if mark.span.source.text][:MOST_MARKS]
    by_source: dict[Source, list[Mark]] = {}
    for mark in shown:
        by_source.setdefault(mark.span.source, []).append(mark)
    gutter = max((len(str(mark.span.line)) for mark in shown), default=1)
    lines: list[str] = [dim(" " * gutter + "-->") + " " + place(marks[0].span)]
    for index, (source, group) in enumerate(by_source.items()):
        if index:
            lines.append(dim(" " * gutter + ":::") + " " + place(group[0].span))
        lines.append(dim(" " * gutter + " |"))
        lines.extend(_file_lines(source, group, gutter, columns, dim))
    if len(marks) > len(shown) and shown:
        hidden = len(marks) - len(shown)
        lines.append(dim(" " * gutter + " = ") + f"and {hidden} more place{'s' if hidden > 1 else ''}")
    return lines


def place(span: Span) -> str:
    """Where a span begins, as editors and terminals link it: path:line:column."""
    return f"{printable(span.path)}:{span.line}:{span.column}"


def _file_lines(source: Source, marks: list[Mark], gutter: int, columns: int, dim: Paint) -> Iterable[str]:
    room = max(20, columns - gutter - 3)
    numbers = sorted({mark.span.line for mark in marks})
    previous = numbers[0] - 1
    for number in numbers:
        if number == previous + 2:
            yield _code(number - 1, _plain(source, number - 1, room), gutter, dim)
        elif number > previous + 2:
            yield dim("...")
        previous = number
        here = sorted((mark for mark in marks if mark.span.line == number), key=lambda mark: mark.span.start)
        yield from _marked(source, number, here, gutter, room, dim)


def _marked(source: Source, number: int, marks: list[Mark], gutter: int, room: int, dim: Paint) -> Iterable[str]:
    shown = None
    for mark in marks:
        excerpt = _excerpt(mark.span, room)
        if excerpt.text != shown:
            yield _code(number, excerpt.text, gutter, dim)
        shown = excerpt.text
        for line in _underline(mark, excerpt, room):
            yield dim(" " * gutter + " |") + " " + line


def _code(number: int, text: str, gutter: int, dim: Paint) -> str:
    return (dim(f"{number:>{gutter}} |") + " " + text).rstrip()


def _plain(source: Source, number: int, room: int) -> str:
    return _excerpt(source.span(source.line_start(number), source.line_start(number)), room).text


def _excerpt(span: Span, room: int) -> _Excerpt:
    """The span's first line, cut around the span where it is longer than `room` columns."""
    shown = list(cells(span.source.line_text(span.line)))
    start = min(span.column - 1, len(shown))
    end = min(span.end_column - 1, len(shown)) if span.end_line == span.line else len(shown)
    low, high = _window([width(cell) for cell in shown], start, room - 1)
    head, tail = CUT if low > 0 else "", CUT if high < len(shown) else ""
    left = width(head) + width("".join(shown[low:start]))
    marked = width("".join(shown[start : min(end, high)]))
    return _Excerpt(head + "".join(shown[low:high]) + tail, left, left + max(1, marked))


def _window(widths: list[int], start: int, room: int) -> tuple[int, int]:
    """Which characters of a line to show: all that fit, else those around `start`, a third of the room before it."""
    if sum(widths) <= room:
        return 0, len(widths)
    low, before = start, 0
    while low > 0 and before + widths[low - 1] <= room // 3:
        low -= 1
        before += widths[low]
    high, used = low, 0
    while high < len(widths) and used + widths[high] <= room - 2:
        used += widths[high]
        high += 1
    while low > 0 and high == len(widths) and used + widths[low - 1] <= room - 2:
        low -= 1
        used += widths[low]
    return low, high


def _underline(mark: Mark, excerpt: _Excerpt, room: int) -> list[str]:
    """The line of signs under a place with its label beside it, or below it where the rest of the line is too short."""
    signs = " " * excerpt.start + mark.paint(mark.sign * (excerpt.end - excerpt.start))
    label = printable(mark.label)
    if not label:
        return [signs]
    if excerpt.end + 1 + width(label) <= room:
        return [signs + " " + mark.paint(label)]
    indent = " " * max(0, min(excerpt.start, room - width(label)))
    return [signs, *(_indented(line, indent, mark.paint) for line in wrap(label, "", "", room - len(indent)))]


def _indented(line: str, indent: str, paint: Paint) -> str:
    return indent + paint(line)
