"""Shell patterns and POSIX regular expressions as Python's, within a bound on what matching may cost."""

from __future__ import annotations

import re
from functools import lru_cache

from dtlint.languages.shell.state import World

MAX_MATCH_STEPS = 5_000_000
"""Most backtracking steps that a pattern may need on a text; beyond, the answer is unknown."""

MAX_PATTERN = 2_000
"""Longest Python pattern that is compiled, in characters."""

STEPS_TO_COMPILE = 200
"""How many backtracking steps take as long, by order of magnitude, as compiling a character of a pattern."""

TOKEN = re.compile(r"\\.|\[\^?\]?(?:[^\[\]\\]|\\.)*\]|\(\?i\)|\(\?:|[*+]\??|\{[^{}]*\}\??|\?\??|.", re.DOTALL)
"""What a Python pattern consists of."""

CLASSES = {
    "alpha": "a-zA-Z",
    "digit": "0-9",
    "alnum": "a-zA-Z0-9",
    "upper": "A-Z",
    "lower": "a-z",
    "space": r"\s",
    "blank": r" \t",
    "punct": r"!-/:-@\[-`{-~",
    "xdigit": "0-9A-Fa-f",
}


def affordable(world: World, pattern: str, length: int, times: int = 1) -> bool:
    """Whether matching a Python pattern against `times` texts of `length` characters stays within the bounds: that of
    one match, and that of all matches of a script, from which it is taken.
    """
    steps = (length + 1) * _ways(pattern, length)
    if steps > MAX_MATCH_STEPS:
        return False
    world.match_steps -= int(steps) * times
    return world.match_steps >= 0


@lru_cache(maxsize=256)
def _ways(pattern: str, length: int) -> float:
    """In how many ways a pattern can fit beginnings of a text at most: those of what follows each other multiplied,
    those of alternatives added.
    """
    before, product, inner = [0.0], [1.0], 1.0
    for token in TOKEN.findall(pattern):
        if token == ")" and len(product) > 1:
            inner = before.pop() + product.pop()
            product[-1] *= inner
            continue
        if token in ("(", "(?:"):
            before.append(0.0)
            product.append(1.0)
        elif token == "|":
            before[-1] += product[-1]
            product[-1] = 1.0
        else:
            product[-1] *= _factor(token, inner, length)
        inner = 1.0
    return before[0] + product[0]


def _factor(token: str, inner: float, length: int) -> float:
    """By how much a part of a pattern behind something that fits in `inner` ways multiplies these: without bound where
    it repeats what fits in several.
    """
    if token[0] == "?":
        return 2
    if token[0] in "*+" or (token[0] == "{" and len(token) > 1):
        return length + 1 if inner == 1 else float("inf")
    return length + 1 if token[0] == "\\" and token[1:].isdecimal() else 1


def compiled(world: World, pattern: str) -> re.Pattern[str] | None:
    """A Python pattern compiled, None if it is none, or too long, or the script has had as many as are followed."""
    world.match_steps -= len(pattern) * STEPS_TO_COMPILE
    return _compiled(pattern) if len(pattern) <= MAX_PATTERN and world.match_steps >= 0 else None


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str] | None:
    try:
        return re.compile(pattern, re.DOTALL)
    except (re.error, OverflowError, RecursionError):
        return None


def glob_pattern(glob: str, greedy: str = "*") -> str:
    """A shell pattern (specials that were quoted stand behind a backslash) as a Python pattern; `greedy` is `*` or
    `*?`.
    """
    pieces: list[str] = []
    at = 0
    while at < len(glob):
        piece, at = _glob_piece(glob, at, greedy)
        pieces.append(piece)
    return "".join(pieces)


def _glob_piece(glob: str, at: int, greedy: str) -> tuple[str, int]:
    char = glob[at]
    if char == "\\" and at + 1 < len(glob):
        return re.escape(glob[at + 1]), at + 2
    if char in "?*+@!" and glob[at + 1 : at + 2] == "(":
        close = glob.find(")", at)
        if close > 0 and char != "!":
            return _extended(char, glob[at + 2 : close], greedy), close + 1
    if char == "*":
        while glob[at + 1 : at + 2] == "*":
            at += 1
        return "." + greedy, at + 1
    if char == "?":
        return ".", at + 1
    if char == "[":
        return _bracket(glob, at)
    return re.escape(char), at + 1


def _extended(char: str, inner: str, greedy: str) -> str:
    choices = "|".join(glob_pattern(choice, greedy) for choice in inner.split("|"))
    return f"(?:{choices})" + {"?": "?", "*": "*", "+": "+", "@": ""}[char]


def _bracket(glob: str, at: int) -> tuple[str, int]:
    start = at + 2 if glob[at + 1 : at + 2] in ("!", "^") and glob[at + 1 : at + 2] else at + 1
    close = start + 1
    while close < len(glob) and glob[close] != "]":
        named = re.compile(r"\[:\w+:\]").match(glob, close)
        close = named.end() if named else close + 1
    first = re.compile(r"\[:\w+:\]").match(glob, start)
    if first and close < first.end():
        close = glob.find("]", first.end())
    if close >= len(glob) or close < 0:
        return re.escape("["), at + 1
    return "[" + ("^" if start == at + 2 else "") + _members(glob[start:close]) + "]", close + 1


def _members(members: str) -> str:
    escaped = re.sub(r"\\(?![\]\\^-])|\^|\[(?!:)", lambda match: "\\" + match[0], members)
    return re.sub(r"\[:(\w+):\]", lambda match: CLASSES.get(match[1], match[1]), escaped)


def posix_pattern(expression: str, extended: str) -> str:
    """A POSIX regular expression as a Python pattern; `extended` is "E" for grep -E, sed -E and awk, "" for the basic
    kind.
    """
    pieces: list[str] = []
    at = 0
    while at < len(expression):
        piece, at = _posix_piece(expression, at, extended, bool(pieces))
        pieces.append(piece)
    return "".join(pieces)


def _posix_piece(expression: str, at: int, extended: str, inside: bool) -> tuple[str, int]:
    char = expression[at]
    if char == "\\" and at + 1 < len(expression):
        return _posix_escape(expression[at + 1], extended), at + 2
    if char == "[":
        return _bracket(expression, at)
    if char == "*" and not inside:
        return r"\*", at + 1
    if not extended and char in "+?(){}|":
        return "\\" + char, at + 1
    if char == "$" and at + 1 < len(expression) and not extended:
        return r"\$", at + 1
    return (char if char in ".*+?(){}|^$" else re.escape(char)), at + 1


def _posix_escape(char: str, extended: str) -> str:
    if not extended and char in "+?(){}|":
        return char
    if char in "wWsSbB" or char.isdecimal():
        return "\\" + char
    if char in "nt":
        return "\\" + char
    return r"\b" if char in "<>" else re.escape(char)
