"""Dicts that Python code writes out as configs, also where some of their keys are not known."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtlint.languages.python.calls import called
from dtlint.languages.python.constants import evaluate
from dtlint.languages.python.dicts import Passed, unpacked_dict
from dtlint.languages.python.following import ways
from dtlint.languages.python.names import lookup
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


def loaded_file(found: tuple[Passed, ...]) -> tuple[str, Span] | None:
    """The name of the JSON file from which a program loads what it passes (`json.load(open("ds.json"))`, also in a
    `with`), and where it is written; None for anything else, or where the program changes what it has loaded.
    """
    ends = [way.end for item in found for way in ways(item.place)]
    end = ends[0] if len(ends) == 1 and len(found) == 1 else None
    if not isinstance(end, Place) or called(end) != "json.load" or not isinstance(end.node, ast.Call):
        return None
    if not end.node.args or _is_used_otherwise(found[0].place):
        return None
    opened = _opened(end.at(end.node.args[0]))
    if opened is None or not isinstance(opened.node, ast.Call):
        return None
    path = evaluate(opened.at(opened.node.args[0]))
    if not isinstance(path, Value) or not isinstance(path.value, str):
        return None
    return path.value, path.origin.span or opened.module.span(opened.node)


def _opened(place: Place) -> Place | None:
    """The call of open() that a file comes from: the expression itself, or what a `with` binds."""
    if isinstance(place.node, ast.Name):
        holder, bindings = lookup(place.scope, place.node.id)
        nodes = [binding.node for binding in bindings]
        if holder is None or len(nodes) != 1 or nodes[0] is None:
            return None
        place = place._replace(scope=holder, node=nodes[0])
    return place if isinstance(place.node, ast.Call) and called(place) == "open" and place.node.args else None


def _is_used_otherwise(place: Place) -> bool:
    """Whether the program touches a config that it has loaded before it passes it on."""
    if not isinstance(place.node, ast.Name):
        return False
    name = place.node.id
    uses = [node for node in ast.walk(place.scope.node) if isinstance(node, ast.Name) and node.id == name]
    return sum(isinstance(node.ctx, ast.Load) for node in uses) > 1
