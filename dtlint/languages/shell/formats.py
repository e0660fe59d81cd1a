"""`printf`: a format applied to its arguments, as often as they last."""

from __future__ import annotations

import re

from dtlint.languages.shell.ansi import escape_at
from dtlint.languages.shell.builtins import with_escapes
from dtlint.languages.shell.text import Text, literal, unknown
from dtlint.languages.traced import Piece, Word
from dtlint.source import Span

DIRECTIVE = re.compile(r"%([-+ 0#]*)((?:[1-9]\d*)?)(?:\.(\d+))?([sdifbqcxXoueEgG%])")
SPECIAL = re.compile(r"[^\w@%+=:./^-]", re.ASCII)
"""What `printf %q` puts a backslash before."""

MAX_ROUNDS = 200
MAX_WIDTH = 1_000


def printf_text(words: list[Word], place: Span) -> Text:
    """What printf prints for a format and its arguments; unknown if the format is."""
    form = words[0].text
    if form is None:
        return unknown(place, "printf with an unknown format")
    arguments = words[1:]
    pieces: list[Piece] = []
    for _ in range(MAX_ROUNDS):
        used = _one_round(form, words[0], arguments, pieces, place)
        arguments = arguments[used:]
        if not arguments or not used:
            break
    return tuple(pieces)


def _one_round(form: str, word: Word, arguments: list[Word], pieces: list[Piece], place: Span) -> int:
    """Append the format filled once; how many arguments it took."""
    at = used = 0
    while at < len(form):
        directive = DIRECTIVE.match(form, at)
        if directive and directive[4] != "%":
            argument = arguments[used] if used < len(arguments) else None
            pieces.extend(_filled(directive, argument, place))
            used += 1
            at = directive.end()
        elif directive or form[at] == "\\":
            text, length = ("%", len(directive[0])) if directive else escape_at(form, at)
            pieces.extend(literal(text, place))
            at += length
        else:
            end = at + 1
            while end < len(form) and form[end] not in "%\\":
                end += 1
            pieces.extend(word.part(at, end).pieces)
            at = end
    return used


def _filled(directive: re.Match[str], argument: Word | None, place: Span) -> Text:
    kind = directive[4]
    plain = not directive[1] and not directive[2] and directive[3] is None
    if kind == "b" and plain and argument is not None:
        return with_escapes(argument.pieces)
    if kind in "sb" and plain:
        return argument.pieces if argument is not None else ()
    text = "" if argument is None else argument.text
    if text is None:
        assert argument is not None
        return tuple(piece for piece in argument.pieces if piece.text is None)[:1] or unknown(place, "an open list")
    filled = _formatted(directive, text)
    if filled is None:
        return unknown(place, f"printf {directive[0]} of {text}")
    return (
        (argument.pieces[0]._replace(text=filled),)
        if argument is not None and argument.pieces
        else literal(filled, place)
    )


def _formatted(directive: re.Match[str], text: str) -> str | None:
    flags, kind = directive[1], directive[4]
    width, precision = min(int(directive[2] or 0), MAX_WIDTH), directive[3]
    if kind == "q":
        return SPECIAL.sub(r"\\\g<0>", text) if text.isprintable() and text else None
    if kind in "sb":
        shown = text if precision is None else text[: int(precision)]
        return shown.ljust(width) if "-" in flags else shown.rjust(width)
    if kind == "c":
        return text[:1]
    try:
        number = (
            float(text)
            if kind in "feEgG"
            else int(text or "0", 0 if not text.lstrip("-").startswith("0") or text[:2] == "0x" else 8)
        )
    except (ValueError, OverflowError):
        return None
    digits = "" if precision is None else f".{min(int(precision), MAX_WIDTH)}"
    return f"%{flags}{width or ''}{digits}{kind}" % number
