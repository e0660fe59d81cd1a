"""Text from files inside Markdown that a code host renders: it can neither format, link, notify nor break out."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dtlint.report.terminal import printable

_PUNCTUATION = re.compile(r"([\\`*_{}\[\]()#+!|~$])")
_CALLS = re.compile(r"([@#:])(?=\w|//)|(?<=www)(\.)", re.IGNORECASE)
_NOTHING = "\N{ZERO WIDTH SPACE}"
"""Between a sign and a word it keeps a host from making them a mention, a reference or a link."""


def escaped(text: str) -> str:
    """`text` as the words that it is, on one line."""
    safe = _PUNCTUATION.sub(r"\\\1", printable(text))
    safe = safe.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _CALLS.sub(lambda match: match[0] + _NOTHING, safe)


def code(text: str) -> str:
    """`text` as code on one line, also in a table; the fence is longer than any run of backticks in it."""
    shown = printable(text).replace("|", "\N{BROKEN BAR}")
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence, room = "`" * (longest + 1), " " if longest else ""
    return f"{fence}{room}{shown}{room}{fence}"


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    """The lines of a table; a column whose heading ends with a colon is set to the right."""
    titles = [title.removesuffix(":") for title in head]
    rule = ["---:" if title.endswith(":") else "---" for title in head]
    return [f"| {' | '.join(cells)} |" for cells in (titles, rule, *rows)]


def capped(lines: list[str], most: int) -> list[str]:
    """The lines, those in the middle left out where all together have more than `most` characters."""
    sizes = [len(line) + 1 for line in lines]
    if sum(sizes) <= most:
        return lines
    note = "(more than fits here: the report of `dtlint check` has all of it)"
    room = (most - len(note) - 2) // 2
    head, tail = _fitting(sizes, room), _fitting(sizes[::-1], room)
    return [*lines[:head], note, *lines[len(lines) - tail :]]


def _fitting(sizes: list[int], room: int) -> int:
    used = 0
    for count, size in enumerate(sizes):
        used += size
        if used > room:
            return count
    return len(sizes)
