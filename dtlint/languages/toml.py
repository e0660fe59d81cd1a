"""TOML as its standard reader takes it: the tree that JSON is read into, with a place for every key and value.

tomllib decides what is valid and what each value is; it tells no places, which a scan of the same text finds.
"""

from __future__ import annotations

import re
import sys

from dtlint.blanks import is_placeholder
from dtlint.deep_keys import MAX_DEPTH, deep_key
from dtlint.languages.json_tree import Document, Entry, Kind, Node
from dtlint.languages.placeholders import HOLE
from dtlint.languages.traced import UNKNOWN_CHARACTER
from dtlint.source import Problem, Source, Span
from dtlint.value import Plain

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MAX_LENGTH = 1_000_000
"""Characters of a file beyond which it is not read; no config is as long."""

LARGEST = 10**40
"""Whole numbers from here on are as good as infinite; with floats no arithmetic can overflow."""

_UNKNOWN_AS_VALID = "0"
"""What stands for an unknown character while the text is checked: a number by itself, and part of any word."""
_TEMPLATE = re.compile(r"\{\{|\{%")
_TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels"
_PLACE = re.compile(r"\(at line (\d+), column (\d+)\)$")
_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_TEXT = re.compile(
    r'"""(?:[^\\]|\\[\s\S])*?"""(?:"{1,2}(?!"))?'
    r"|'''[\s\S]*?'''(?:'{1,2}(?!'))?"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'"
)
_BARE_KEY = re.compile(r"[^\s.=\]\"']+")
_PLAIN = re.compile(r"[^,\]}#\r\n]+")


def read_toml(source: Source) -> Document:
    """The file as one object; without a root where it is no TOML.

    The loader of its problem is "template" where the file holds `{{` or `{%`, which another program fills in.
    """
    if len(source.text) > MAX_LENGTH:
        return Document(source, None, (Problem(source.span(0, 1), f"longer than {MAX_LENGTH:,} characters"),))
    if (deep := deep_key(source.text)) is not None:
        return Document(source, None, (Problem(source.span(deep, deep + 1), _TOO_DEEP),))
    try:
        tomllib.loads(_checked(source.text))
    except (ValueError, RecursionError) as error:
        return Document(source, None, (_defect(source, str(error)),))
    scan = _Scan(source)
    scan.tables()
    if scan.too_deep is not None:
        return Document(source, None, (Problem(scan.too_deep, _TOO_DEEP),))
    whole = source.span(0, len(source.text.rstrip()))
    return Document(source, _object(scan.root, whole))


def _checked(text: str) -> str:
    return text.replace(UNKNOWN_CHARACTER, _UNKNOWN_AS_VALID).replace("\r\n", "\n")


def _defect(source: Source, reason: str) -> Problem:
    found = _PLACE.search(reason)
    at = source.line_start(int(found[1])) + int(found[2]) - 1 if found else len(source.text)
    message = "no TOML: " + (reason[: found.start()] if found else reason).strip()
    place = source.span(min(at, len(source.text)), min(at + 1, len(source.text)))
    loader = "template" if _TEMPLATE.search(source.text) else ""
    return Problem(place, message, not loader, loader)


class _Table:
    """A table while it grows: its headers may stand apart, and each of an array's elements is one. `pairs` are its
    values and inner tables, with the place of the key that first named them.
    """

    __slots__ = ("end", "items", "pairs", "start")

    def __init__(self, start: int) -> None:
        self.start = start
        self.end = start
        self.pairs: dict[str, tuple[Span, Node | _Table]] = {}
        self.items: list[_Table] | None = None

    def inner(self, key: str, place: Span) -> _Table:
        """The table of a key, the last one of an array of tables."""
        _, found = self.pairs.setdefault(key, (place, _Table(place.start)))
        assert isinstance(found, _Table)
        return found.items[-1] if found.items else found


