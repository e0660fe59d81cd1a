"""The small tokens between words: blanks, comments, line ends with their heredocs, redirections."""

from __future__ import annotations

import re

from dtlint.languages.shell.cursor import Cursor, SyntaxFault
from dtlint.languages.shell.syntax import Literal, Part, Redirection, WordSyntax
from dtlint.languages.shell.words import read_heredoc_text, read_word
from dtlint.source import Span

BLANK = re.compile(r"(?:[ \t]|\\\n)+")
REDIRECTION = re.compile(r"(\d+|\{[A-Za-z_]\w*\})?(<<<|<<-|<<|<>|<&|>&|>>|>\||<|>)|(&>>|&>)")
LEADING_TABS = r"(?m)^\t+"


def skip_blanks(cursor: Cursor) -> None:
    """Go past blanks and continued line ends, and past a comment; a comment behind a continuation is noted as a cause
    of lost words.
    """
    blank = BLANK.match(cursor.text, cursor.at)
    if blank:
        cursor.at = blank.end()
    if cursor.peek() != "#":
        return
    before = cursor.text[cursor.at - 1 : cursor.at] if cursor.at else "\n"
    if before not in " \t\n;&|()`" and blank is None:
        return
    line_end = cursor.text.find("\n", cursor.at)
    end = line_end if line_end >= 0 else len(cursor.text)
    if blank and "\\\n" in blank[0]:
        cursor.cause = Span(cursor.source, cursor.at, end)
    cursor.at = end


def skip_lines(cursor: Cursor) -> None:
    """Go past blanks, comments and line ends."""
    while True:
        skip_blanks(cursor)
        if cursor.peek() != "\n":
            return
        end_line(cursor)


def end_line(cursor: Cursor) -> None:
    """Consume a line end, and the bodies of the heredocs that begin behind it."""
    cursor.at += 1
    pending, cursor.heredocs = cursor.heredocs, []
    for redirection, delimiter, quoted in pending:
        redirection.body.append(_heredoc_body(cursor, redirection.operator, delimiter, quoted))


def _heredoc_body(cursor: Cursor, operator: str, delimiter: str, quoted: bool) -> WordSyntax:
    start = cursor.at
    end, after = _heredoc_end(cursor, start, delimiter, operator == "<<-")
    if quoted:
        body = WordSyntax(
            (Literal(cursor.text[start:end], Span(cursor.source, start, end), True),), Span(cursor.source, start, end)
        )
    else:
        body = _expandable_body(cursor, start, end)
    cursor.at = after
    return _without_tabs(body) if operator == "<<-" else body


def _heredoc_end(cursor: Cursor, start: int, delimiter: str, tabs: bool) -> tuple[int, int]:
    """The end of the body, and the place behind the line that holds only the delimiter."""
    at = start
    written = cursor.source.text
    line_return = "\r" if written.startswith("\r\n", start - 2) else ""  # bash has it in the delimiter, too
    while at < cursor.end:
        line_end = cursor.text.find("\n", at)
        line_end = cursor.end if line_end < 0 else line_end
        line = written[at:line_end].removesuffix(line_return)
        if (line.lstrip("\t") if tabs else line) == delimiter:
            return at, min(line_end + 1, cursor.end)
        at = line_end + 1
    cursor.problem(start, start, f"the heredoc {delimiter} is never closed")
    return cursor.end, cursor.end


def _expandable_body(cursor: Cursor, start: int, end: int) -> WordSyntax:
    inner = Cursor(cursor.source, cursor.read_commands, cursor.text[:end], start)
    inner.depth = cursor.depth
    try:
        body = read_heredoc_text(inner)
    except SyntaxFault as fault:
        cursor.problem(fault.start, fault.start + 1, fault.message)
        return WordSyntax(
            (Literal(cursor.text[start:end], Span(cursor.source, start, end), True),), Span(cursor.source, start, end)
        )
    cursor.problems.extend(inner.problems)
    return body


def _without_tabs(body: WordSyntax) -> WordSyntax:
    parts: list[Part] = []
    for part in body.parts:
        if isinstance(part, Literal) and "\t" in part.text:
            parts.extend(
                _lines_without_tabs(part, line_start=not parts or part.span.source.text[part.span.start - 1] == "\n")
            )
        else:
            parts.append(part)
    return WordSyntax(tuple(parts), body.span)


def _lines_without_tabs(part: Literal, line_start: bool) -> list[Part]:
    kept: list[Part] = []
    at = 0
    for tabs in re.finditer(LEADING_TABS, part.text):
        if tabs.start() == 0 and not line_start:
            continue
        if tabs.start() > at:
            kept.append(_slice(part, at, tabs.start()))
        at = tabs.end()
    if at < len(part.text):
        kept.append(_slice(part, at, len(part.text)))
    return kept


def _slice(part: Literal, start: int, end: int) -> Literal:
    span = part.span
    return Literal(part.text[start:end], Span(span.source, span.start + start, span.start + end), part.quoted)


def read_redirection(cursor: Cursor) -> Redirection | None:
    """A redirection at the reading position, None if there is none. A heredoc's body is read at the next line end."""
    start = cursor.at
    match = REDIRECTION.match(cursor.text, start)
    if not match or (cursor.text.startswith(("<(", ">("), match.end() - 1) and match[0] in ("<", ">")):
        return None
    cursor.at = match.end()
    skip_blanks(cursor)
    target = read_word(cursor)
    if target is None:
        raise SyntaxFault(start, f"{match[0]} is not followed by a file")
    operator = match[2] or match[3]
    redirection = Redirection(match[1] or "", operator, target, [], cursor.span(start))
    if operator in ("<<", "<<-"):
        delimiter, quoted = _delimiter(target)
        cursor.heredocs.append((redirection, delimiter, quoted))
    elif operator == "<<<":
        redirection.body.append(target)
    return redirection


def _delimiter(target: WordSyntax) -> tuple[str, bool]:
    written = target.span.text
    quoted = any(char in written for char in "\"'\\")
    text = "".join(part.text if isinstance(part, Literal) else part.span.text for part in target.parts)
    return text, quoted
