"""Accelerate's keys as they are written, and how one of them becomes a claim."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from dtlint.frameworks import Claim, Member
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.deepspeed.values import flag, known, whole_number
from dtlint.languages.json_tree import Entry, Node, setting
from dtlint.record import NamedTuple
from dtlint.source import Span
from dtlint.value import Origin, Plain, Setting, Unknown, Value

TOOL = "Accelerate"
Read = Callable[[Node], Setting]


class Key(NamedTuple):
    """A key as written, with the name of its option and the section that holds it ("" at the top level)."""

    section: str
    name: str
    entry: Entry


class Given(NamedTuple):
    """The keys that are written, by name. `dashes` is what stands before a name where it is written ("--" on a command
    line).
    """

    nodes: Mapping[str, Node]
    dashes: str = ""

    def node(self, name: str) -> Node | None:
        """The value of a key; None if it is absent, null or the word None."""
        found = self.nodes.get(name)
        return None if found is None or found.kind == "null" or found.value == "None" else found

    def spelled(self, name: str) -> str:
        """How the key is written."""
        return self.dashes + name

    def known(self, name: str) -> object:
        """What a key holds, None if that is not known."""
        found = self.node(name)
        return known(setting(found)) if found is not None else None


def member(key: Key, **words: str) -> Member:
    """An entry of a collection about a key, with its value and `words`."""
    place = key.entry.place
    fields = texts(place, key=key.entry.key, section=key.section, **words)
    return Member(place, {**fields, "value": setting(key.entry.node)})


def one(given: Given, name: str, setting_name: str, read: Read) -> Iterator[Claim]:
    """The claim of one key, if it is written."""
    node = given.node(name)
    if node is not None:
        yield Claim(setting_name, read(node), given.spelled(name))


def whole(given: Given, name: str, setting_name: str) -> Iterator[Claim]:
    """The claim of a key that takes a whole number."""
    yield from one(given, name, setting_name, whole_number)


def switched(given: Given, name: str, setting_name: str, on: Plain, off: Plain) -> Iterator[Claim]:
    """A switch that stands for one of two values of a setting."""
    node = given.node(name)
    if node is None:
        return
    value = flag(node)
    if isinstance(value, Value):
        value = value._replace(value=on if value.value else off)
    yield Claim(setting_name, value, given.spelled(name))


def by_default(value: Plain, place: Span) -> Value:
    """What Accelerate takes unasked; `place` is where it would be written."""
    return Value(value, Origin("default", place, (), TOOL))


def other(node: Node, expected: str) -> Setting:
    """A value that its key does not take, or that is not known."""
    if node.kind in ("bare", "unknown"):
        return setting(node)
    return Unknown(f"{node.value} is not {expected}", "", Origin("written", node.span))
