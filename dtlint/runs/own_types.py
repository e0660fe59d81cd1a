"""Values that releases of Megatron refuse and the parser of the run's own program takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dtlint.frameworks import Member, Reading
from dtlint.frameworks.kinds import wanted
from dtlint.value import Value

_INVALID = "config.invalid"
_MEGATRON = "megatron-arguments"


def with_own_types(
    collections: dict[str, tuple[Member, ...]], readings: Sequence[Reading]
) -> dict[str, tuple[Member, ...]]:
    """The collections without values of Megatron's flags that a parser in the tree takes, which alone reads them."""
    types = {flag: kind for reading in readings for flag, kind in reading.types.items()}
    asked = [each for reading in readings if reading.layer == _MEGATRON for each in _invalid(reading.collections)]
    taken = {member.place for member in asked if _is_taken(member, types)}
    if not taken:
        return collections
    return {**collections, _INVALID: tuple(each for each in collections[_INVALID] if each.place not in taken)}


def _invalid(collections: Mapping[str, tuple[Member, ...]]) -> tuple[Member, ...]:
    return collections.get(_INVALID, ())


def _is_taken(member: Member, types: Mapping[str, str]) -> bool:
    """Whether the parser in the tree declares a flag with a type that takes the value."""
    kind = types.get(_text(member, "key"))
    if kind is None or _text(member, "expected") == "a value":
        return kind == "flag"
    if kind == "flag" or not _text(member, "value"):
        return False
    return kind not in ("int", "float") or not wanted(kind, _text(member, "value"))


def _text(member: Member, field: str) -> str:
    found = member.fields.get(field)
    return str(found.value) if isinstance(found, Value) else ""
