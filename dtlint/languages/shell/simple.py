"""Reads simple commands: assignments, words and redirections, and notices words that a broken continuation cuts off."""

from __future__ import annotations

import re

from dtlint.languages.shell.cursor import Cursor, SyntaxFault, unexpected
from dtlint.languages.shell.placeholders import placeholder_end
from dtlint.languages.shell.syntax import Assignment, Literal, Redirection, Simple, WordSyntax
from dtlint.languages.shell.tokens import read_redirection, skip_blanks, skip_lines
from dtlint.languages.shell.words import read_until, read_word
from dtlint.languages.traced import Lost
from dtlint.source import Span

ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:(\+?=)|(?=\[))")
DECLARING = frozenset(("export", "declare", "local", "readonly", "typeset"))
BACKSLASH = "\\"
CONTINUED = r"-|[\w+~]+(?:\.[\w]+)+="
"""How a line begins that was meant as arguments: a flag or a dotted override."""
RIGHT_BELOW = r"[^\n]*\n(?:[ \t]*#[^\n]*\n)*[ \t]*"
"""What parts a line from the one above: its end, and comments."""
BELOW_EMPTY_LINES = r"\n(?:[ \t]*(?:#[^\n]*)?\n)*[ \t]*"
"""The same with empty lines between."""


def read_simple(cursor: Cursor) -> Simple:
    """A simple command; SyntaxFault if nothing of one stands here."""
    start = cursor.at
    cursor.cause = None
    cut, cursor.cut = cursor.cut, None
    assignments: list[Assignment] = []
    words: list[WordSyntax | Assignment] = []
    redirections: list[Redirection] = []
    end = start
    while _read_element(cursor, assignments, words, redirections):
        end = cursor.at
        skip_blanks(cursor)
    if end == start:
        raise SyntaxFault(start, unexpected(cursor.peek()))
    command = Simple(tuple(assignments), tuple(words), tuple(redirections), Span(cursor.source, start, end))
    _note_lost(cursor, command, cut)
    return command


def _read_element(
    cursor: Cursor, assignments: list[Assignment], words: list[WordSyntax | Assignment], redirections: list[Redirection]
) -> bool:
    char = cursor.peek()
    if not char or char in "\n;|)":
        return False
    if char in "<>&0123456789{" and placeholder_end(cursor) == cursor.at:
        redirection = read_redirection(cursor)
        if redirection is not None:
            redirections.append(redirection)
            return True
    if char == "&":
        return False
    if not words or _declares(words):
        assignment = read_assignment(cursor)
        if assignment is not None:
            (words if words else assignments).append(assignment)
            return True
    word = read_word(cursor)
    if word is not None:
        words.append(word)
    return word is not None


def _declares(words: list[WordSyntax | Assignment]) -> bool:
    first = words[0]
    if not isinstance(first, WordSyntax) or not first.parts or not isinstance(first.parts[0], Literal):
        return False
    return len(first.parts) == 1 and first.parts[0].text in DECLARING


def read_assignment(cursor: Cursor) -> Assignment | None:
    """`NAME=value` in any form at the reading position, else None and nothing is consumed."""
    start = cursor.at
    match = ASSIGNMENT.match(cursor.text, start)
    if not match:
        return None
    cursor.at = match.end()
    index = None
    if not match[2]:
        index = _index(cursor)
    operator = match[2] or ("=" if cursor.peek() == "=" else "+=" if cursor.peek(2) == "+=" else "")
    if not operator or (index is None and not match[2]):
        cursor.at = start
        return None
    cursor.at += 0 if match[2] else len(operator)
    append = operator == "+="
    if cursor.peek() == "(" and index is None:
        elements = _elements(cursor)
        return Assignment(match[1], cursor.span(start), None, elements, None, append)
    value = read_word(cursor) or cursor.word(cursor.at)
    return Assignment(match[1], cursor.span(start), value, None, index, append)


def _index(cursor: Cursor) -> WordSyntax | None:
    start = cursor.at
    cursor.at += 1
    index = read_until(cursor, "]\n", True)
    if cursor.peek() != "]":
        cursor.at = start
        return None
    cursor.at += 1
    return index


