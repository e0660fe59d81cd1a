"""Checks dtlint.toml against dtlint.schema.json without jsonschema, whose import costs more than a whole check.

Knows the part of JSON Schema that the file uses: type, enum, minimum, properties, additionalProperties, items.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias, cast

from dtlint.record import NamedTuple

FILE = Path(__file__).with_name("dtlint.schema.json")

Toml: TypeAlias = "bool | int | float | str | list[Toml] | dict[str, Toml]"
"""What a TOML file holds, but for dates and times, which no key takes."""

_TYPES: Mapping[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "string": (str,),
    "array": (list,),
    "object": (dict,),
}
_SPOKEN = {
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "string": "a text",
    "array": "a list",
    "object": "a table",
}
_KEY = r"""\s*(?:"([^"]*)"|'([^']*)'|([A-Za-z0-9_-]+))\s*([.=\]]?)"""


class Fault(NamedTuple):
    """What is wrong with the value at a path of keys."""

    keys: tuple[str, ...]
    message: str


def faults(value: Toml, schema: Mapping[str, object] | None = None, keys: tuple[str, ...] = ()) -> Iterator[Fault]:
    """Everything in `value` that the schema (by default that of dtlint.toml) refuses."""
    if schema is None:
        schema = _schema()
    refusal = _refusal(value, schema)
    if refusal:
        yield Fault(keys, f"'{keys[-1]}' {refusal}" if keys else refusal)
        return
    if isinstance(value, dict):
        yield from _table_faults(value, schema, keys)
    if isinstance(value, list):
        for item in value:
            yield from faults(item, cast("Mapping[str, object]", schema.get("items", {})), keys)


def line_of(text: str, keys: tuple[str, ...]) -> int:
    """The line (from 1) of a TOML text on which the key at path `keys` stands, or the nearest table that holds it."""
    table: tuple[str, ...] = ()
    best, length = 1, 0
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if bare.startswith("["):
            table = here = _dotted(bare.strip("["))
        else:
            here = (*table, *_dotted(bare))
        if length < len(here) and here == keys[: len(here)]:
            best, length = number, len(here)
    return best


def _schema() -> Mapping[str, object]:
    import json

    return cast("Mapping[str, object]", json.loads(FILE.read_text(encoding="utf-8")))


def _refusal(value: Toml, schema: Mapping[str, object]) -> str:
    stated = schema.get("type", [])
    types = [stated] if isinstance(stated, str) else cast("list[str]", stated)
    if types and not any(_is(value, name) for name in types):
        return f"takes {' or '.join(_SPOKEN[name] for name in types)}, not {_written(value)}"
    allowed = cast("list[Toml]", schema.get("enum", []))
    if allowed and value not in allowed:
        return f"is one of {', '.join(map(_written, allowed))}, not {_written(value)}"
    least = schema.get("minimum")
    if isinstance(least, (int, float)) and isinstance(value, (int, float)) and value < least:
        return f"is at least {least:g}, not {value:g}"
    return ""


def _table_faults(table: dict[str, Toml], schema: Mapping[str, object], keys: tuple[str, ...]) -> Iterator[Fault]:
    known = cast("Mapping[str, Mapping[str, object]]", schema.get("properties", {}))
    other = schema.get("additionalProperties", True)
    for key, value in table.items():
        if key in known:
            yield from faults(value, known[key], (*keys, key))
        elif isinstance(other, dict):
            yield from faults(value, other, (*keys, key))
        elif other is False:
            yield Fault((*keys, key), f"unknown key '{key}'{suggestion(key, known)}")


def suggestion(word: str, known: Mapping[str, object]) -> str:
    """`; did you mean ...?` with the nearest of the known words, else all of them if they are few."""
    from difflib import get_close_matches

    near = get_close_matches(word, known, 1, 0.6)
    if near:
        return f"; did you mean '{near[0]}'?"
    return f"; known are {', '.join(known)}" if 0 < len(known) <= 12 else ""


def _is(value: Toml, name: str) -> bool:
    return isinstance(value, _TYPES[name]) and (name == "boolean" or not isinstance(value, bool))


def _written(value: Toml) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (str, int, float)):
        return repr(value) if isinstance(value, (int, float)) else f'"{value}"'
    return "a list" if isinstance(value, list) else "a table" if isinstance(value, dict) else f"{value}"


def _dotted(text: str) -> tuple[str, ...]:
    parts: list[str] = []
    at = 0
    while match := re.compile(_KEY).match(text, at):
        parts.append(next(group for group in match.group(1, 2, 3) if group is not None))
        at = match.end()
        if match.group(4) != ".":
            break
    return tuple(parts)
