"""Tells what an attribute is in objects of the classes that build on the one whose method reads it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import takewhile

from dtlint.frameworks.code.objects import kinds_set_in
from dtlint.languages.python.bindings import dotted, enclosing_class
from dtlint.languages.python.callers import callers
from dtlint.languages.python.instances import instances, with_bases
from dtlint.languages.python.places import Place
from dtlint.languages.python.program import Definition, Program, definition, subclasses
from dtlint.languages.python.reach import enclosing_function
from dtlint.languages.python.tree import HERE, Scope

_MAX_HEIRS = 8


def kinds_in_heirs(place: Place) -> frozenset[str]:
    """What `self.model` is where a class that inherits the method around it sets the attribute anew: the kinds of each
    such class that the program may use; none where the class's own method is all that sets it.
    """
    owner, function = enclosing_class(place.scope), enclosing_function(place.scope)
    node = place.node
    if owner is None or function is None or not isinstance(node, ast.Attribute):
        return frozenset()
    if {found.definition.scope for found in instances(place.at(node.value))} != {owner}:
        return frozenset()
    found: set[str] = set()
    for heir in _heirs(place.program, owner):
        own = takewhile(lambda each: each.scope is not owner, with_bases(place, heir))
        sets_anew = any(f"self.{node.attr}" in each.scope.bindings for each in own)
        if sets_anew and _runs(place, heir, function) and _is_used(place.program, owner, heir):
            found |= kinds_set_in(place, heir, node)
    return frozenset(found)


def overriding(program: Program, method: Definition) -> list[Definition]:
    """The methods that classes which build on a method's class have in its stead, where the program may use them."""
    owner, last = method.scope.parent, method.scope.name.rpartition(".")[2]
    if owner is None or not isinstance(owner.node, ast.ClassDef):
        return []
    used = (heir for heir in _heirs(program, owner) if _is_used(program, owner, heir))
    own = ((heir, heir.module.definitions.get(f"{heir.scope.name}.{last}")) for heir in used)
    return [Definition(heir.module, scope) for heir, scope in own if scope is not None]


def _heirs(program: Program, owner: Scope) -> list[Definition]:
    """The classes of the program that build on one, directly or by way of others."""
    found: dict[Scope, Definition] = {}
    waiting = [owner]
    while waiting and len(found) < _MAX_HEIRS:
        for scope in subclasses(program, waiting.pop().name.rpartition(".")[2]):
            defined = _defined(program, scope)
            if defined is not None and scope not in found:
                found[scope] = defined
                waiting.append(scope)
    return list(found.values())


def _runs(place: Place, heir: Definition, function: Scope) -> bool:
    """Whether objects of a class run a method of the class that it builds on, where anything in sight calls it."""
    calling = callers(place.program, Definition(place.module, function))
    inherits = _has(place.program, heir, function)
    return inherits and (not calling or any(_is_reached(place.program, heir, site.scope) for _, site in calling))


def _is_reached(program: Program, heir: Definition, scope: Scope) -> bool:
    """Whether a caller is no method, or one that objects of the class have."""
    caller = enclosing_function(scope)
    return caller is None or enclosing_class(scope) is None or _has(program, heir, caller)


def _has(program: Program, heir: Definition, method: Scope) -> bool:
    """Whether a method is what objects of a class have under its name."""
    found = definition(program, heir.module, f"{HERE}.{heir.scope.name}.{method.name.rpartition('.')[2]}")
    return found is not None and found.scope is method


def _is_used(program: Program, owner: Scope, heir: Definition) -> bool:
    """Whether a program may build objects of a class: it names the class, or builds none of the family by its name
    (`getattr(trainers, config.trainer)`).
    """
    if callers(program, heir) or _is_named(program, heir.scope):
        return True
    base = _defined(program, owner)
    return not any(callers(program, each) for each in (*_heirs(program, owner), *([base] if base is not None else [])))


def _defined(program: Program, scope: Scope) -> Definition | None:
    found = (item for item in program.modules.values() if item.definitions.get(scope.name) is scope)
    return next((Definition(module, scope) for module in found), None)


def _is_named(program: Program, wanted: Scope) -> bool:
    """Whether a file holds the name of a class as a value: in a table of classes, as an argument."""
    last = wanted.name.rpartition(".")[2]
    trees = (item.top.node for item in program.modules.values() if last in item.source.text)
    return any(_names(part, last) for tree in trees for node in ast.walk(tree) for part in _values(node))


def _values(node: ast.AST) -> Iterator[ast.AST]:
    """What an assignment, a table, a return or a call other than those of super and isinstance holds as a value."""
    if isinstance(node, ast.Assign | ast.Return | ast.keyword):
        yield from [node.value] if node.value is not None else []
    elif isinstance(node, ast.Dict):
        yield from node.values
    elif isinstance(node, ast.IfExp):
        yield from (node.body, node.orelse)
    elif isinstance(node, ast.Call) and dotted(node.func) not in ("super", "isinstance", "issubclass"):
        yield from node.args


def _names(node: ast.AST, last: str) -> bool:
    return dotted(node).rpartition(".")[2] == last
