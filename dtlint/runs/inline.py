"""Configs that stand on the command line itself instead of a file's path."""

from __future__ import annotations

import base64
import binascii
import re

from dtlint.languages.traced import Piece, Word, WrittenSource

_ENCODED = re.compile(r"[A-Za-z0-9_+/-]{16,100000}={0,2}")


def inline_config(path: Word, script: str) -> WrittenSource | None:
    """The config that a word is: JSON (transformers TrainingArguments, arguments that may be a dict), or JSON in base64
    (deepspeed runtime/config.py); None for a path. `script` is where the word stands.
    """
    if path.shown.lstrip().startswith("{"):
        return WrittenSource(script, path.pieces)
    decoded = _decoded(path.text or "")
    return WrittenSource(script, (Piece(decoded, path.place),)) if decoded else None


def _decoded(text: str) -> str:
    if not _ENCODED.fullmatch(text) or "." in text:
        return ""
    try:
        found = base64.b64decode(text, "-_" if set(text) & set("-_") else None, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
    return found if found.lstrip().startswith("{") else ""
