"""The grammar: reads commands, and goes on at the next line where the text is no shell syntax."""

from __future__ import annotations

import re
from collections.abc import Sequence as AnySequence

from dtlint.languages.shell.cursor import MAX_NESTING, Cursor, SyntaxFault, readable, unexpected
from dtlint.languages.shell.simple import read_simple
from dtlint.languages.shell.syntax import (
    AndOr,
    Function,
    Node,
    Pipeline,
    Redirected,
    Redirection,
    Sequence,
    Simple,
    Tree,
)
from dtlint.languages.shell.tokens import read_redirection, skip_blanks, skip_lines
from dtlint.languages.shell.unrun import with_unrun
from dtlint.languages.traced import Lost
from dtlint.source import Problem, Source, Span

RESERVED = re.compile(
    r"(?:if|then|elif|else|fi|for|while|until|do|done|case|esac|select|function|time|coproc|[{}!]|\[\[)(?=[\s;&|()<>]|$)"
)
FUNCTION = re.compile(r"([^\s'\"\\$`|&;()<>=#{}]+)[ \t]*\([ \t]*\)")
MAX_FAULTS = 300
"""Broken lines after which a command that holds one is given up: each may be read again for every level around it."""
LINE_ENDS = "line-ends"
"""The loader of the problem that a script's lines end in CR LF."""
ENDERS = frozenset(("then", "elif", "else", "fi", "do", "done", "esac", "}"))


def read_tree(source: Source) -> tuple[Tree, AnySequence[Problem], AnySequence[Lost]]:
    """The commands of a script, the defects met, and the words that broken continuations cut off. Never raises."""
    cursor = Cursor(source, read_substituted, readable(source.text))
    items: list[Node] = []
    background: set[int] = set()
    _note_carriage_returns(cursor)
    while cursor.at < cursor.end:
        _read_or_recover(cursor, items, background)
    body = Sequence(tuple(items), frozenset(background), Span(source, 0, cursor.end))
    return Tree(body), with_unrun(source, items, cursor.problems), cursor.lost


def has_windows_line_ends(source: Source) -> bool:
    """Whether more lines than one end in CR LF."""
    return source.text.count("\r\n") > 1


def _note_carriage_returns(cursor: Cursor) -> None:
    """Note lines that end in CR LF: bash stops at most of them, a single command it starts with a strange last word."""
    if has_windows_line_ends(cursor.source):
        at = cursor.source.text.index("\r\n")
        message = "the lines end in CR LF: bash takes the carriage return as part of each line's last word"
        cursor.refused(at, message, loader=LINE_ENDS)


def _read_or_recover(cursor: Cursor, items: list[Node], background: set[int]) -> None:
    start = cursor.at
    try:
        read_items(cursor, items, background, frozenset())
        if cursor.at < cursor.end:
            raise SyntaxFault(cursor.at, f"{cursor.text[cursor.at : cursor.at + 8].split()[0]!r} has no beginning")
    except SyntaxFault as fault:
        cursor.depth = 0
        at = max(start, min(fault.start, cursor.end))
        cursor.refused(at, fault.message)
        _recover(cursor, start, max(at, _last_end(items, start)))


def _last_end(items: list[Node], start: int) -> int:
    return max(start, items[-1].span.end) if items else start


def _recover(cursor: Cursor, start: int, fault: int) -> None:
    """Continue at the line behind the fault; compound commands that it breaks are read as the lines that they hold."""
    cursor.heredocs = []
    line_end = cursor.text.find("\n", fault)
    cursor.at = cursor.end if line_end < 0 else line_end + 1
    if cursor.at <= start:
        cursor.at = start + 1


def read_substituted(cursor: Cursor) -> Sequence:
    """The commands of `$( ... )`, up to the closing parenthesis or the cursor's end."""
    return read_sequence(cursor, frozenset((")",)))


def read_sequence(cursor: Cursor, stop: frozenset[str]) -> Sequence:
    """Commands up to a reserved word or character of `stop`, which is not consumed."""
    cursor.depth += 1
    if cursor.depth > MAX_NESTING:
        raise SyntaxFault(cursor.at, f"nested more than {MAX_NESTING} levels deep")
    start = cursor.at
    items: list[Node] = []
    background: set[int] = set()
    read_items(cursor, items, background, stop)
    cursor.depth -= 1
    return Sequence(tuple(items), frozenset(background), cursor.span(start))


