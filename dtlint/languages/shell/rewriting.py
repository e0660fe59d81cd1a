"""The operators of `${...}` that rewrite a text: `#`, `%`, `/`, `^`, `,`, `@`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from dtlint.languages.shell.patterns import affordable, compiled, glob_pattern
from dtlint.languages.shell.state import Shell
from dtlint.languages.shell.syntax import Parameter, WordSyntax
from dtlint.languages.shell.text import Text, cut, flat, known, literal, reworded, unknown
from dtlint.languages.traced import Piece
from dtlint.source import Span


class Expanding(Protocol):
    """How operands are expanded."""

    @property
    def text(self) -> Callable[[Shell, WordSyntax], Text]:
        """As a text."""

    @property
    def pattern(self) -> Callable[[Shell, WordSyntax], str | None]:
        """As a pattern, None if unknown."""


def transformed(shell: Shell, part: Parameter, expander: Expanding, text: Text) -> Text:
    """The operators that rewrite a text: `#`, `%`, `/`, `^`, `,`, `@`."""
    kind = part.operator[0]
    if kind == "@":
        return _as_transformed(text, part)
    if kind in "^,~":
        return _recased(text, part.operator)
    glob = expander.pattern(shell, part.operands[0])
    if glob is None:
        return unknown(part.span, f"the pattern of {part.span.text} is unknown")
    if kind == "/":
        replacement = expander.text(shell, part.operands[1]) if len(part.operands) > 1 else ()
        return _replaced(shell, text, part.operator, glob, replacement, part.span)
    return _trimmed(shell, text, part.operator, glob, part.span)


def _as_transformed(text: Text, part: Parameter) -> Text:
    """`@U`, `@u`, `@L`, and `@Q` of a text that can stand between single quotes."""
    recased = {"@U": "^^", "@u": "^", "@L": ",,"}.get(part.operator)
    if recased is not None:
        return _recased(text, recased)
    characters = known(text)
    if part.operator == "@Q" and characters is not None and characters.isprintable() and "'" not in characters:
        quote = literal("'", part.span)
        return (*quote, *text, *quote)
    return unknown(part.span, f"{part.span.text} is not followed")


def _recased(text: Text, operator: str) -> Text:
    characters = flat(text)
    change = {"^": str.upper, ",": str.lower, "~": str.swapcase}[operator[0]]
    changed = change(characters)
    return reworded(text, changed if len(operator) == 2 else changed[:1] + characters[1:])


def _trimmed(shell: Shell, text: Text, operator: str, glob: str, span: Span) -> Text:
    """`#`, `##`, `%`, `%%`: an end of the text that fits the pattern is cut off."""
    characters = flat(text)
    pattern = glob_pattern(glob)
    matcher = compiled(shell.world, pattern)
    if matcher is None or not affordable(shell.world, pattern, len(characters)) or len(characters) > 2_000:
        return unknown(span, f"the pattern of {span.text[:40]} is not followed")
    if known(text) is None and not _certain(text, glob, operator):
        return unknown(span, f"{span.text[:40]} is a part of an unknown text")
    places = range(len(characters) + 1)
    if operator[0] == "#":
        fits = [end for end in places if matcher.fullmatch(characters, 0, end)]
        return cut(text, (max if operator == "##" else min)(fits), len(characters)) if fits else text
    fits = [start for start in places if matcher.fullmatch(characters, start)]
    return cut(text, 0, (min if operator == "%%" else max)(fits)) if fits else text


def _certain(text: Text, glob: str, operator: str) -> bool:
    """Whether unknown stretches cannot change what a trim does: a fixed ending or beginning that lies in the known
    part.
    """
    if any(char in glob for char in "*?["):
        return False
    edge = text[-1] if operator[0] == "%" else text[0]
    return edge.text is not None and len(edge.text) >= len(glob)


def _replaced(shell: Shell, text: Text, operator: str, glob: str, replacement: Text, span: Span) -> Text:
    characters = flat(text)
    pattern = glob_pattern(glob)
    pattern = {"/#": "^(?:" + pattern + ")", "/%": "(?:" + pattern + r")\Z"}.get(operator, pattern)
    matcher = compiled(shell.world, pattern)
    if not glob:
        return {"/#": (*replacement, *text), "/%": (*text, *replacement)}.get(operator, text)
    if matcher is None or not affordable(shell.world, pattern, len(characters)):
        return unknown(span, f"the pattern of {span.text[:40]} is not followed")
    if known(text) is None:
        return unknown(span, f"{span.text[:40]} rewrites an unknown text")
    pieces: list[Piece] = []
    at = 0
    for match in matcher.finditer(characters):
        if match.end() == match.start():
            continue
        pieces.extend(cut(text, at, match.start()))
        pieces.extend(replacement)
        at = match.end()
        if operator != "//":
            break
    pieces.extend(cut(text, at, len(characters)))
    return tuple(pieces)
