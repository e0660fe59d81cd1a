"""Edits that write a setting into a DeepSpeed config: another value for a key, or a new entry in its section."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dtlint.frameworks import Member, Reading
from dtlint.frameworks.deepspeed.spelling import json_text, key_of, value_of
from dtlint.source import Edit, Span
from dtlint.value import Plain, Unknown, Value

_NEXT = r"[ \t]*(\r?\n[ \t]*)?"


def home(reading: Reading, setting: str) -> Span | None:
    """Where a setting that a config does not write belongs: the key of its section, else the whole config."""
    section = (key_of(setting) or "").rpartition(".")[0]
    found = _listed(reading, section)
    return found.place if found is not None else reading.place


def edits(reading: Reading, setting: str, value: Plain) -> tuple[Edit, ...]:
    """What to change in the config's text so that it writes a setting; () where its text cannot be changed so.

    A section that is missing is added with the entry. A text that a script writes is left alone, and Python is.
    """
    path = key_of(setting)
    if path is None or not _is_json_file(reading):
        return ()
    text = json_text(value_of(setting, value))
    present = _listed(reading, path)
    if present is not None:
        span = _value_span(present)
        return (Edit(span, text),) if span is not None else ()
    entry, holder = _entry(reading, path, text)
    return (_inserted(holder, entry),) if holder.text.startswith("{") else ()


def _is_json_file(reading: Reading) -> bool:
    return reading.layer == "deepspeed-json" and reading.place is not None and reading.place.source.file is not None


def _entry(reading: Reading, path: str, text: str) -> tuple[str, Span]:
    """The entry to insert, with the sections that are missing around it, and the object that takes it."""
    section, _, key = path.rpartition(".")
    entry = f'"{key}": {text}'
    while section:
        found = _listed(reading, section)
        span = _value_span(found) if found is not None else None
        if span is not None:
            return entry, span
        section, _, name = section.rpartition(".")
        entry = f'"{name}": {{{entry}}}'
    assert reading.place is not None
    return entry, reading.place


def _inserted(holder: Span, entry: str) -> Edit:
    """The entry as the first one of an object, laid out as those that follow it."""
    source = holder.source
    at = holder.start + 1
    line = re.compile(_NEXT).match(source.text, at, holder.end)
    end = line.end() if line is not None else at
    after = source.text[end : end + 1]
    layout = (line[1] or "") if line is not None else ""
    if after in ("", "}"):
        return Edit(source.span(at, at), entry)
    return Edit(source.span(at, at), f"{layout}{entry}," + ("" if layout else " "))


def _listed(reading: Reading, path: str) -> Member | None:
    """The known key at a dotted path; the last one counts."""
    return next((member for member in reversed(tuple(_keys(reading))) if _path(member) == path), None)


def _keys(reading: Reading) -> Iterator[Member]:
    yield from reading.collections.get("config.keys", ())


def _path(member: Member) -> Plain:
    path = member.fields.get("path")
    return path.value if isinstance(path, Value) else None


def _value_span(member: Member) -> Span | None:
    """Where the value of a key stands."""
    value = member.fields.get("value")
    origin = value.origin if isinstance(value, (Value, Unknown)) else None
    return origin.span if origin is not None else None
