"""Scalars of a DeepSpeed config as DeepSpeed takes them: which texts are numbers to it, and what "auto" is."""

from __future__ import annotations

import math
import re

from dtlint.frameworks import AUTO
from dtlint.languages.json_tree import Node, setting
from dtlint.value import Origin, Setting, Unknown, Value, truth

_WHOLE = r"\s*[+-]?[0-9]{1,18}(\.0*)?\s*"
"""Texts that DeepSpeed's checked sections take for a whole number (pydantic's lax mode)."""


def is_auto(node: Node) -> bool:
    """Whether the value is the word "auto", which a front end may fill."""
    return node.kind == "string" and node.value == "auto"


def whole_number(node: Node) -> Setting:
    """A whole number: `8`, `5e8`, true for 1, or the text "8" (but not "5e8"); Unknown for anything else."""
    if is_auto(node):
        return auto(node)
    if node.kind == "number" and isinstance(node.value, (int, float)) and _is_whole(node.value):
        return setting(node, int(node.value))
    if node.kind == "bool":
        return setting(node, int(bool(node.value)))
    if node.kind == "string" and re.fullmatch(_WHOLE, str(node.value)):
        return setting(node, int(str(node.value).split(".")[0]))
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
    value = _truth_of(node)
    return setting(node, value) if value is not None else _other(node, "true or false")


def _truth_of(node: Node) -> bool | None:
    if node.kind == "number" and node.value in (0, 1):
        return node.value == 1
    return truth(str(node.value)) if node.kind == "string" else None


def word(node: Node) -> Setting:
    """A word in small letters."""
    if is_auto(node):
        return auto(node)
    return setting(node, str(node.value).lower()) if node.kind == "string" else _other(node, "a word")


def format_name(node: Node) -> Setting:
    """A number format, by the name that the plan has for it (`float16` is fp16)."""
    found = word(node)
    name = str(found.value).removeprefix("torch.") if isinstance(found, Value) else ""
    return found._replace(value=_FORMATS.get(name, name)) if isinstance(found, Value) else found


_FORMATS = {"float16": "fp16", "half": "fp16", "bfloat16": "bf16", "float32": "fp32", "float": "fp32"}
"""Other names that DeepSpeed has for a format (runtime/config.py, DtypeEnum)."""


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
