"""Reads one word of a script: quotes, escapes, expansions and placeholders."""

from __future__ import annotations

import re

from dtlint.languages.shell.arithmetic_reading import read_arithmetic, read_parenthesised
from dtlint.languages.shell.cursor import Cursor
from dtlint.languages.shell.parameters_syntax import read_parameter
from dtlint.languages.shell.placeholders import placeholder_end
from dtlint.languages.shell.substitutions import nested_commands, read_backticks
from dtlint.languages.shell.syntax import (
    Arithmetic,
    Literal,
    Parameter,
    Part,
    Placeholder,
    ProcessSubstitution,
    Substitution,
    WordSyntax,
)
from dtlint.languages.traced import WrittenSource
from dtlint.source import Span

PLAIN = re.compile(r"[^ \t\n'\"\\$`|&;()<>?*+@!]+")
EXTENDED_GLOB = "?*+@!"
IN_DOUBLE_QUOTES = re.compile(r'[^"\\$`]+')
IN_HEREDOC = re.compile(r"[^\\$`]+")
CONTINUED_NAME = r"\\\n(\w+)"
"""The rest of a name that a continued line end cuts in two."""

NAME_OR_SPECIAL = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!-]")


def read_word(cursor: Cursor) -> WordSyntax | None:
    """The word at the reading position, None if none begins there."""
    start = cursor.at
    parts: list[Part] = []
    while cursor.at < cursor.end and read_unquoted_part(cursor, parts):
        pass
    return WordSyntax(tuple(parts), cursor.span(start)) if parts else None


def read_unquoted_part(cursor: Cursor, parts: list[Part]) -> bool:
    """Append what stands at the reading position to `parts`; False at the end of the word."""
    text, at = cursor.text, cursor.at
    plain = PLAIN.match(text, at)
    if plain:
        cursor.at = plain.end()
        parts.append(Literal(plain[0], cursor.span(at)))
        return True
    char = text[at]
    if char in "\"'$`\\":
        return _read_quoting(cursor, parts, char)
    if char in "<>":
        return _read_angle(cursor, parts, char)
    if char in EXTENDED_GLOB:
        cursor.at += 1
        if text.startswith("(", cursor.at):
            _skip_parentheses(cursor)
        parts.append(Literal(text[at : cursor.at], cursor.span(at)))
        return True
    return False


def _read_quoting(cursor: Cursor, parts: list[Part], char: str) -> bool:
    if char == "'":
        _read_single_quotes(cursor, parts)
    elif char == '"':
        _read_double_quotes(cursor, parts)
    elif char == "\\":
        read_escape(cursor, parts)
    else:
        read_expansion(cursor, parts, quoted=False)
    return True


def _read_angle(cursor: Cursor, parts: list[Part], char: str) -> bool:
    start = cursor.at
    if cursor.peek(2) in ("<(", ">("):
        cursor.at += 2
        body = nested_commands(cursor, start)
        parts.append(ProcessSubstitution(body, cursor.span(start)))
        return True
    if char != "<":
        return False
    end = placeholder_end(cursor)
    if end == start:
        return False
    cursor.at = end
    parts.append(Placeholder(cursor.span(start)))
    return True


def read_escape(cursor: Cursor, parts: list[Part]) -> None:
    """A backslash outside quotes; before a line end, and at the end of a file, it is nothing."""
    start = cursor.at
    if cursor.text.startswith("\n", start + 1):
        cursor.at += 2
        parts.append(Literal("", Span(cursor.source, start, start)))
        return
    cursor.at = min(start + 2, cursor.end)
    if start + 1 == len(cursor.source.text) and not isinstance(cursor.source, WrittenSource):
        parts.append(Literal("", Span(cursor.source, start, start)))
        return
    parts.append(Literal(cursor.text[start + 1 : cursor.at] or "\\", cursor.span(start), quoted=True))


