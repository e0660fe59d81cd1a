"""Values that releases refuse and the parser of the run's own program, or a dataclass of the tree, takes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from dtlint.frameworks import Member, Reading
from dtlint.frameworks.kinds import wanted
from dtlint.runs.own_fields import reads_into_classes
from dtlint.value import Value

_INVALID = "config.invalid"
_MEGATRON = "megatron-arguments"
_WORDS = re.compile(r"\bLiteral\[")
"""How the type of a field begins that takes some words alone."""


def with_own_types(
    collections: dict[str, tuple[Member, ...]], readings: Sequence[Reading]
) -> dict[str, tuple[Member, ...]]:
    """The collections without values that a parser in the tree takes, which alone reads them."""
    types = {flag: kind for reading in readings for flag, kind in reading.types.items()}
    asked = [each for reading in readings if _is_asked(reading) for each in _invalid(reading.collections)]
    taken = {member.place for member in asked if _is_taken(member, types)}
    if not taken:
        return collections
    return {**collections, _INVALID: tuple(each for each in collections[_INVALID] if each.place not in taken)}


def _is_asked(reading: Reading) -> bool:
    """Whether a copy of the front end in the tree may take what a release does not."""
    return reading.layer == _MEGATRON or reads_into_classes(reading)


def _invalid(collections: Mapping[str, tuple[Member, ...]]) -> tuple[Member, ...]:
    return collections.get(_INVALID, ())


def _is_taken(member: Member, types: Mapping[str, str]) -> bool:
    """Whether the parser in the tree declares a flag with a type that takes the value."""
    kind = types.get(_text(member, "key"))
    if kind is None or _text(member, "expected") == "a value":
        return kind == "flag"
    if kind == "flag" or not _text(member, "value"):
        return False
    if kind in ("int", "float"):
        return not wanted(kind, _text(member, "value"))
    return not _WORDS.search(kind) or f'"{_text(member, "value")}"' in kind.replace("'", '"')


def _text(member: Member, field: str) -> str:
    found = member.fields.get(field)
    return str(found.value) if isinstance(found, Value) else ""
