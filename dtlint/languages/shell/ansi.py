"""The escapes of `$'...'`, `echo -e` and `printf`."""

from __future__ import annotations

import re
from collections.abc import Iterator

NAMED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v"}
PLAIN = re.compile(r"[^'\\]+")
CODE = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3}))")
OUTPUT_CODE = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|0?([0-7]{1,3}))")


def ansi_escapes(text: str, at: int, end: int) -> Iterator[tuple[str, int]]:
    """The stretches of `$'...'` from `at` to the closing quote: the characters that each yields, and its length in the
    script.
    """
    while at < end and text[at] != "'":
        plain = PLAIN.match(text, at, end)
        result = (plain[0], len(plain[0])) if plain else escape_at(text, at, CODE)
        yield result
        at += result[1]


def escape_at(text: str, at: int, codes: re.Pattern[str] = OUTPUT_CODE) -> tuple[str, int]:
    """The character that the backslash escape at `at` yields, and the escape's length; an unknown escape yields
    itself.
    """
    code = codes.match(text, at)
    if code:
        return _character(code), len(code[0])
    after = text[at + 1 : at + 2]
    if after in NAMED and after:
        return NAMED[after], 2
    if after and after in "\\'\"?":
        return after, 2
    return text[at : at + 2], len(text[at : at + 2])


def _character(code: re.Match[str]) -> str:
    number = int(code[4], 8) if code[4] else int(code[1] or code[2] or code[3], 16)
    return chr(number) if 0 < number < 0x110000 and not 0xD800 <= number < 0xE000 else "\ufffd"
