"""Commands that move text between files: cat, tee, cp, mv, envsubst."""

from __future__ import annotations

import re

from dtlint.languages.shell.call import Call
from dtlint.languages.shell.files import append_file, read_file, write_file
from dtlint.languages.shell.inputs import input_of, read_options
from dtlint.languages.shell.text import Text, cut, flat
from dtlint.languages.shell.variables import read_text
from dtlint.languages.traced import Piece

VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})")


def run_cat(call: Call) -> Text | None:
    """Files one after the other."""
    options = read_options(call, "")
    return None if options is None or options.values else input_of(call, options.operands)


def run_tee(call: Call) -> Text | None:
    """The input, written to files too."""
    options = read_options(call, "")
    text = call.shell.stdin
    if options is None or text is None:
        return None
    for word in options.operands:
        if "a" in options.values:
            append_file(call.shell, word.pieces, text, call.place)
        else:
            write_file(call.shell, word.pieces, text)
    return text


def run_copy(call: Call) -> Text | None:
    """A file under another name; None (the command is reported) if it is not known."""
    options = read_options(call, "t")
    if options is None or len(options.operands) != 2:
        return None
    text = read_file(call.shell, options.operands[0].pieces, call.place)
    target = options.operands[1]
    if text is None or target.shown.endswith("/"):
        return None
    write_file(call.shell, target.pieces, text)
    return ()


def run_move(call: Call) -> Text | None:
    """As copying; the old name is kept, which nothing depends on."""
    return run_copy(call)


def run_envsubst(call: Call) -> Text | None:
    """The input with its variables filled in."""
    text = call.shell.stdin
    if text is None:
        return None
    chosen = set(re.findall(r"\w+", call.words[1].shown)) if len(call.words) > 1 else None
    pieces: list[Piece] = []
    characters = flat(text)
    at = 0
    for match in VARIABLE.finditer(characters):
        name = match[1] or match[2]
        if chosen is not None and name not in chosen:
            continue
        pieces.extend(cut(text, at, match.start()))
        pieces.extend(read_text(call.shell, name, call.place))
        at = match.end()
    pieces.extend(cut(text, at, len(characters)))
    return tuple(pieces)
