"""Splits unquoted expansions into fields at the characters of `$IFS`."""

from __future__ import annotations

import re

from dtlint.languages.shell.state import Array, Shell
from dtlint.languages.shell.text import Text, cut_all, flat, known

DEFAULT_SEPARATORS = " \t\n"
BLANKS = (" ", "\t", "\n")
BLANK_SEPARATED = re.compile(r"[^ \t\n]+")


def field_separators(shell: Shell) -> str:
    """The characters of `$IFS`."""
    value = shell.variables.get("IFS")
    text = None if value is None or isinstance(value, Array) else known(value)
    return DEFAULT_SEPARATORS if text is None else text


def split_fields(text: Text, separators: str) -> list[Text | None]:
    """The fields of a text. None stands for the nothing before a leading and behind a trailing separator."""
    ranges, leading, trailing = field_ranges(flat(text), separators)
    fields: list[Text | None] = [None] if leading else []
    fields.extend(cut_all(text, ranges))
    return [*fields, None] if trailing else fields


def field_ranges(characters: str, separators: str) -> tuple[list[tuple[int, int]], bool, bool]:
    """Where the fields stand, and whether a separator stands before the first and behind the last."""
    if separators == DEFAULT_SEPARATORS:
        ranges = [match.span() for match in BLANK_SEPARATED.finditer(characters)]
        return ranges, characters[:1] in BLANKS and bool(characters), bool(ranges) and ranges[-1][1] < len(characters)
    blanks = [char for char in separators if char in " \t\n"]
    start = len(characters) - len(characters.lstrip("".join(blanks) or "\0"))
    ranges = []
    at = first = start
    while at < len(characters):
        if characters[at] not in separators:
            at += 1
            continue
        ranges.append((first, at))
        at = first = _behind_separator(characters, at, separators, blanks)
    if first < len(characters):
        ranges.append((first, len(characters)))
        return ranges, start > 0, False
    return ranges, start > 0, bool(ranges)


def _behind_separator(characters: str, at: int, separators: str, blanks: list[str]) -> int:
    """Behind one separator with the blanks around it."""
    met_mark = False
    while at < len(characters) and characters[at] in separators:
        if characters[at] not in blanks:
            if met_mark:
                break
            met_mark = True
        at += 1
    return at
