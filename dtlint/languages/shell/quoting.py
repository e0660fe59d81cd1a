"""Words of a command that no shell has read yet, as the text by which a shell would start the same command."""

from __future__ import annotations

from collections.abc import Iterable

from dtlint.languages.shell.text import Text, cut_all, flat
from dtlint.languages.traced import Piece


def quoted(words: Iterable[Text]) -> Text:
    """The words between single quotes, each character with its origin."""
    pieces: list[Piece] = []
    for word in words:
        if word:
            pieces.extend((*_mark(word, " ") * bool(pieces), *_between_quotes(word)))
    return tuple(pieces)


def _between_quotes(word: Text) -> Text:
    parts = flat(word).split("'")
    ranges, at = [], 0
    for part in parts:
        ranges.append((at, at + len(part)))
        at += len(part) + 1
    inner = [
        piece
        for number, text in enumerate(cut_all(word, ranges))
        for piece in (*_mark(word, "'\\''") * bool(number), *text)
    ]
    end = word[-1].span
    return (*_mark(word, "'"), *inner, Piece("'", end._replace(start=end.end)))


def _mark(word: Text, characters: str) -> Text:
    """Characters that stand nowhere, at the place of a word's beginning."""
    span = word[0].span
    return (Piece(characters, span._replace(end=span.start)),)
