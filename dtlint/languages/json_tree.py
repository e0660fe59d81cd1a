"""The tree that JSON text is read into: values with their places, and how to look into them."""

from __future__ import annotations

from typing import Literal

from dtlint.languages.traced import Word, pieces_between, setting_of
from dtlint.record import NamedTuple
from dtlint.source import Problem, Source, Span
from dtlint.value import Origin, Plain, Setting, Unknown, Value, written

Kind = Literal["object", "array", "string", "number", "bool", "null", "bare", "unknown"]


class Node(NamedTuple):
    """A value and its place.

    `value` is what a scalar holds; a `bare` word (a placeholder, `CONFIG_BATCH_SIZE`) has its text, an `unknown` None.
    `entries` are an object's, in order, repeated keys included; `items` an array's. `hidden` is an unknown stretch in
    which more entries or items may stand. `told` is the scalar as another language's reader found it, where the tree
    stands for a config in code.
    """

    kind: Kind
    value: Plain
    span: Span
    entries: tuple[Entry, ...] = ()
    items: tuple[Node, ...] = ()
    hidden: Span | None = None
    told: Setting | None = None


class Entry(NamedTuple):
    """A key and its value; `place` is the key's, quotes included."""

    key: str
    place: Span
    node: Node


class Document(NamedTuple):
    """A file read; `root` is None if nothing in it is a value.

    The loader of a problem is "json" for what strict JSON refuses and hjson takes, "duplicate" for a repeated key,
    "template" for a word that another program has to fill in, "number" for NaN and infinities, which Python's readers
    take, "" for what no loader takes.
    """

    source: Source
    root: Node | None
    problems: tuple[Problem, ...] = ()


def entry(node: Node | None, key: str) -> Entry | None:
    """The entry of an object that counts: the last of that key. None where there is none, or `node` is no object."""
    if node is None:
        return None
    return next((found for found in reversed(node.entries) if found.key == key), None)


def member(node: Node | None, *path: str) -> Node | None:
    """The value that a path of keys leads to, None where it ends before."""
    for key in path:
        found = entry(node, key)
        node = found.node if found is not None else None
    return node


def setting(node: Node, value: Plain = None) -> Setting:
    """A scalar as a setting with the place where it is written, in the script if a script writes the file.

    `value` stands in for the scalar where the caller has read it. Unknown for an object or array.
    """
    if node.told is not None:
        return node.told._replace(value=value) if isinstance(node.told, Value) and value is not None else node.told
    if node.kind == "bare":
        return Unknown(f"placeholder {node.value} is filled by another program", "", Origin("written", node.span))
    if node.kind in ("object", "array"):
        return Unknown(f"an {node.kind} stands where a value is expected", "", Origin("written", node.span))
    if node.kind == "null":
        return written(None, node.span)
    known = node.value if value is None else value
    start, end = (node.span.start, node.span.end)
    if node.span.source.text[start] in "\"'" and end - start > 2:
        start, end = start + 1, end - 1
    pieces = pieces_between(node.span.source, start, end)
    if node.kind == "unknown" and all(piece.text is not None for piece in pieces):
        return Unknown("no value is written", "", Origin("written", node.span))
    if len(pieces) == 1 and pieces[0].text is not None and not pieces[0].chain and not pieces[0].assumed:
        return written(known, node.span)
    return setting_of(Word(pieces, node.span), known)


def plain(node: Node) -> object:
    """The value as `json.loads` gives it; placeholders are strings, what is unknown is None."""
    if node.kind == "object":
        return {found.key: plain(found.node) for found in node.entries}
    if node.kind == "array":
        return [plain(item) for item in node.items]
    return node.value
