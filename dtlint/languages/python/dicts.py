"""Dicts and lists that a program writes out, and what statements do to them afterwards."""

from __future__ import annotations

import ast

from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.entered import calls_of
from dtlint.languages.python.following import ways
from dtlint.languages.python.names import lookup
from dtlint.languages.python.places import Place
from dtlint.languages.python.tree import Guard
from dtlint.record import NamedTuple
from dtlint.value import Unknown

CHANGES = frozenset((
    "add", "update", "pop", "clear", "setdefault", "popitem", "append", "extend", "insert", "remove", "sort", "reverse",
))  # fmt: skip


class Passed(NamedTuple):
    """One argument of a call, and the conditions under which it is passed (those around the call left off)."""

    place: Place
    guards: tuple[Guard, ...] = ()


def unpacked_dict(place: Place) -> dict[str, tuple[Passed, ...]] | None:
    """The items of a dict that is written out, with `d["k"] = v` and `d.update(k=v)` applied; None if it is open."""
    rest = _rest_of_call(place)
    if rest is not None:
        return rest if not is_changed(place) else None
    items: dict[str, tuple[Passed, ...]] = {}
    for way in ways(place):
        found = None if isinstance(way.end, Unknown) or changed_on_the_way(place, way.end) else _literal(way.end)
        if found is None:
            return None
        guards = tuple(condition.guard for condition in way.conditions if condition.place.module is place.module)
        for key, passed in found.items():
            under = tuple(item._replace(guards=(*guards, *item.guards)) for item in passed)
            items[key] = (*items.get(key, ()), *under)
    if isinstance(place.node, ast.Name) and not _mutations(place, place.node.id, items):
        return None
    return items


def passed_on(place: Place) -> dict[str, tuple[Passed, ...]] | None:
    """What `**options` hands to a call: the items of a dict that is written out, or of a config file's mapping."""
    from dtlint.languages.python.constants import evaluate
    from dtlint.languages.python.documents import document_items

    held = unpacked_dict(place)
    loaded = document_items(place, evaluate) if held is None and not is_changed(place) else None
    return held if loaded is None else {key: (Passed(item),) for key, item in loaded.items()}


def _rest_of_call(place: Place) -> dict[str, tuple[Passed, ...]] | None:
    """What the one call of a function leaves for its `**options`; None for what is no such parameter."""
    holder, bindings = lookup(place.scope, place.node.id) if isinstance(place.node, ast.Name) else (None, [])
    arguments = holder.node.args if holder is not None and isinstance(holder.node, ast.FunctionDef) else None
    if holder is None or arguments is None or arguments.kwarg is None or len(bindings) != 1:
        return None
    if bindings[0].place is not arguments.kwarg or not place.budget.spend():
        return None
    calls = list(calls_of(place, holder))
    node = calls[0].node if len(calls) == 1 else None
    if not isinstance(node, ast.Call) or any(keyword.arg is None for keyword in node.keywords):
        return None
    named = {item.arg for item in (*arguments.args, *arguments.kwonlyargs)}
    rest = [keyword for keyword in node.keywords if keyword.arg not in named]
    return {keyword.arg: (Passed(calls[0].at(keyword.value)),) for keyword in rest if keyword.arg}


def _literal(place: Place) -> dict[str, tuple[Passed, ...]] | None:
    node = place.node
    if isinstance(node, ast.Call) and dotted(node.func) == "dict" and not node.args:
        if any(keyword.arg is None for keyword in node.keywords):
            return None
        return {keyword.arg: (Passed(place.at(keyword.value)),) for keyword in node.keywords if keyword.arg}
    if not isinstance(node, ast.Dict):
        return None
    items: dict[str, tuple[Passed, ...]] = {}
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None:
            inner = unpacked_dict(place._replace(node=value, depth=place.depth + 1)) if place.budget.spend() else None
            if inner is None:
                return None
            items.update(inner)
        elif isinstance(key, ast.Constant) and isinstance(key.value, str):
            items[key.value] = (Passed(place.at(value)),)
        else:
            return None
    return items


def _mutations(place: Place, name: str, items: dict[str, tuple[Passed, ...]]) -> bool:
    """Apply what the function does to a dict before the place; False if something unreadable is done to it."""
    for site in place.scope.sites:
        node = site.node
        if getattr(node, "lineno", 0) > getattr(place.node, "lineno", 0):
            continue
        here = place._replace(guards=site.guards)
        guards = tuple(guard for guard in site.guards if guard not in place.guards)
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if (
                    isinstance(target, ast.Subscript)
                    and dotted(target.value) == name
                    and not _set_item(here, target, node.value, guards, items)
                ):
                    return False
        elif isinstance(node, ast.Call) and dotted(node.func) == f"{name}.update":
            if not _update(here, node, guards, items):
                return False
        elif isinstance(node, ast.Call) and dotted(node.func) in (f"{name}.pop", f"{name}.clear", f"{name}.setdefault"):
            return False
    return True


def _set_item(
    place: Place,
    target: ast.Subscript,
    value: ast.expr,
    guards: tuple[Guard, ...],
    items: dict[str, tuple[Passed, ...]],
) -> bool:
    if not isinstance(target.slice, ast.Constant) or not isinstance(target.slice.value, str):
        return False
    _put(items, target.slice.value, Passed(place.at(value), guards))
    return True


def _put(items: dict[str, tuple[Passed, ...]], key: str, passed: Passed) -> None:
    items[key] = (*items.get(key, ()), passed) if passed.guards else (passed,)


def _update(place: Place, node: ast.Call, guards: tuple[Guard, ...], items: dict[str, tuple[Passed, ...]]) -> bool:
    for keyword in node.keywords:
        if keyword.arg is None:
            return False
        _put(items, keyword.arg, Passed(place.at(keyword.value), guards))
    for argument in node.args:
        literal = _literal(place.at(argument))
        if literal is None:
            return False
        for key, passed in literal.items():
            for item in passed:
                _put(items, key, item._replace(guards=(*item.guards, *guards)))
    return True


def changed_on_the_way(place: Place, end: Place) -> bool:
    """Whether a dict or list is changed under another name than that at `place`, where it is made or handed on."""
    own = dotted(place.node)
    return _is_changed(end, {step.label for step in end.chain[len(place.chain) :]} - {own})


def _is_changed(end: Place, names: set[str]) -> bool:
    return bool(names) and any(_changes(site.node, names) for site in end.scope.sites)


def _changes(node: ast.AST, names: set[str]) -> bool:
    if isinstance(node, ast.Assign):
        return any(isinstance(item, ast.Subscript) and dotted(item.value) in names for item in node.targets)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    return node.func.attr in CHANGES and dotted(node.func.value) in names


def is_changed(place: Place) -> bool:
    """Whether statements around a place change the dict that stands there."""
    name = dotted(place.node)
    return bool(name) and any(_changes(site.node, {name}) for site in place.scope.sites)
