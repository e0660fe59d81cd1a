"""The parts of a condition that must all hold, as they are written."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dtlint.rulebook.expressions import one_line

_TOKEN = re.compile(r"'[^']*'|\"[^\"]*\"|[(\[]|[)\]]|\b(?:and|or|if)\b")


def parts(condition: str) -> list[str]:
    """`a and (b or c)` as `a` and `(b or c)`; a condition of which one part is enough stays whole."""
    text = one_line(condition)
    words = list(_outside(text))
    if any(word.group() != "and" for word in words):
        return [text]
    ends = [*(word.start() for word in words), len(text)]
    starts = [0, *(word.end() for word in words)]
    return [text[start:end].strip() for start, end in zip(starts, ends, strict=True)]


def _outside(text: str) -> Iterator[re.Match[str]]:
    """The words `and`, `or` and `if` that stand in no bracket and no quotes."""
    depth = 0
    for token in _TOKEN.finditer(text):
        if token.group() in ("(", "["):
            depth += 1
        elif token.group() in (")", "]"):
            depth -= 1
        elif depth == 0 and token.group()[0] not in "'\"":
            yield token
