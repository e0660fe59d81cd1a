"""Brace expansion: `{a,b}` and `{1..8}`, before anything else is expanded."""

from __future__ import annotations

import re

from dtlint.languages.shell.syntax import Literal, Parameter, Part
from dtlint.source import Span

RANGE = r"(?:(-?\d+)\.\.(-?\d+)|([A-Za-z])\.\.([A-Za-z]))(?:\.\.(-?\d+))?$"
NAME_CHARACTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
MAX_WORDS = 1_000
"""Most words that braces may make; beyond, they are kept as written."""

MAX_PARTS = 1_000
"""Most parts of a word whose braces are expanded."""

Parts = tuple[Part, ...]


def brace_words(parts: Parts) -> list[Parts]:
    """The words that the braces of one word stand for."""
    if not any(isinstance(part, Literal) and not part.quoted and "{" in part.text for part in parts):
        return [parts]
    single = _single_characters(parts)
    if len(single) > MAX_PARTS:
        return [parts]
    words = _expand(single, 0)
    return [_with_names(_merged(word)) for word in words] if len(words) <= MAX_WORDS else [parts]


def _with_names(parts: Parts) -> Parts:
    """Parts in which a name takes what a brace puts behind it: `$A{1..2}` is `$A1` and `$A2`."""
    joined: list[Part] = []
    for part in parts:
        before = joined[-1] if joined else None
        if isinstance(before, Parameter) and isinstance(part, Literal) and not part.quoted and _is_bare(before):
            rest = part.text.lstrip(NAME_CHARACTERS)
            joined[-1] = before._replace(name=before.name + part.text[: len(part.text) - len(rest)])
            part = part._replace(text=rest)
        joined.append(part)
    return tuple(joined)


def _is_bare(parameter: Parameter) -> bool:
    return not parameter.quoted and parameter.span.text == f"${parameter.name}" and parameter.name.isidentifier()


def _single_characters(parts: Parts) -> Parts:
    """The same parts, unquoted braces and commas each one by itself."""
    result: list[Part] = []
    for part in parts:
        if not isinstance(part, Literal) or part.quoted:
            result.append(part)
            continue
        at = 0
        for mark in re.finditer(r"[{},]", part.text):
            result.extend(_slice(part, at, mark.start()))
            result.extend(_slice(part, mark.start(), mark.end()))
            at = mark.end()
        result.extend(_slice(part, at, len(part.text)))
    return tuple(result)


def _slice(part: Literal, start: int, end: int) -> list[Part]:
    if start == end:
        return []
    span = part.span
    return [Literal(part.text[start:end], Span(span.source, span.start + start, span.start + end))]


def _is(part: Part, mark: str) -> bool:
    return isinstance(part, Literal) and not part.quoted and part.text == mark


def _expand(parts: Parts, depth: int) -> list[Parts]:
    opening = next((number for number, part in enumerate(parts) if _is(part, "{")), None)
    if opening is None or depth > 20:
        return [parts]
    group = _group(parts, opening)
    if group is None:
        return [(*parts[: opening + 1], *rest) for rest in _expand(parts[opening + 1 :], depth + 1)]
    choices, closing = group
    middles = [word for choice in choices for word in _expand(choice, depth + 1)]
    rests = _expand(parts[closing + 1 :], depth + 1)
    if len(middles) * len(rests) > MAX_WORDS:
        return [parts]
    return [(*parts[:opening], *middle, *rest) for middle in middles for rest in rests]


def _group(parts: Parts, opening: int) -> tuple[list[Parts], int] | None:
    """The choices of the braces that begin at `opening`, and where they close; None if they are no brace expansion."""
    level, start = 0, opening + 1
    choices: list[Parts] = []
    for number in range(opening, len(parts)):
        part = parts[number]
        level += _is(part, "{") - _is(part, "}")
        if level == 0:
            choices.append(parts[start:number])
            choices = choices if len(choices) > 1 else _range(choices[0])
            return (choices, number) if choices else None
        if level == 1 and _is(part, ","):
            choices.append(parts[start:number])
            start = number + 1
    return None


def _range(inside: Parts) -> list[Parts]:
    if len(inside) != 1 or not isinstance(inside[0], Literal):
        return []
    part = inside[0]
    match = re.match(RANGE, part.text)
    if not match:
        return []
    first, last = (int(match[1]), int(match[2])) if match[1] else (ord(match[3]), ord(match[4]))
    step = abs(int(match[5] or 1)) or 1
    if abs(last - first) // step > MAX_WORDS:
        return []
    numbers = range(first, last + 1, step) if first <= last else range(first, last - 1, -step)
    width = max(len(match[1]), len(match[2])) if match[1] and _padded(match[1], match[2]) else 0
    return [(Literal(str(number).zfill(width) if match[1] else chr(number), part.span),) for number in numbers]


def _padded(first: str, last: str) -> bool:
    return any(len(text.lstrip("-")) > 1 and text.lstrip("-")[0] == "0" for text in (first, last))


def _merged(parts: Parts) -> Parts:
    """Neighbouring pieces of one literal put together again."""
    result: list[Part] = []
    for part in parts:
        before = result[-1] if result else None
        if (
            isinstance(part, Literal)
            and isinstance(before, Literal)
            and not part.quoted
            and not before.quoted
            and before.span.end == part.span.start
            and len(before.text) == before.span.end - before.span.start
            and len(part.text) == part.span.end - part.span.start
        ):
            span = Span(part.span.source, before.span.start, part.span.end)
            result[-1] = Literal(before.text + part.text, span)
        else:
            result.append(part)
    return tuple(result)