class _Scan:
    """Finds where the keys and values of valid TOML stand."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.text = source.text
        self.root = _Table(0)
        self.too_deep: Span | None = None

    def tables(self) -> None:
        """The whole text: headers and the pairs below them."""
        table, at = self.root, self._blank(0)
        while at < len(self.text) and self.too_deep is None:
            if self.text[at] == "[":
                table, at = self._header(at)
            else:
                at = self._pair(table, at, 0)
            at = self._blank(at)

    def _header(self, at: int) -> tuple[_Table, int]:
        of_array = self.text.startswith("[[", at)
        keys, at = self._keys(at + 1 + of_array)
        table = self.root
        for key, place in keys[:-1]:
            table = table.inner(key, place)
        key, place = keys[-1]
        if of_array:
            _, array = table.pairs.setdefault(key, (place, _Table(place.start)))
            assert isinstance(array, _Table)
            array.items = array.items if array.items is not None else []
            array.items.append(_Table(place.start))
        return table.inner(key, place), at + 1 + of_array

    def _pair(self, table: _Table, at: int, depth: int) -> int:
        """One `key = value`; where it ends."""
        keys, at = self._keys(at)
        node, at = self._value(self._space(at + 1), depth + len(keys) - 1)
        for key, place in keys[:-1]:
            table.end = max(table.end, at)
            table = table.inner(key, place)
        table.pairs[keys[-1][0]] = keys[-1][1], node
        table.end = max(table.end, at)
        return at

    def _keys(self, at: int) -> tuple[list[tuple[str, Span]], int]:
        """The parts of a dotted key, and where the sign behind it stands."""
        keys: list[tuple[str, Span]] = []
        while True:
            start = self._space(at)
            found = _TEXT.match(self.text, start) or _BARE_KEY.match(self.text, start)
            assert found is not None
            text = found.group()
            keys.append((str(_parsed(text)) if text[0] in "\"'" else text, self.source.span(start, found.end())))
            at = self._space(found.end())
            if len(keys) > MAX_DEPTH:
                self.too_deep = keys[-1][1]
            if self.text[at : at + 1] != ".":
                return keys, at
            at += 1

    def _value(self, at: int, depth: int) -> tuple[Node, int]:
        if depth > MAX_DEPTH:
            self.too_deep = self.source.span(at, at + 1)
            return Node("unknown", None, self.too_deep), len(self.text)
        if self.text[at] == "[":
            return self._array(at, depth)
        if self.text[at] == "{":
            return self._inline(at, depth)
        found = _TEXT.match(self.text, at) or _PLAIN.match(self.text, at)
        assert found is not None
        text = found.group().rstrip()
        span = self.source.span(at, at + len(text))
        return Node(*_scalar(text), span), span.end

    def _array(self, start: int, depth: int) -> tuple[Node, int]:
        items: list[Node] = []
        at = self._blank(start + 1)
        while at < len(self.text) and self.text[at] != "]":
            item, at = self._value(at, depth + 1)
            items.append(item)
            at = self._blank(at)
            at = self._blank(at + 1) if self.text[at : at + 1] == "," else at
        return Node("array", None, self.source.span(start, min(at + 1, len(self.text))), (), tuple(items)), at + 1

    def _inline(self, start: int, depth: int) -> tuple[Node, int]:
        table, at = _Table(start), self._blank(start + 1)
        while at < len(self.text) and self.text[at] != "}":
            at = self._blank(self._pair(table, at, depth + 1))
            at = self._blank(at + 1) if self.text[at : at + 1] == "," else at
        return _object(table, self.source.span(start, min(at + 1, len(self.text)))), at + 1

    def _blank(self, at: int) -> int:
        found = _BLANK.match(self.text, at)
        return found.end() if found else at

    def _space(self, at: int) -> int:
        found = _SPACE.match(self.text, at)
        return found.end() if found else at


def _object(table: _Table, span: Span) -> Node:
    entries = tuple(Entry(key, place, _node(found, span.source)) for key, (place, found) in table.pairs.items())
    hidden = next((each.place for each in entries if UNKNOWN_CHARACTER in each.key), None)
    return Node("object", None, span, entries, (), hidden)


def _node(found: Node | _Table, source: Source) -> Node:
    if isinstance(found, Node):
        return found
    if found.items is None:
        return _object(found, source.span(found.start, max(found.start, found.end)))
    items = tuple(_node(item, source) for item in found.items)
    return Node("array", None, source.span(found.start, items[-1].span.end), (), items)


def _scalar(text: str) -> tuple[Kind, Plain]:
    if UNKNOWN_CHARACTER in text:
        return "unknown", None
    value = _parsed(text)
    if isinstance(value, bool):
        return "bool", value
    if isinstance(value, int) and abs(value) >= LARGEST:
        return "number", float("inf" if value > 0 else "-inf")
    if isinstance(value, int | float):
        return "number", value
    shown = value if isinstance(value, str) else text
    return ("bare", shown) if is_placeholder(shown) or re.search(HOLE, shown) else ("string", shown)


def _parsed(text: str) -> object:
    """What one value is, read by itself."""
    return tomllib.loads(f"value = {_checked(text)}")["value"]
