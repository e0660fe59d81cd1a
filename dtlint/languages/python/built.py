"""Objects as statements leave them: what a call passes to build one, what is assigned to its attributes later."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias, Union

from dtlint.languages.json_tree import Entry, Kind, Node
from dtlint.source import Span
from dtlint.value import Choice, Option, Setting, Unknown, Value

DICT, LIST = "dict", "list"
"""Names of what `{...}` and `[...]` build; the items of a list are numbered."""


class Built:
    """An object under construction.

    `name` is the qualified name of what builds it, "" for the default of a field that nobody has set. `fields` are its
    attributes, `given` the arguments of the call. `open` says why it may have other values than those that are told,
    "" if it has none.
    """

    __slots__ = ("fields", "given", "name", "open", "span")

    def __init__(self, name: str, span: Span, fields: Mapping[str, Part] | None = None, open_: str = "") -> None:
        self.name = name
        self.span = span
        self.fields: dict[str, Part] = dict(fields or {})
        self.given: dict[str, Part] = {}
        self.open = open_

    @property
    def is_default(self) -> bool:
        """Whether nothing is known but that the object is there."""
        return not self.name and not self.fields

    def attribute(self, name: str, span: Span) -> Part:
        """An attribute; one that nobody has set is a default, to which more may be assigned."""
        if name not in self.fields:
            self.fields[name] = Built("", span, open_=self.open)
        return self.fields[name]

    def hide(self, reason: str) -> None:
        """Forget what is told: something that is not read may change it."""
        waiting, met = [self], {id(self)}
        while waiting:
            for part in waiting.pop()._forget(reason):
                if id(part) not in met:  # objects may hold each other
                    met.add(id(part))
                    waiting.append(part)

    def _forget(self, reason: str) -> list[Built]:
        """Forget the own values; the objects that are held are returned."""
        self.open = self.open or reason
        held = {name: part for name, part in self.fields.items() if isinstance(part, Built)}
        self.fields = {name: held.get(name) or Unknown(reason, "", None) for name in self.fields}
        return list(held.values())


Part: TypeAlias = Union[Built, Setting]  # noqa: UP007 - the name is not defined yet
Names = dict[str, "Part"]


def leaf(part: Part) -> Setting:
    """A part as a value."""
    if isinstance(part, Built):
        return Unknown(part.open or "it is an object or a default that is not read")
    return part


def copied(part: Part, twins: dict[int, Built]) -> Part:
    """A copy of an object with all that it holds; `twins` are the copies made so far, by identity."""
    if not isinstance(part, Built):
        return part
    if id(part) not in twins:
        twin = twins[id(part)] = Built(part.name, part.span, open_=part.open)
        twin.given = part.given
        twin.fields = {name: copied(inner, twins) for name, inner in part.fields.items()}
    return twins[id(part)]


def join(one: Part, other: Part, guard: str, seen: set[int]) -> Part:
    """What holds after two branches, of which `guard` is the condition of the first. Objects are joined in place."""
    if isinstance(one, Built) and isinstance(other, Built):
        _join_objects(one, other, guard, seen)
        return one
    if isinstance(one, Built) or isinstance(other, Built):
        return _absent_in_one(one, other, guard)
    if one == other or (isinstance(one, Value) and isinstance(other, Value) and one.value == other.value):
        return one
    if isinstance(one, Value | Unknown) and isinstance(other, Value | Unknown):
        return Choice((Option(guard, one), Option("otherwise", other)))
    return Unknown(f"it depends on {guard}")


def _join_objects(one: Built, other: Built, guard: str, seen: set[int]) -> None:
    if id(one) in seen or one is other:
        return
    seen.add(id(one))
    if one.name != other.name:
        one.name, one.open = "", f"it depends on {guard}"
    one.open = one.open or other.open
    for name in dict.fromkeys((*one.fields, *other.fields)):
        first = one.fields.get(name, Built("", one.span, open_=one.open))
        second = other.fields.get(name, Built("", other.span, open_=other.open))
        one.fields[name] = join(first, second, guard, seen)


def _absent_in_one(one: Part, other: Part, guard: str) -> Part:
    """A value in one branch, an object or a default in the other."""
    value = other if isinstance(one, Built) else one
    place = value.origin if isinstance(value, Value | Unknown) else None
    return Unknown(f"it depends on {guard}", "", place)


def join_names(one: Names, other: Names, guard: str, twins: Mapping[int, Built], originals: Iterable[Built]) -> None:
    """Join the names of two branches into `one`; `twins` are the second branch's copies of the `originals`."""
    seen: set[int] = set()
    for original in originals:
        twin = twins.get(id(original))
        if twin is not None:
            _join_objects(original, twin, guard, seen)
    for name in dict.fromkeys((*one, *other)):
        if name in one and name in other:
            one[name] = join(one[name], other[name], guard, seen)
        elif name in other:
            one[name] = other[name]


def objects_in(parts: Iterable[Part]) -> list[Built]:
    """Every object that parts hold, each once."""
    found: dict[int, Built] = {}
    waiting = list(parts)
    while waiting:
        part = waiting.pop()
        if isinstance(part, Built) and id(part) not in found:
            found[id(part)] = part
            waiting.extend(part.fields.values())
    return list(found.values())


def node_of(part: Part, span: Span) -> Node | None:
    """A part as a tree of keys, which readers of configs take; None for a default that nobody has set."""
    return _node(part, span, frozenset())


def _node(part: Part, span: Span, above: frozenset[int]) -> Node | None:
    if not isinstance(part, Built):
        return Node(_kind(part), _plain(part), _place(part) or span, told=part)
    if id(part) in above or (part.is_default and not part.open):
        return None
    inside = above | {id(part)}
    if part.name == LIST:
        items = (_node(item, part.span, inside) for item in part.fields.values())
        return Node("array", None, part.span, items=tuple(item for item in items if item is not None))
    found = ((name, _node(inner, part.span, inside)) for name, inner in part.fields.items())
    entries = tuple(Entry(name, inner.span, inner) for name, inner in found if inner is not None)
    return Node("object", None, part.span, entries, hidden=part.span if part.open else None)


def _place(part: Setting) -> Span | None:
    origin = part.origin if isinstance(part, Value | Unknown) else None
    return origin.span if origin is not None else None


def _plain(part: Setting) -> str | bool | int | float | None:
    value = part.value if isinstance(part, Value) else None
    return None if isinstance(value, tuple) else value


def _kind(part: Setting) -> Kind:
    if not isinstance(part, Value) or isinstance(part.value, tuple):
        return "unknown"
    if part.value is None:
        return "null"
    return "bool" if isinstance(part.value, bool) else "string" if isinstance(part.value, str) else "number"
