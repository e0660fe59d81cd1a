"""Finds where an arithmetic expression ends, and reads the expansions in it."""

from __future__ import annotations

from collections.abc import Callable

from dtlint.languages.shell.cursor import MAX_NESTING, Cursor
from dtlint.languages.shell.syntax import Literal, Part, WordSyntax
from dtlint.source import Span

ReadUntil = Callable[[Cursor, str, bool], WordSyntax]

ARITHMETIC_STOPS = {"))": "()", ";": "();", "]": "[]"}
"""Where the reading of an arithmetic expression pauses, by what closes it: what opens and closes inside it first."""

MAX_EXPRESSION = 2_000
"""Most parts of an arithmetic expression."""


def read_parenthesised(cursor: Cursor, inside: int, read_until: ReadUntil) -> WordSyntax | None:
    """The expression of `((` whose text begins at `inside`; None, and nothing is consumed, if it is two parentheses of
    commands.
    """
    start = cursor.at
    if inside in cursor.not_arithmetic:
        return None
    cursor.at = inside
    expression = read_arithmetic(cursor, read_until)
    if expression is None:
        cursor.at = start
        cursor.not_arithmetic.add(inside)
    return expression


def read_arithmetic(cursor: Cursor, read_until: ReadUntil, closing: str = "))") -> WordSyntax | None:
    """An arithmetic expression up to `closing`, which is consumed; None if the parentheses show that it is not
    arithmetic.
    """
    start = cursor.at
    parts: list[Part] = []
    depth = 0
    stop = ARITHMETIC_STOPS[closing]
    cursor.enter(start)
    while cursor.at < cursor.end:
        word = read_until(cursor, stop, True)
        parts.extend(word.parts)
        if depth == 0 and cursor.text.startswith(closing, cursor.at):
            expression = WordSyntax(tuple(parts), cursor.span(start))
            cursor.at += len(closing)
            cursor.depth -= 1
            return expression
        char = cursor.peek()
        depth += {stop[0]: 1, stop[1]: -1}.get(char, 0)
        if depth < 0 or depth > MAX_NESTING or not char or len(parts) > MAX_EXPRESSION:
            break
        parts.append(Literal(char, Span(cursor.source, cursor.at, cursor.at + 1), quoted=True))
        cursor.at += 1
    cursor.depth -= 1
    return None
