"""Reads command substitutions: what stands between `$(` and `)`, and between backticks."""

from __future__ import annotations

import re
from collections.abc import Callable

from dtlint.languages.shell.cursor import Cursor, SyntaxFault, readable
from dtlint.languages.shell.syntax import Literal, Part, Sequence, Substitution
from dtlint.languages.traced import Piece, WrittenSource, pieces_between
from dtlint.source import Source

ReadCommands = Callable[[Cursor], Sequence]


def nested_commands(cursor: Cursor, start: int) -> Sequence:
    """The commands up to the closing parenthesis, which is consumed; SyntaxFault if there is none."""
    cursor.enter(start)
    body = cursor.read_commands(cursor)
    cursor.depth -= 1
    if cursor.peek() != ")":
        raise SyntaxFault(start, "this parenthesis is never closed")
    cursor.at += 1
    return body


def read_backticks(cursor: Cursor, quoted: bool) -> Part:
    """What begins with a backtick; one that is never closed stands for itself."""
    start = cursor.at
    close = start + 1
    while close < cursor.end and cursor.text[close] != "`":
        close += 2 if cursor.text[close] == "\\" else 1
    if close >= cursor.end:
        cursor.refused(start, "this ` is never closed")
        cursor.at = start + 1
        return Literal("`", cursor.span(start), quoted)
    inner = Cursor(*_backtick_text(cursor, start + 1, close, quoted))
    inner.depth = cursor.depth
    inner.enter(start)
    body = inner.read_commands(inner)
    cursor.problems.extend(inner.problems)
    cursor.at = close + 1
    return Substitution(body, cursor.span(start), quoted)


def _backtick_text(cursor: Cursor, start: int, end: int, quoted: bool) -> tuple[Source, ReadCommands, str, int]:
    """Where the commands between backticks are read: in place, or without their backslashes in a text of its own."""
    if "\\" not in cursor.text[start:end]:
        return cursor.source, cursor.read_commands, cursor.text[:end], start
    pieces: list[Piece] = []
    at = start
    for escape in re.finditer(r'\\[`$\\"]' if quoted else r"\\[`$\\]", cursor.text[start:end]):
        pieces.extend(pieces_between(cursor.source, at, start + escape.start()))
        pieces.append(Piece(escape[0][1], cursor.source.span(start + escape.start(), start + escape.end())))
        at = start + escape.end()
    pieces.extend(pieces_between(cursor.source, at, end))
    text = WrittenSource(cursor.source.path, tuple(pieces))
    return text, cursor.read_commands, readable(text.text), 0
