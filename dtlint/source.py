"""Text with places: a file's text, spans in it, and edits of it."""

from __future__ import annotations

import re
from bisect import bisect_right
from pathlib import Path

from dtlint.account import content, is_file, is_there
from dtlint.record import NamedTuple

MAX_BYTES = 4_000_000
"""Longest file that is read; a training config or launch script of that size does not exist."""


class Source:
    """The decoded text of one file.

    `path` is what reports print (relative to the current folder, `/` between parts); `file` is where it was read,
    None for
    text that no file holds (stdin, a config that a script writes). Offsets count code points of `text`.
    A source that a script writes has an `underlying` map, so that a place in it is reported in the script.
    """

    __slots__ = ("_lines", "_starts", "_tails", "file", "path", "text")

    def __init__(
        self, path: str, text: str, file: Path | None = None, underlying: tuple[tuple[int, Span], ...] = ()
    ) -> None:
        self.path = path
        self.text = text
        self.file = file
        self._lines: list[int] | None = None
        self._starts = [start for start, _ in underlying]
        self._tails = [span for _, span in underlying]

    def span(self, start: int, end: int) -> Span:
        """The text from `start` to `end` (exclusive), both offsets in code points."""
        return Span(self, start, end)

    def line_start(self, line: int) -> int:
        """The offset at which line number `line` (from 1) begins."""
        return self._line_table()[line - 1]

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both from 1, the column in code points."""
        table = self._line_table()
        line = bisect_right(table, offset)
        return line, offset - table[line - 1] + 1

    def line_text(self, line: int) -> str:
        """The text of one line (from 1) without its line end."""
        table = self._line_table()
        end = table[line] if line < len(table) else len(self.text)
        return self.text[table[line - 1] : end].rstrip("\r\n")

    def line_count(self) -> int:
        """How many lines the text has."""
        return len(self._line_table())

    def original(self, span: Span) -> Span:
        """Where the characters of `span` were written: `span` itself, or its place in the script that writes this
        text.
        """
        if not self._starts:
            return span
        index = max(0, bisect_right(self._starts, span.start) - 1)
        under = self._tails[index]
        offset = span.start - self._starts[index]
        if under.end - under.start <= offset or span.end - span.start > under.end - under.start - offset:
            return under.original()
        return under.source.span(under.start + offset, under.start + offset + span.end - span.start).original()

    def _line_table(self) -> list[int]:
        if self._lines is None:
            self._lines = [0]
            self._lines.extend(index + 1 for index, char in enumerate(self.text) if char == "\n")
        return self._lines

    def __repr__(self) -> str:
        return f"Source({self.path!r})"


class Span(NamedTuple):
    """A stretch of a source: `start` to `end` (exclusive), offsets in code points."""

    source: Source
    start: int
    end: int

    @property
    def path(self) -> str:
        """The path that reports print."""
        return self.source.path

    @property
    def line(self) -> int:
        """Line of the first character, from 1."""
        return self.source.position(self.start)[0]

    @property
    def column(self) -> int:
        """Column of the first character, from 1, in code points."""
        return self.source.position(self.start)[1]

    @property
    def end_line(self) -> int:
        """Line of the end."""
        return self.source.position(self.end)[0]

    @property
    def end_column(self) -> int:
        """Column after the last character."""
        return self.source.position(self.end)[1]

    @property
    def text(self) -> str:
        """The characters themselves."""
        return self.source.text[self.start : self.end]

    def original(self) -> Span:
        """This place in the file that a person edits."""
        return self.source.original(self)


class Edit(NamedTuple):
    """Replace the text of a span."""

    span: Span
    text: str


class Problem(NamedTuple):
    """Something in a file that its reader could not take as it stands.

    `fatal` problems leave nothing or not all of the file readable; the others are legal for some loaders only
    (`loader` names the kind: "json" for what strict JSON refuses, "duplicate" for a repeated key, "line-ends" for CR LF
    in a script). `unrun` is the part of a script that is not run for it, None where that is not known.
    """

    span: Span
    message: str
    fatal: bool = True
    loader: str = ""
    unrun: Span | None = None


class Unreadable(Exception):  # noqa: N818 - a fact about a file, not a programming error
    """A file that cannot be read as text, with the sentence that says why."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


_SHELL_LINE = re.compile(rb"#!.*sh\b")
"""The first line of a shell script."""


def _without_nulls(data: bytes, path: str) -> bytes:
    """A shell script without its NUL bytes, which bash passes over unless one of the first two lines holds one
    (bash 5.2: general.c, check_binary_file, and parse.y, shell_getc): a copy that was cut off may end in them. All
    else is binary.
    """
    lines = data.split(b"\n", maxsplit=2)
    if b"\0" in b"".join(lines[:2]) or not _SHELL_LINE.match(data):
        raise Unreadable(path, "a binary file (it holds a NUL byte)")
    return data.replace(b"\0", b"")


def read_source(file: Path, path: str) -> Source:
    """Read a regular file as UTF-8 text (a byte-order mark is dropped).

    Raises Unreadable for what is not a regular file, is too large, is binary, or cannot be opened. Bytes that are
    not UTF-8
    become U+FFFD.
    """
    try:
        if not is_file(file):
            raise Unreadable(path, "not a regular file" if is_there(file) else "no such file")
        size, data = content(file, MAX_BYTES)
        if size > MAX_BYTES:
            raise Unreadable(path, f"{size:,} bytes; files over {MAX_BYTES:,} bytes are not read")
    except OSError as error:
        raise Unreadable(path, error.strerror or type(error).__name__) from None
    if b"\0" in data:
        data = _without_nulls(data, path)
    return Source(path, data.decode("utf-8-sig", errors="replace"), file)
