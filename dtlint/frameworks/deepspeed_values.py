"""Scalars of a DeepSpeed config as DeepSpeed takes them: which texts are numbers to it, and what "auto" is."""

from __future__ import annotations

import math
import re

from dtlint.frameworks import AUTO
from dtlint.languages.json_tree import Node, setting
from dtlint.value import Origin, Setting, Unknown, Value, truth

_WHOLE = r"[+-]?[0-9]{1,18}"


def is_auto(node: Node) -> bool:
    """Whether the value is the word "auto", which a front end may fill."""
    return node.kind == "string" and node.value == "auto"


def whole_number(node: Node) -> Setting:
    """A whole number: `8`, `5e8`, or the text "8" (but not "5e8"); Unknown for anything else."""
    if is_auto(node):
        return auto(node)
    if node.kind == "number" and isinstance(node.value, (int, float)) and _is_whole(node.value):
        return setting(node, int(node.value))
    if node.kind == "string" and re.fullmatch(_WHOLE, str(node.value)):
        return setting(node, int(str(node.value)))
    return _other(node, "a whole number")


def number(node: Node) -> Setting:
    """A finite number, perhaps as text."""
    if is_auto(node):
        return auto(node)
    try:
        value = float(str(node.value)) if node.kind in ("number", "string") else math.nan
    except ValueError:
        value = math.nan
    return setting(node, value) if math.isfinite(value) else _other(node, "a number")


def flag(node: Node) -> Setting:
    """True or false, also as the words and numbers that DeepSpeed takes for them."""
    if is_auto(node):
        return auto(node)
    if node.kind == "bool":
        return setting(node)
    value = truth(str(node.value)) if node.kind in ("string", "number") else None
    return setting(node, value) if value is not None else _other(node, "true or false")


def word(node: Node) -> Setting:
    """A word in small letters."""
    if is_auto(node):
        return auto(node)
    return setting(node, str(node.value).lower()) if node.kind == "string" else _other(node, "a word")


def auto(node: Node) -> Unknown:
    """The Unknown that stands for a literal "auto"."""
    return Unknown(AUTO, "", Origin("written", node.span))


def known(value: Setting | None) -> object:
    """What a setting holds, None if it is absent or not known."""
    return value.value if isinstance(value, Value) else None


def _is_whole(value: float) -> bool:
    return value == value and abs(value) < 2**63 and value == int(value)


def _other(node: Node, expected: str) -> Setting:
    if node.kind in ("bare", "unknown"):
        return setting(node)
    shown = node.span.text if len(node.span.text) <= 40 else f"an {node.kind}"
    return Unknown(f"{shown} stands where {expected} is expected", "", Origin("written", node.span))
