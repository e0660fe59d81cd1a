"""Filters of paths: basename, dirname, realpath."""

from __future__ import annotations

import posixpath

from dtlint.languages.shell.call import Call
from dtlint.languages.shell.inputs import read_options
from dtlint.languages.shell.text import Text, cut, flat, known, literal, reworded, unknown
from dtlint.languages.traced import CURRENT_FOLDER


def run_basename(call: Call) -> Text | None:
    """The last part of a path, without a suffix given behind it."""
    options = read_options(call, "s")
    if options is None or not options.operands:
        return None
    text = options.operands[0].pieces
    characters = flat(text).rstrip("/")
    start = characters.rfind("/") + 1
    if (start == 0 or characters.endswith("/..")) and any(piece.text is None for piece in text):
        return (*unknown(call.place, "a part of an unknown path"), *literal("\n", call.place))
    suffix = options.text("s") or (options.operands[1].text if len(options.operands) > 1 else "") or ""
    end = len(characters)
    if suffix and characters.endswith(suffix) and characters[start:] != suffix:
        end -= len(suffix)
    return (*cut(text, start, end), *literal("\n", call.place))


def run_dirname(call: Call) -> Text | None:
    """A path without its last part."""
    options = read_options(call, "")
    if options is None or not options.operands:
        return None
    text = options.operands[0].pieces
    characters = flat(text).rstrip("/") or flat(text)[:1]
    end = characters.rfind("/")
    if characters.endswith("/..") and any(piece.text is None for piece in text):
        return (*text, *literal("/..\n", call.place))  # the folder that the shell is in is never called `..`
    if end < 0 and any(piece.text is None for piece in text):
        return (*unknown(call.place, "a part of an unknown path"), *literal("\n", call.place))
    if end < 0:
        folder = (text[0]._replace(text="."),) if text else literal(".", call.place)
        return (*folder, *literal("\n", call.place))
    end = len(characters[:end].rstrip("/")) or 1
    return (*cut(text, 0, end), *literal("\n", call.place))


def run_realpath(call: Call) -> Text | None:
    """An absolute path as it is; another begins in a folder that is known only when it runs."""
    options = read_options(call, "")
    if options is None or not options.operands:
        return None
    text = options.operands[-1].pieces
    characters = flat(text)
    if characters.startswith("/"):
        absolute = text if known(text) is None else reworded(text, posixpath.normpath("/" + characters.lstrip("/")))
        return (*absolute, *literal("\n", call.place))
    folder = unknown(call.place, "the current folder is known only when it runs", "", CURRENT_FOLDER)
    rest = text[:0] if characters in (".", "") else (*literal("/", call.place), *text)
    if call.shell.folder:
        rest = (*literal(f"/{call.shell.folder}", call.place), *rest)
    return (*folder, *rest, *literal("\n", call.place))
