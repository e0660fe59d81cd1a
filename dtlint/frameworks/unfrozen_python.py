"""Arguments that speak of a part of the model (`--tune_vision True`) in programs that show how they freeze nothing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dtlint.frameworks import Member, Reading
from dtlint.frameworks.transformers.adapters import speaks_of_part
from dtlint.languages.python.bindings import last_word
from dtlint.languages.python.constants import evaluate
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Program, sites
from dtlint.languages.python.reach import stands
from dtlint.languages.python.tree import Module, Site
from dtlint.value import Value, written

LAYER = "unfrozen-python"
_COLLECTION = "program.unfrozen"

_ATTRIBUTE, _METHOD = "requires_grad", "requires_grad_"
_FREEZING = re.compile(r"(?<!un)(?<!un_)fr(?:ee|o)ze", re.IGNORECASE)
"""What the names of functions hold that freeze what they are given."""
_SHOWING = frozenset(("print", "info", "warning", "debug", "log", "write"))


def read(program: Program) -> Reading:
    """The collection `program.unfrozen`: one member with the `flags` that the program reads only where it asks whether
    to freeze something, as far as these words make it freeze nothing anywhere.
    """
    names = [name for name in program.arguments if speaks_of_part(name.replace("_", "-"))]
    if not names or any(_may_freeze(program)):
        return Reading(LAYER)
    shown = tuple(f"--{name}" for name in names if _is_in_sight(program, name))
    if not shown:
        return Reading(LAYER)
    span = program.main.source.span(0, 0)
    return Reading(LAYER, collections={_COLLECTION: (Member(span, {"flags": written(shown, span)}),)})


def _may_freeze(program: Program) -> Iterator[Place]:
    """Where something is frozen, or may be."""
    for module in program.modules.values():
        for site in sites(module) if _FREEZING.search(module.source.text) or _ATTRIBUTE in module.source.text else ():
            place = place_of(program, module, site)
            if _freezes(place, site) and stands(place) is not False:
                yield place


def _freezes(place: Place, site: Site) -> bool:
    """Whether a statement or call switches gradients off, as far as is known."""
    node = site.node
    if isinstance(node, ast.Assign):
        told = any(isinstance(target, ast.Attribute) and target.attr == _ATTRIBUTE for target in node.targets)
        return told and not _is_on(place.at(node.value))
    if not isinstance(node, ast.Call):
        return False
    if last_word(node.func) != _METHOD:
        return _FREEZING.search(last_word(node.func)) is not None
    given = [*node.args, *(keyword.value for keyword in node.keywords)]
    return bool(given) and not _is_on(place.at(given[0]))


def _is_on(place: Place) -> bool:
    value = evaluate(place)
    return isinstance(value, Value) and value.value is True


def _is_in_sight(program: Program, name: str) -> bool:
    """Whether the program reads an argument, and only in conditions, as what requires_grad is set to, or to show it."""
    read = [use for module in program.modules.values() if name in module.source.text for use in _uses(module, name)]
    return bool(read) and all(read)


def _uses(module: Module, name: str) -> Iterator[bool]:
    """Whether each reading of an attribute of this name is such a one."""
    parents = {id(child): node for node in ast.walk(module.top.node) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(module.top.node):
        if isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.ctx, ast.Load):
            yield _decides_freezing(node, parents)


def _decides_freezing(node: ast.AST, parents: dict[int, ast.AST]) -> bool:
    parent = parents.get(id(node))
    if isinstance(parent, ast.BoolOp | ast.UnaryOp | ast.Compare | ast.FormattedValue | ast.JoinedStr):
        return _decides_freezing(parent, parents)
    if isinstance(parent, ast.If | ast.IfExp):
        return parent.test is node
    if isinstance(parent, ast.Assign):
        return any(isinstance(target, ast.Attribute) and target.attr == _ATTRIBUTE for target in parent.targets)
    return isinstance(parent, ast.Call) and last_word(parent.func) in (_METHOD, *_SHOWING)
