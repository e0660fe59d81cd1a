"""Texts that no release of Python takes: what newer syntax, or Python 2, could explain is none of them."""

from __future__ import annotations

import re

from dtlint.source import Problem

_MESSAGES = re.compile(
    r"not valid Python: (?:unexpected indent|expected an indented block|unindent does not match|unmatched '"
    r"|'[(\[{]' was never closed|closing parenthesis|unterminated string literal)"
)
"""How CPython says what its tokenizer and its blocks have been holding since Python 2."""
_FORMATTED = re.compile(r"(?i)(?<!\w)(?:[ft]r?|r[ft])[\"']")
"""A formatted string, which may hold more since 3.12."""
_WITHOUT_VALUE = re.compile(r"\s*[A-Za-z_][\w.]*\s*=\s*(?:#.*)?")
_CONFLICT = re.compile(r"(?:<{7}|={7}|>{7})(?:\s.*)?")
"""What git leaves of a merge that is not finished."""


def is_invalid(problem: Problem) -> bool:
    """Whether the text at fault is refused by every release."""
    line = _line(problem)
    if _FORMATTED.search(line):
        return False
    broken_off = _WITHOUT_VALUE.fullmatch(line) or _CONFLICT.fullmatch(line)
    return broken_off is not None or _MESSAGES.match(problem.message) is not None


def _line(problem: Problem) -> str:
    text, start = problem.span.source.text, problem.span.start
    first, end = text.rfind("\n", 0, start) + 1, text.find("\n", start)
    return text[first : len(text) if end < 0 else end].rstrip("\r")
