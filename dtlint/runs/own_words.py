"""Words that releases refuse and the tree's own program knows: it makes something of them before the framework looks,
or has registered them there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from dtlint.frameworks import Member, Reading
from dtlint.runs.own_fields import field_of
from dtlint.runs.tree import Tree
from dtlint.value import Value

_INVALID = "config.invalid"
_AFTER_PROGRAM = ("lightning-cli", "lightning-hydra")
"""Layers of what a program holds in its hands, as a config that it may change, before a list of words is asked."""
_COPIED = ("llama-factory",)
"""Front ends that a tree may hold a changed copy of, which asks a list of words of its own."""
_PROGRAMS = ("lightning-python",)
"""Layers of calls in a program's text: what a package of the tree has registered, the call may name."""
_WORD = re.compile(r"[A-Za-z]\w{2,80}")
"""A word that is a name; numbers and formats such as `16-mixed` stand in many files for other reasons."""


def with_own_words(
    collections: dict[str, tuple[Member, ...]], readings: Sequence[Reading], tree: Tree
) -> dict[str, tuple[Member, ...]]:
    """The collections without the words that Python of the tree names beside the key which takes them."""
    known = {
        member.place for reading in readings for member in _refused_words(reading) if _knows(tree, reading, member)
    }
    if not known:
        return collections
    return {**collections, _INVALID: tuple(each for each in collections[_INVALID] if each.place not in known)}


def _refused_words(reading: Reading) -> Iterator[Member]:
    members = reading.collections.get(_INVALID, ())
    return (member for member in members if _WORD.fullmatch(_text(member, "value")))


def _knows(tree: Tree, reading: Reading, member: Member) -> bool:
    if reading.layer in _PROGRAMS:
        return _is_registered(member, tree)
    return (reading.layer in _AFTER_PROGRAM or reading.frontend in _COPIED) and _is_named(member, tree)


def _is_registered(member: Member, tree: Tree) -> bool:
    """Whether a Python file holds the word as a text, and a registry (Lightning's StrategyRegistry)."""
    quoted = _quoted(member)
    return any(
        "Registry" in source.text and any(each in source.text for each in quoted) for source in tree.python_sources()
    )


def _is_named(member: Member, tree: Tree) -> bool:
    """Whether a Python file holds the word as a text, and the name of the key."""
    key, quoted = field_of(_text(member, "key")), _quoted(member)
    return any(key in source.text and any(each in source.text for each in quoted) for source in tree.python_sources())


def _quoted(member: Member) -> tuple[str, str]:
    word = _text(member, "value")
    return f'"{word}"', f"'{word}'"


def _text(member: Member, field: str) -> str:
    found = member.fields.get(field)
    return str(found.value) if isinstance(found, Value) else ""
