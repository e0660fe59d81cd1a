"""Words of a launch that its reader has yet to fill in: it is a template, and not yet what somebody starts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dtlint.frameworks import Claim, Reading
from dtlint.languages.placeholders import TO_FILL_IN
from dtlint.languages.traced import Piece, Word
from dtlint.value import written

LAYER = "template"
_UNFILLED = re.compile(
    r"<[A-Za-z_][^<>\n]*>|(?:^|[/=])path/to(?:/|$)|\b(?:YOUR|your)[_-]|^x{3,}$|\b(?:REPLACE|CHANGE|FILL)[_-]?(?:ME|THIS)\b"
)
"""`<path>`, `/path/to/data`, `YOUR_DATA`, `xxx`, `CHANGE_ME`."""


def read(words: Sequence[Word]) -> Reading:
    """The first such word, as it was written, as the setting `launch.unfilled`."""
    word = next((word for word in words if _UNFILLED.search(_characters(word))), None)
    if word is None:
        return Reading(LAYER)
    return Reading(LAYER, claims=(Claim("launch.unfilled", written(_characters(word), word.place)),))


def _characters(word: Word) -> str:
    """The characters of a word, those of a placeholder too, which stand for others."""
    return "".join(_shown(piece) for piece in word.pieces)


def _shown(piece: Piece) -> str:
    if piece.text is not None:
        return piece.text
    return piece.unknown.removesuffix(TO_FILL_IN) if piece.unknown.endswith(TO_FILL_IN) else "?"
