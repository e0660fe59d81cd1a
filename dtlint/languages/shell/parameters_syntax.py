"""Reads `${...}`: the name, the subscript, the operator and its operands."""

from __future__ import annotations

import re
from collections.abc import Callable

from dtlint.languages.shell.cursor import Cursor, SyntaxFault
from dtlint.languages.shell.syntax import Parameter, WordSyntax
from dtlint.source import Span

NAME = re.compile(r"[A-Za-z_]\w*|\d+|[@*#?$!-]")
OPERATOR = re.compile(r":?[-=?+]|##?|%%?|/[/#%]?|\^\^?|,,?|~~?|@[A-Za-z]|:")

PATTERN_OPERATORS = "#%/"
"""Operators whose first operand is a pattern: double quotes around the expansion do not quote it."""

ReadUntil = Callable[[Cursor, str, bool], WordSyntax]


def read_parameter(cursor: Cursor, quoted: bool, read_until: ReadUntil) -> Parameter:
    """`${...}` at the reading position; SyntaxFault if it is not closed or no parameter."""
    start = cursor.at
    cursor.at += 2
    prefix = _prefix(cursor)
    name = NAME.match(cursor.text, cursor.at)
    if not name:
        raise SyntaxFault(start, "${ is not followed by a parameter: a bad substitution to bash")
    cursor.at = name.end()
    if prefix == "!" and cursor.peek(2) in ("@}", "*}"):
        every = WordSyntax((), Span(cursor.source, cursor.at, cursor.at + 1))
        cursor.at += 2
        return Parameter(name[0], cursor.span(start), quoted, every, "names")
    index = _subscript(cursor, read_until) if cursor.peek() == "[" else None
    if cursor.peek() == "}":
        cursor.at += 1
        operator = "length" if prefix == "#" else "keys" if prefix == "!" and _all_elements(index) else ""
        return Parameter(name[0], cursor.span(start), quoted, index, operator, (), prefix == "!" and not operator)
    operator, operands = _operation(cursor, start, quoted, read_until)
    return Parameter(name[0], cursor.span(start), quoted, index, operator, operands, prefix == "!")


def _prefix(cursor: Cursor) -> str:
    """`#` (length) or `!` (indirection) before a name; both are also names themselves."""
    char = cursor.peek()
    if (
        char in ("#", "!")
        and char
        and cursor.text[cursor.at + 1 : cursor.at + 2] not in ("}", ":", "-", "=", "%", "/", "")
    ):
        cursor.at += 1
        return char
    return ""


def _subscript(cursor: Cursor, read_until: ReadUntil) -> WordSyntax:
    start = cursor.at
    cursor.at += 1
    index = read_until(cursor, "]\n", True)
    if cursor.peek() != "]":
        raise SyntaxFault(start, "this subscript is never closed")
    cursor.at += 1
    return index


def _all_elements(index: WordSyntax | None) -> bool:
    return index is not None and index.span.text in ("@", "*")


def _operation(cursor: Cursor, start: int, quoted: bool, read_until: ReadUntil) -> tuple[str, tuple[WordSyntax, ...]]:
    match = OPERATOR.match(cursor.text, cursor.at)
    if not match:
        closed = cursor.peek() not in ("", "\n")
        raise SyntaxFault(
            start, "this expansion has an operator that bash does not know" if closed else "${ is never closed"
        )
    operator = match[0]
    cursor.at = match.end()
    stop = "/}" if operator[0] == "/" else ":}" if operator == ":" else "}"
    operands = [read_until(cursor, stop, quoted and operator[0] not in PATTERN_OPERATORS)]
    if cursor.peek() in ("/", ":") and cursor.peek():
        cursor.at += 1
        operands.append(read_until(cursor, "}", quoted))
    if cursor.peek() != "}":
        raise SyntaxFault(start, "${ is never closed")
    cursor.at += 1
    return operator, tuple(operands)