def _elements(cursor: Cursor) -> tuple[tuple[WordSyntax | None, WordSyntax], ...]:
    start = cursor.at
    cursor.at += 1
    elements: list[tuple[WordSyntax | None, WordSyntax]] = []
    while True:
        skip_lines(cursor)
        if cursor.peek() == ")":
            cursor.at += 1
            return tuple(elements)
        index = _element_index(cursor)
        word = read_word(cursor)
        if word is None and index is None:
            raise SyntaxFault(start, _never_closed(cursor.text, start))
        elements.append((index, word or cursor.word(cursor.at)))


def _never_closed(text: str, start: int) -> str:
    if text.startswith("((", start):
        return "this is an array, which begins with no second (; $(( )) computes a number"
    return "this ( of an array is never closed"


def _element_index(cursor: Cursor) -> WordSyntax | None:
    if cursor.peek() != "[":
        return None
    start = cursor.at
    index = _index(cursor)
    if index is None or cursor.peek() != "=":
        cursor.at = start
        return None
    cursor.at += 1
    return index


def _note_lost(cursor: Cursor, command: Simple, cut: tuple[Simple, Span] | None) -> None:
    """Record the words of `command` if the command before it was meant to hold them, and remember what cuts this one
    off.
    """
    owner = command
    if cut is not None and _is_continuation(cursor, command, *cut):
        owner = cut[0]
        cursor.lost.append(Lost(owner.span, cut[1], command.span))
    cause = cursor.cause or _blank_behind_backslash(command) or _before_empty_line(cursor, command)
    if cause is None and owner is not command and cursor.peek() == "\n":
        return
    if cause is not None:
        cursor.cut = owner, cause


def _is_continuation(cursor: Cursor, command: Simple, owner: Simple, cause: Span) -> bool:
    """Whether a command was meant as words of the one before: it begins as arguments do; or it stands right below and
    deeper, or begins with a Python file where the one before has no program, or all before is variables set for it.
    A backslash before an empty line may be one too many, behind which a command of its own stands deeper.
    """
    start = command.span.start
    if re.compile(CONTINUED).match(cursor.text, start):
        return True
    if cause.text == BACKSLASH:
        follows = re.fullmatch(BELOW_EMPTY_LINES, cursor.text[cause.end : start]) is not None
        return follows and (_lacks(owner, command) or (bool(owner.assignments) and not owner.words))
    if not re.fullmatch(RIGHT_BELOW, cursor.text[cause.end : start]):
        return False
    own, other = _indentation(cursor.text, start), _indentation(cursor.text, owner.span.start)
    if own != other and own.startswith(other):
        return True
    return _lacks(owner, command) or _only_sets_variables(owner)


def _lacks(owner: Simple, command: Simple) -> bool:
    """Whether a command has no program, and the one below begins with a Python file."""
    return _begins_with_python_file(command) and bool(owner.words) and not _has_program(owner)


def _indentation(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip())]


def _begins_with_python_file(command: Simple) -> bool:
    return bool(command.words) and command.words[0].span.text.endswith(".py")


def _has_program(command: Simple) -> bool:
    words = [word.span.text for word in command.words]
    return "-m" in words or any(word.endswith(".py") for word in words)


def _only_sets_variables(command: Simple) -> bool:
    return bool(command.assignments) and len(command.words) == 1


def _blank_behind_backslash(command: Simple) -> Span | None:
    """The `\\ ` at the end of a command that was meant to continue: an escaped blank, then the line end or a comment,
    whose words become the command's where nothing parts its `#` from that blank.
    """
    if len(command.words) + len(command.assignments) < 2:
        return None
    for word in command.words:
        first = word.parts[0] if isinstance(word, WordSyntax) and word.parts else None
        if isinstance(first, Literal) and _is_escaped_blank(first) and word.span.text[2:3] == "#":
            return first.span
    last = command.words[-1] if command.words else None
    part = last.parts[-1] if isinstance(last, WordSyntax) and last.parts else None
    return part.span if isinstance(part, Literal) and _is_escaped_blank(part) else None


def _before_empty_line(cursor: Cursor, command: Simple) -> Span | None:
    """The backslash at the end of a command that an empty line follows, which ends the command."""
    behind = cursor.text[command.span.end : cursor.at]
    number = behind.rfind(f"{BACKSLASH}\n")
    if number < 0 or cursor.peek() != "\n":
        return None
    at = command.span.end + number
    return Span(cursor.source, at, at + 1)


def _is_escaped_blank(part: Literal) -> bool:
    return part.span.text in ("\\ ", "\\\t", "\\\r")
