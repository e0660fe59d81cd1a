"""Where a new key goes into a YAML text: into the mapping that it belongs to, in the form which that mapping has."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dtlint.languages.json_tree import Entry, Node, entry, member
from dtlint.languages.yaml import read_yaml
from dtlint.source import Edit, Source, Span

_INDENTATION = 2
"""Blanks of a level where no nested mapping of the file tells."""


def yaml_entry(source: Source, path: Sequence[str], text: str) -> Edit | None:
    """The edit that adds a key by its path, with the sections on the way that are not there; a key that stands there
    with nothing gets its value. None where the file has no mapping for it, or the key has a value.
    """
    root = read_yaml(source).root
    if root is None or root.kind != "object" or not root.entries:
        return None
    holder, rest = root, list(path)
    while len(rest) > 1 and (inner := entry(holder, rest[0])) is not None and _is_filled(inner.node):
        holder, rest = inner.node, rest[1:]
    stated = entry(holder, rest[0])
    if stated is not None:
        return _filled(stated, rest[1:], text, _step(root)) if stated.node.kind == "null" else None
    if not all(_is_here(each, source) for each in holder.entries):
        return None
    lines = _nested(rest, text, _step(root))
    return _in_braces(holder, rest, text) if _has_braces(holder) else _below(holder, lines)


def stands(source: Source, path: Sequence[str]) -> bool:
    """Whether a key stands in a YAML text, be it with nothing."""
    return member(read_yaml(source).root, *path) is not None


def _is_filled(node: Node) -> bool:
    return node.kind == "object" and bool(node.entries)


def _is_here(each: Entry, source: Source) -> bool:
    return each.place.source is source


def _has_braces(node: Node) -> bool:
    return node.span.text.startswith("{")


def _nested(path: Sequence[str], text: str, step: int) -> list[str]:
    """The lines of a key below its sections, each with its own indentation."""
    sections = [f"{' ' * step * level}{name}:" for level, name in enumerate(path[:-1])]
    return [*sections, f"{' ' * step * (len(path) - 1)}{path[-1]}: {text}"]


def _below(holder: Node, lines: Sequence[str]) -> Edit | None:
    """Lines behind the last value of a mapping, as far in as its keys."""
    first, last = holder.entries[0].place, max((each.node.span for each in holder.entries), key=lambda span: span.end)
    source = first.source
    indentation = source.line_text(first.line)[: first.column - 1]
    if indentation.strip():
        return None
    newline = "\r\n" if "\r\n" in source.text else "\n"
    line = source.position(max(last.start, last.end - 1))[0]
    end = source.line_start(line) + len(source.line_text(line))
    return Edit(source.span(end, end), "".join(f"{newline}{indentation}{each}" for each in lines))


def _in_braces(holder: Node, path: Sequence[str], text: str) -> Edit | None:
    """An entry behind the last one of a mapping in braces, on a line of its own where these have one."""
    last = holder.entries[-1]
    source, end = last.place.source, last.node.span.end
    quote = '"' if last.place.text.startswith('"') else ""
    value = text
    for name in reversed(path[1:]):
        value = f"{{{quote}{name}{quote}: {value}}}"
    spelled = f"{quote}{path[0]}{quote}: {value}"
    shown = source.line_text(last.place.line)[: last.place.column - 1]
    between = ("\r\n" if "\r\n" in source.text else "\n") + shown if not shown.strip() else " "
    comma = re.compile(r"\s*,").match(source.text, end)
    if comma is not None:
        return Edit(source.span(comma.end(), comma.end()), f"{between}{spelled},")
    return Edit(source.span(end, end), f",{between}{spelled}")


def _filled(stated: Entry, rest: Sequence[str], text: str, step: int) -> Edit | None:
    """The value of a key that stands there with nothing, or with null."""
    if rest:
        return None
    span: Span = stated.node.span
    if span.text:
        return Edit(span, text)
    source, end = stated.place.source, stated.place.end
    colon = re.compile(r"\s*:").match(source.text, end)
    return Edit(source.span(colon.end(), colon.end()), f" {text}") if colon is not None else None


def _step(root: Node) -> int:
    """By how many blanks the file's first nested mapping is set in."""
    for each in root.entries:
        inner = each.node.entries
        if each.node.kind == "object" and inner and not _has_braces(each.node):
            return max(1, inner[0].place.column - each.place.column)
    return _INDENTATION
