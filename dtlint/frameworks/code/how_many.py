"""Counts the entries of lists that a program writes out: `range(13)`, `[f"part-{i}" for i in range(13)]`."""

from __future__ import annotations

import ast
import re

from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.constants import evaluate
from dtlint.languages.python.following import ways
from dtlint.languages.python.places import Place
from dtlint.value import Value

_KEEPING = frozenset({"list", "tuple", "sorted", "reversed"})
"""Functions whose result has as many entries as what they are given."""
_BRACES = re.compile(r"\{(\d{1,9})\.\.(\d{1,9})\}")
_MAX_DEPTH = 6


def how_many(place: Place, depth: int = 0) -> int | None:
    """How many entries a list has; None where the files do not tell for certain."""
    ends = [way.end for way in ways(place)] if depth < _MAX_DEPTH else []
    end = ends[0] if len(ends) == 1 else None
    return _entries(end, depth) if isinstance(end, Place) else None


def _entries(place: Place, depth: int) -> int | None:
    node = place.node
    if isinstance(node, ast.List | ast.Tuple):
        return None if any(isinstance(item, ast.Starred) for item in node.elts) else len(node.elts)
    if isinstance(node, ast.ListComp | ast.GeneratorExp):
        turned = node.generators[0]
        return None if len(node.generators) > 1 or turned.ifs else how_many(place.at(turned.iter), depth + 1)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return _named(node.value)
    if not isinstance(node, ast.Call) or node.keywords:
        return None
    if dotted(node.func) in _KEEPING and len(node.args) == 1:
        return how_many(place.at(node.args[0]), depth + 1)
    return _in_range(place, node.args) if dotted(node.func) == "range" else None


def _named(text: str) -> int | None:
    """The files that `train-{000..146}.tar` names."""
    found = _BRACES.findall(text)
    return int(found[0][1]) - int(found[0][0]) + 1 if len(found) == 1 and text.count("{") == 1 else None


def _in_range(place: Place, ends: list[ast.expr]) -> int | None:
    found = [evaluate(place.at(item)) for item in ends]
    numbers = [each.value for each in found if isinstance(each, Value) and each.origin.kind == "written"]
    whole = [each for each in numbers if isinstance(each, int)]
    if len(whole) < len(ends) or not 1 <= len(whole) <= 3 or (len(whole) == 3 and not whole[2]):
        return None
    return len(range(*whole))
