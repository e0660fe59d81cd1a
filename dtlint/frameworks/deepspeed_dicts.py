"""Dicts that Python code writes out as configs, also where some of their keys are not known."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtlint.languages.python.constants import evaluate
from dtlint.languages.python.dicts import Passed, unpacked_dict
from dtlint.languages.python.following import ways
from dtlint.languages.python.places import Place
from dtlint.languages.python.tree import Site
from dtlint.record import NamedTuple
from dtlint.source import Span
from dtlint.value import Unknown, Value


class WrittenDict(NamedTuple):
    """The items of a dict by key, and where it is written; `hidden`: it may have others, or some may change later."""

    items: dict[str, tuple[Passed, ...]]
    span: Span
    hidden: bool = False


def written_dict(place: Place) -> WrittenDict | None:
    """The dict that an expression stands for, with what the function sets in it; None if it stands for nothing that
    is one.
    """
    found = ways(place)
    end = found[0].end
    literal = end if len(found) == 1 and not isinstance(end, Unknown) and isinstance(end.node, ast.Dict) else None
    span = place.module.span(place.node) if literal is None else literal.module.span(literal.node)
    if _changes_sections(place):
        return WrittenDict({}, span, hidden=True)
    whole = unpacked_dict(place)
    if whole is not None:
        return WrittenDict(whole, span)
    return _with_hidden_items(place, literal, span) if literal is not None else None


def _with_hidden_items(place: Place, literal: Place, span: Span) -> WrittenDict:
    """What can be told of a dict that has unknown keys or is changed in ways that are not followed."""
    assert isinstance(literal.node, ast.Dict)
    items = dict(_literal_items(literal, literal.node))
    hidden = len(items) < len(literal.node.keys)
    if isinstance(place.node, ast.Name):
        for site in _uses(place, place.node.id):
            hidden = not _apply(place, site, items) or hidden
    return WrittenDict(items, span, hidden)


def _literal_items(place: Place, node: ast.Dict) -> Iterator[tuple[str, tuple[Passed, ...]]]:
    """The items whose keys are known; `**other` has none."""
    for key, item in zip(node.keys, node.values, strict=True):
        name = evaluate(place.inner(key)) if key is not None else None
        if isinstance(name, Value) and isinstance(name.value, str):
            yield name.value, (Passed(place.at(item)),)


def _uses(place: Place, name: str) -> Iterator[Site]:
    """What the function does to a dict of that name before the place: item assignments and method calls."""
    for site in place.scope.sites:
        if getattr(site.node, "lineno", 0) > getattr(place.node, "lineno", 0):
            continue
        sets = isinstance(site.node, ast.Assign) and any(_base(target) == name for target in site.node.targets)
        if sets or _is_method_of(site.node, name):
            yield site


def _is_method_of(node: ast.AST, name: str) -> bool:
    """Whether a node is a call `name.method(...)`."""
    function = node.func if isinstance(node, ast.Call) else None
    owner = function.value if isinstance(function, ast.Attribute) else None
    return isinstance(owner, ast.Name) and owner.id == name


def _apply(place: Place, site: Site, items: dict[str, tuple[Passed, ...]]) -> bool:
    """Carry out `config["key"] = value`; False for anything else that may change the dict."""
    node = site.node
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "items", "keys", "values", "copy")
    if not isinstance(node, ast.Assign) or len(node.targets) != 1 or site.guards != place.guards:
        return False
    key = node.targets[0].slice if isinstance(node.targets[0], ast.Subscript) else None
    if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
        return False
    items[key.value] = (Passed(place.at(node.value)),)
    return True


def _changes_sections(place: Place) -> bool:
    """Whether the function changes a dict inside the dict (`config["zero_optimization"]["stage"] = 3`)."""
    if not isinstance(place.node, ast.Name):
        return False
    nodes = [site.node for site in place.scope.sites]
    targets = (target for node in nodes if isinstance(node, ast.Assign) for target in node.targets)
    return any(_levels(target) > 1 and _base(target) == place.node.id for target in targets)


def _base(target: ast.expr) -> str:
    """The name at the bottom of `name["a"]["b"]`; "" if there is no subscript."""
    levels = _levels(target)
    while isinstance(target, ast.Subscript):
        target = target.value
    return target.id if levels and isinstance(target, ast.Name) else ""


def _levels(target: ast.expr) -> int:
    levels = 0
    while isinstance(target, ast.Subscript):
        target, levels = target.value, levels + 1
    return levels
