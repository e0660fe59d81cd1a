"""Places as other tools count them: paths from the top of the repository, one token a finding, columns in bytes."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from dtlint.account import is_there
from dtlint.source import Span

_WORD = re.compile(r"\S+")


def repository_path(span: Span) -> str:
    """The span's file from the top of its git work tree, links resolved; outside of one as reports print it."""
    file = span.source.file
    return span.path if file is None else _from_top(file) or span.path


def token(span: Span) -> Span:
    """The part of a span that stands for it: its first line without blanks, where it has none the line's first word.

    Code hosts show a remark on a change only if every line of its region is in the change.
    """
    span = span.original()
    source, line = span.source, span.line
    begin = source.line_start(line)
    text = source.line_text(line)
    found = _WORD.search(text[: span.end - begin].rstrip(), span.start - begin) or _WORD.search(text)
    if found is None:
        return source.span(span.start, span.start)
    end = min(span.end, begin + len(text))
    start = begin + found.start()
    return source.span(start, end if start < end and start >= span.start else begin + found.end())


def byte_column(span: Span, offset: int) -> int:
    """The column of an offset counted in bytes of UTF-8, from 1."""
    source = span.source
    line, column = source.position(offset)
    start = source.line_start(line)
    return len(source.text[start : start + column - 1].encode("utf-8", "surrogatepass")) + 1


@cache
def _from_top(file: Path) -> str:
    resolved = file.resolve()
    top = next((folder for folder in resolved.parents if is_there(folder / ".git")), None)
    return "" if top is None else resolved.relative_to(top).as_posix()