def read_items(cursor: Cursor, items: list[Node], background: set[int], stop: frozenset[str]) -> None:
    """Append commands to `items` until the end or an ender; `background` gets the indexes of those followed by `&`."""
    while True:
        skip_lines(cursor)
        char = cursor.peek()
        if not char or char == ")" or _reserved(cursor) in ENDERS or cursor.peek(2) == ";;" or cursor.peek(2) == ";&":
            return
        if char == ";":
            cursor.at += 1
            continue
        if not _read_item(cursor, items):
            continue
        if cursor.peek() == "&" and cursor.peek(2) != "&&":
            background.add(len(items) - 1)
            cursor.at += 1
        elif cursor.peek() == ";" and cursor.peek(2) not in (";;", ";&"):
            cursor.at += 1


def _read_item(cursor: Cursor, items: list[Node]) -> bool:
    """Append one command; where only its own line is broken, note that, go to the next line and return False."""
    depth = cursor.depth
    try:
        item = _read_and_or(cursor)
        skip_blanks(cursor)
        if cursor.peek() not in ("\n", ")", "", ";", "&") and not _ends_without_separator(cursor, item):
            raise SyntaxFault(cursor.at, unexpected(cursor.peek()))
    except SyntaxFault as fault:
        line_end = cursor.text.find("\n", fault.start)
        cursor.faults += 1
        if line_end < cursor.at or depth >= MAX_NESTING or (depth and cursor.faults > MAX_FAULTS):
            raise
        cursor.refused(fault.start, fault.message)
        cursor.depth, cursor.at, cursor.heredocs = depth, line_end, []
        return False
    items.append(item)
    return True


def _ends_without_separator(cursor: Cursor, item: Node) -> bool:
    """Whether an ender stands right behind a compound command, where bash wants no separator (`fi done`)."""
    if _reserved(cursor) not in ENDERS:
        return False
    while isinstance(item, (AndOr, Pipeline, Function)):
        item = _last_part(item)
    return not isinstance(item, (Simple, Redirected))


def _last_part(item: AndOr | Pipeline | Function) -> Node:
    if isinstance(item, Function):
        return item.body
    return item.rest[-1][1] if isinstance(item, AndOr) else item.commands[-1]


def _reserved(cursor: Cursor) -> str:
    match = RESERVED.match(cursor.text, cursor.at)
    return match[0] if match else ""


def _read_and_or(cursor: Cursor) -> Node:
    start = cursor.at
    first = _read_pipeline(cursor)
    rest: list[tuple[str, Node]] = []
    while True:
        skip_blanks(cursor)
        operator = cursor.peek(2)
        if operator not in ("&&", "||"):
            break
        cursor.at += 2
        skip_lines(cursor)
        rest.append((operator, _read_pipeline(cursor)))
    return AndOr(first, tuple(rest), cursor.span(start)) if rest else first


def _read_pipeline(cursor: Cursor) -> Node:
    start = cursor.at
    negated = False
    while (word := _reserved(cursor)) in ("!", "time"):
        cursor.at += len(word)
        skip_blanks(cursor)
        if word == "time" and cursor.text.startswith("-p ", cursor.at):
            cursor.at += 3
        negated = negated != (word == "!")
    commands = [read_command(cursor)]
    while True:
        skip_blanks(cursor)
        if cursor.peek() != "|" or cursor.peek(2) == "||":
            break
        cursor.at += 2 if cursor.peek(2) == "|&" else 1
        skip_lines(cursor)
        commands.append(read_command(cursor))
    return Pipeline(tuple(commands), negated, cursor.span(start)) if len(commands) > 1 or negated else commands[0]


def read_command(cursor: Cursor) -> Node:
    """One command: compound, function definition or simple; SyntaxFault if none begins here."""
    start = cursor.at
    function = FUNCTION.match(cursor.text, start)
    if function and not function[1].isdecimal():
        from dtlint.languages.shell import compound

        cursor.at = function.end()
        return compound.read_function_body(cursor, function[1], start, read_command)
    word = _reserved(cursor)
    if not word and cursor.peek() != "(":
        return read_simple(cursor)
    return _read_compound(cursor, word)


def _read_compound(cursor: Cursor, word: str) -> Node:
    """The command that a reserved word or a parenthesis begins, with its redirections."""
    from dtlint.languages.shell import compound

    start = cursor.at
    reader = compound.READERS.get(word or "(")
    if reader is None:
        return read_simple(cursor)
    command = reader(cursor, compound.Grammar(read_sequence, read_command))
    redirections: list[Redirection] = []
    while True:
        skip_blanks(cursor)
        redirection = read_redirection(cursor)
        if redirection is None:
            break
        redirections.append(redirection)
    return Redirected(command, tuple(redirections), cursor.span(start)) if redirections else command
