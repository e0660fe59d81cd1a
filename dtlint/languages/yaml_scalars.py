"""The scalars of YAML 1.1 as PyYAML takes them: which plain texts are numbers, switches or nothing."""

from __future__ import annotations

import re
from typing import Literal

from dtlint.blanks import is_placeholder
from dtlint.languages.json_tree import Kind
from dtlint.languages.placeholders import HOLE
from dtlint.languages.traced import UNKNOWN_CHARACTER
from dtlint.value import Plain

Dialect = Literal["safe", "omegaconf"]
"""Whose reading counts: PyYAML's safe loader (`1e-5` is a text), or OmegaConf's (it is a number)."""

Scalar = tuple[Kind, Plain]

_NOTHING = frozenset(("", "~", "null", "Null", "NULL"))
_TRUE = frozenset(form for word in ("yes", "true", "on") for form in (word, word.title(), word.upper()))
_FALSE = frozenset(form for word in ("no", "false", "off") for form in (word, word.title(), word.upper()))
_WHOLE = re.compile(
    r"[-+]?(?:0b(?P<two>[01_]+)|0x(?P<sixteen>[0-9a-fA-F_]+)|0(?P<eight>[0-7_]+)|(?P<ten>0|[1-9][0-9_]*)"
    r"|(?P<sixty>[1-9][0-9_]*(?::[0-5]?[0-9])+))"
)
_FRACTION = (
    r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?"
    r"|[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*)"
)
_EXPONENT = r"[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)[eE][-+]?[0-9]+"
_LIMITS = re.compile(r"(?P<sign>[-+]?)\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_BASES = {"two": 2, "eight": 8, "ten": 10, "sixteen": 16}
_DIGITS = 4000
"""Longest whole number that is read; Python refuses to convert much longer ones."""
LARGEST = 10**40
"""Whole numbers from here on are as good as infinite; with floats no arithmetic can overflow."""


def plain_scalar(text: str, dialect: Dialect) -> Scalar:
    """What an unquoted scalar is: nothing, a switch, a number, a placeholder (`bare`), or else a text."""
    if UNKNOWN_CHARACTER in text:
        return "unknown", None
    if text in _NOTHING:
        return "null", None
    if text in _TRUE or text in _FALSE:
        return "bool", text in _TRUE
    if text[0] in "+-.0123456789":
        number = _number(text, dialect)
        return ("number", number) if number is not None else ("string", text)
    return quoted_scalar(text)


def quoted_scalar(text: str) -> Scalar:
    """A text; one that leaves room for another program to fill is `bare`."""
    if UNKNOWN_CHARACTER in text:
        return "unknown", None
    filled = is_placeholder(text) or re.search(HOLE, text)
    return ("bare", text) if filled else ("string", text)


def tagged_scalar(text: str, tag: str, dialect: Dialect) -> Scalar:
    """A scalar with a tag of its own: `!!str 8` is a text; what a program's own tag (`!include`) makes is not known."""
    if tag.endswith(":str"):
        return quoted_scalar(text)
    return plain_scalar(text, dialect) if tag.startswith(("tag:yaml.org,2002:", "!!")) else ("bare", f"{tag} {text}")


def _number(text: str, dialect: Dialect) -> int | float | None:
    whole = _WHOLE.fullmatch(text) if len(text) < _DIGITS else None
    if whole is not None:
        number = _whole(text, whole)
        return number if number is None or abs(number) < LARGEST else float("inf" if number > 0 else "-inf")
    limit = _LIMITS.fullmatch(text)
    if limit is not None:
        return float("nan") if "n" in text.lower().replace("inf", "") else float(f"{limit['sign']}inf")
    wide = dialect == "omegaconf" and re.fullmatch(_EXPONENT, text)
    if not wide and not re.fullmatch(_FRACTION, text):
        return None
    return _sixties(text) if ":" in text else float(text.replace("_", ""))


def _whole(text: str, found: re.Match[str]) -> int | None:
    base = found.lastgroup or "ten"
    if base == "sixty":
        return int(_sixties(text))
    digits = found[base].replace("_", "")
    sign = -1 if text.startswith("-") else 1
    return sign * int(digits, _BASES[base]) if digits else None


def _sixties(text: str) -> float:
    """`1:30` is 90 in YAML 1.1."""
    sign = -1 if text.startswith("-") else 1
    total: float = 0
    for part in text.lstrip("+-").replace("_", "").split(":"):
        total = total * 60 + (float(part) if "." in part else int(part))
    return sign * total
