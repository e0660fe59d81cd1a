"""`jq -n` with a program that is one JSON object or list: literals, and variables from --arg and --argjson."""

from __future__ import annotations

import re

from dtlint.languages.shell.call import Call
from dtlint.languages.shell.text import Text, derived, flat, literal
from dtlint.languages.traced import UNKNOWN_CHARACTER, Piece, Word

TOKEN = r'\s*(?:("(?:[^"\\]|\\[^(])*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)|\$([A-Za-z_]\w*)|([A-Za-z_]\w*)|([{}\[\]:,]))'
OPENING = ("{", "[")
CLOSING = ("}", "]")
CONSTANTS = ("true", "false", "null")
PLAIN_OPTIONS = ("-n", "--null-input", "-r", "--raw-output", "-M")


def run_jq(call: Call) -> Text | None:
    """What it prints, laid out as jq does; None for a program that is more than one value."""
    values: dict[str, Text] = {}
    program: Word | None = None
    words = iter(call.words[1:])
    for word in words:
        if word.text in ("--arg", "--argjson"):
            name, value = next(words, None), next(words, None)
            if name is None or value is None or value.many:
                return None
            values[name.shown] = value.pieces if word.text == "--argjson" else _as_string(value)
        elif word.text not in PLAIN_OPTIONS:
            if program is not None:
                return None
            program = word
    nothing_read = {"-n", "--null-input"} & {word.text for word in call.words}
    return _value(call, program, values) if program is not None and nothing_read else None


def _as_string(word: Word) -> Text:
    import json

    place = word.place
    text = word.text
    if text is not None and json.dumps(text) != f'"{text}"':
        return (derived(json.dumps(text), word.pieces),)
    return (*literal('"', place), *word.pieces, *literal('"', place))


def _value(call: Call, program: Word, values: dict[str, Text]) -> Text | None:
    pieces = _laid_out(call, program, values)
    characters = "" if pieces is None else flat(tuple(pieces))
    if pieces is None or characters[:1] not in OPENING or not _is_json(characters):
        return None
    return (*pieces, *literal("\n", call.place))


def _laid_out(call: Call, program: Word, values: dict[str, Text]) -> list[Piece] | None:
    """The tokens of the program with the line ends and indents between them; None at one that is not followed."""
    if program.text is None:
        return None
    text = program.text.rstrip()
    pieces: list[Piece] = []
    at, depth, before = 0, 0, ""
    while at < len(text):
        token = re.compile(TOKEN).match(text, at)
        if token is None or (token[2] is not None and token[2] not in values) or _is_call(token, text):
            return None
        mark = token[4] or ""
        depth -= mark in CLOSING
        if before in OPENING or before == "," or mark in CLOSING:
            pieces.extend(_line_end(call, depth, before, mark))
        depth += mark in OPENING
        pieces.extend(_filled(call, program, token, values))
        at, before = token.end(), mark or "value"
    return pieces if text is not None else None


def _is_call(token: re.Match[str], text: str) -> bool:
    """Whether a bare word is neither a constant nor a key."""
    return token[3] is not None and token[3] not in CONSTANTS and text[token.end() :].lstrip()[:1] != ":"


def _line_end(call: Call, depth: int, before: str, mark: str) -> Text:
    empty = before + mark in ("{}", "[]")
    return () if empty else literal("\n" + "  " * depth, call.place)


def _filled(call: Call, program: Word, token: re.Match[str], values: dict[str, Text]) -> Text:
    if token[2] is not None:
        return values[token[2]]
    if token[3] is not None and token[3] not in CONSTANTS:
        quote = literal('"', call.place)
        return (*quote, *program.part(token.start(3), token.end(3)).pieces, *quote)
    group = next(number for number in (1, 3, 4) if token[number] is not None)
    pieces = program.part(token.start(group), token.end(group)).pieces
    return (*pieces, *literal(" ", call.place)) if token[4] == ":" else pieces


def _is_json(text: str) -> bool:
    """Whether a text is JSON whatever its unknown stretches are."""
    import json

    try:
        json.loads(text.replace(UNKNOWN_CHARACTER, "0"))
    except (ValueError, RecursionError):
        return False
    return True