def _read_single_quotes(cursor: Cursor, parts: list[Part]) -> None:
    start = cursor.at
    close = cursor.text.find("'", start + 1)
    closed = close >= 0
    if not closed:
        close = _unclosed(cursor, "'")
    parts.append(Literal(cursor.text[start + 1 : close], Span(cursor.source, start + 1, close), quoted=True))
    cursor.at = close + closed


def _unclosed(cursor: Cursor, quote: str) -> int:
    line_end = cursor.text.find("\n", cursor.at)
    line_end = cursor.end if line_end < 0 else line_end
    cursor.refused(cursor.at, f"this {quote} is never closed")
    return line_end


def _read_double_quotes(cursor: Cursor, parts: list[Part]) -> None:
    start = cursor.at
    before = len(parts)
    problems = len(cursor.problems)
    cursor.at += 1
    cursor.enter(start)
    while cursor.at < cursor.end and cursor.text[cursor.at] != '"':
        _read_quoted_part(cursor, parts, IN_DOUBLE_QUOTES, '$`"\\')
    cursor.depth -= 1
    if cursor.at >= cursor.end:
        _end_quotes_at_line(cursor, parts, start, before, problems)
        return
    if len(parts) == before:
        parts.append(Literal("", Span(cursor.source, start + 1, start + 1), quoted=True))
    cursor.at = min(cursor.at + 1, cursor.end)


def _end_quotes_at_line(cursor: Cursor, parts: list[Part], start: int, before: int, problems: int) -> None:
    """Take an unclosed quote up to the line end only, so that the lines below are still read."""
    del parts[before:]
    del cursor.problems[problems:]
    cursor.at = start
    line_end = _unclosed(cursor, '"')
    parts.append(Literal(cursor.text[start + 1 : line_end], Span(cursor.source, start + 1, line_end), quoted=True))
    cursor.at = line_end


def _read_quoted_part(cursor: Cursor, parts: list[Part], plain: re.Pattern[str], escapable: str) -> None:
    start = cursor.at
    match = plain.match(cursor.text, start)
    if match:
        cursor.at = match.end()
        parts.append(Literal(match[0], cursor.span(start), quoted=True))
    elif cursor.text[start] == "\\":
        _read_quoted_escape(cursor, parts, escapable)
    else:
        read_expansion(cursor, parts, quoted=True)


def _read_quoted_escape(cursor: Cursor, parts: list[Part], escapable: str) -> None:
    start = cursor.at
    after = cursor.text[start + 1 : start + 2]
    if after == "\n":
        cursor.at += 2
    elif after and after in escapable:
        cursor.at += 2
        parts.append(Literal(after, cursor.span(start), quoted=True))
    else:
        cursor.at += 1
        parts.append(Literal("\\", cursor.span(start), quoted=True))


def read_until(cursor: Cursor, stop: str, quoted: bool) -> WordSyntax:
    """The operand of `${name operator ...}` up to one of `stop`, which is not consumed. Blanks are text."""
    start = cursor.at
    parts: list[Part] = []
    cursor.enter(start)
    while cursor.at < cursor.end and cursor.text[cursor.at] not in stop:
        at = cursor.at
        char = cursor.text[at]
        if char == "'" and quoted:
            cursor.at += 1
            parts.append(Literal("'", cursor.span(at), quoted=True))
        elif char == "\\" and quoted:
            _read_quoted_escape(cursor, parts, '$`"\\}/')
        elif char in "\"'$`\\":
            _read_operand_quoting(cursor, parts, char, quoted)
        else:
            cursor.at += 1
            while (
                cursor.at < cursor.end
                and cursor.text[cursor.at] not in stop
                and cursor.text[cursor.at] not in "\"'$`\\"
            ):
                cursor.at += 1
            parts.append(Literal(cursor.text[at : cursor.at], cursor.span(at), quoted))
    cursor.depth -= 1
    return WordSyntax(tuple(parts), cursor.span(start))


