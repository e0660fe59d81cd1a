"""Stretches such as `<Specify path>` that a user has yet to fill in, where bash would see redirections."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dtlint.languages.shell.cursor import Cursor
from dtlint.source import Problem

_QUOTED = r"<(?:\"[^\"<>\n$`]{1,200}\"|'[^'<>\n]{1,200}')>(?=/|[ \t]{0,20}(?:\\?\n|-|$))"
"""`<"your dir">` and `<'your dir'>`, behind which another option comes or the command ends: before a name that stands
there alone, `>` is a redirection.
"""
_LAST = r"<[A-Za-z_][^<>\n|&;$`\"'(){}]{0,200}[ \t]>(?=[ \t]{0,20}(?:\n|$))"
"""`<your path >` at the end of a line, where a redirection would have no file."""
PLACEHOLDER = (
    r"<[A-Za-z_](?:(?:[^<>\n|&;$`\"'(){}]|\([^<>()\n]*\))*(?:[^<>\n|&;$`\"'(){}\s]|\([^<>()\n]*\)))?>"
    r"(?=[\s\"'/.;,:_-]|$)|" + _QUOTED + "|" + _LAST
)
REDIRECTED_DESCRIPTOR = r"\s\d>$"


def without_template_faults(problems: Sequence[Problem]) -> tuple[Problem, ...]:
    """The problems of a script; of a template, which bash refuses until it is filled in, those that are not fatal."""
    lines = (each.span.source.line_text(each.span.line) for each in problems if each.fatal)
    if not any("{{" in line or re.search(PLACEHOLDER, line) for line in lines):
        return tuple(problems)
    return tuple(problem for problem in problems if not problem.fatal)


def placeholder_end(cursor: Cursor) -> int:
    """Where the placeholder at the reading position ends; the position itself if none begins there."""
    if cursor.peek() != "<":
        return cursor.at
    match = re.compile(PLACEHOLDER).match(cursor.text, cursor.at)
    return cursor.at if not match or re.search(REDIRECTED_DESCRIPTOR, match[0]) else match.end()