def _read_operand_quoting(cursor: Cursor, parts: list[Part], char: str, quoted: bool) -> None:
    if char in "$`":
        read_expansion(cursor, parts, quoted)
    else:
        _read_quoting(cursor, parts, char)


def read_heredoc_text(cursor: Cursor) -> WordSyntax:
    """Everything up to the cursor's end as the body of an unquoted heredoc: expansions count, quotes do not."""
    start = cursor.at
    parts: list[Part] = []
    while cursor.at < cursor.end:
        _read_quoted_part(cursor, parts, IN_HEREDOC, "$`\\")
    return WordSyntax(tuple(parts), cursor.span(start))


def read_expansion(cursor: Cursor, parts: list[Part], quoted: bool) -> None:
    """What begins with `$` or a backtick; a lone `$` stands for itself."""
    start = cursor.at
    if cursor.text[start] == "`":
        parts.append(read_backticks(cursor, quoted))
        return
    after = cursor.text[start + 1 : start + 2]
    if after == "(":
        parts.append(_read_parenthesis(cursor, quoted))
    elif after == "[":
        parts.append(_read_bracket(cursor, quoted))
    elif after == "{":
        parts.append(read_parameter(cursor, quoted, read_until))
    elif after == "'" and not quoted:
        _read_ansi_quotes(cursor, parts)
    elif after == '"' and not quoted:
        cursor.at += 1
        _read_double_quotes(cursor, parts)
    else:
        parts.append(_read_short_parameter(cursor, quoted))


def _read_short_parameter(cursor: Cursor, quoted: bool) -> Part:
    start = cursor.at
    name = NAME_OR_SPECIAL.match(cursor.text, start + 1)
    cursor.at = name.end() if name else start + 1
    if not name:
        return Literal("$", cursor.span(start), quoted)
    written = name[0]
    while written.isidentifier() and (more := re.compile(CONTINUED_NAME).match(cursor.text, cursor.at)):
        written += more[1]
        cursor.at = more.end()
    return Parameter(written, cursor.span(start), quoted)


def _read_parenthesis(cursor: Cursor, quoted: bool) -> Part:
    start = cursor.at
    if cursor.text.startswith("$((", start):
        expression = read_parenthesised(cursor, start + 3, read_until)
        if expression is not None:
            return Arithmetic(expression, cursor.span(start), quoted)
    cursor.at += 2
    return Substitution(nested_commands(cursor, start), cursor.span(start), quoted)


def _read_bracket(cursor: Cursor, quoted: bool) -> Part:
    """`$[ expression ]`, the older way to write `$(( ))`."""
    start = cursor.at
    cursor.at += 2
    expression = read_arithmetic(cursor, read_until, "]")
    if expression is None:
        cursor.at = start + 1
        return Literal("$", cursor.span(start), quoted)
    return Arithmetic(expression, cursor.span(start), quoted)


def _read_ansi_quotes(cursor: Cursor, parts: list[Part]) -> None:
    from dtlint.languages.shell.ansi import ansi_escapes

    start = cursor.at
    at = start + 2
    for text, length in ansi_escapes(cursor.text, at, cursor.end):
        parts.append(Literal(text, Span(cursor.source, at, at + length), quoted=True))
        at += length
    if at == start + 2:
        parts.append(Literal("", Span(cursor.source, at, at), quoted=True))
    if at >= cursor.end:
        cursor.refused(start, "this $' is never closed")
    cursor.at = min(at + 1, cursor.end)


def _skip_parentheses(cursor: Cursor) -> None:
    depth = 0
    for at in range(cursor.at, cursor.end):
        depth += {"(": 1, ")": -1}.get(cursor.text[at], 0)
        if depth == 0 or cursor.text[at] == "\n":
            cursor.at = at + 1 if depth == 0 else at
            return
    cursor.at = cursor.end
