"""Qualified names: what a name or a dotted chain in a file stands for, by its imports and definitions."""

from __future__ import annotations

import ast
import builtins

from dtlint.languages.python.tree import HERE, Binding, Module, Scope

_DEPTH = 8
_BUILTINS = frozenset(dir(builtins))


def qualified(module: Module, node: ast.AST, scope: Scope) -> tuple[str, ...]:
    """The qualified names that an expression can mean; several after `try: import a as x / except: import b as x`,
    () if not known.

    Names that the file defines start with HERE; builtins stand for themselves.
    """
    return tuple(dict.fromkeys(_qualified(module, node, scope, 0)))


def _qualified(module: Module, node: ast.AST, scope: Scope, depth: int) -> list[str]:
    attributes: list[str] = []
    while isinstance(node, ast.Attribute):
        attributes.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or depth > _DEPTH:
        return []
    tail = "".join(f".{attribute}" for attribute in reversed(attributes))
    return [name + tail for name in _named(module, node.id, scope, depth)]


def _named(module: Module, name: str, scope: Scope, depth: int) -> list[str]:
    holder, bindings = lookup(scope, name)
    if holder is None:
        return [
            *([name] if name in _BUILTINS else []),
            *(f"{star}.{name}" for star in module.stars if name not in _BUILTINS),
        ]
    class_scope = _class_of_receiver(holder, name)
    if class_scope is not None:
        return [f"{HERE}.{class_scope.name}"]
    found: list[str] = []
    for binding in bindings:
        found.extend(_bound(module, binding, holder, depth))
    return found


def _bound(module: Module, binding: Binding, holder: Scope, depth: int) -> list[str]:
    if binding.kind in ("import", "definition"):
        return [binding.target]
    if binding.kind == "value" and binding.node is not None and not binding.path:
        return _qualified(module, binding.node, holder, depth + 1)
    return []


def _class_of_receiver(scope: Scope, name: str) -> Scope | None:
    """The class, if `name` is the first parameter of a method (`self`)."""
    node, parent = scope.node, scope.parent
    if (
        parent is None
        or not isinstance(parent.node, ast.ClassDef)
        or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ):
        return None
    plain = [*node.args.posonlyargs, *node.args.args]
    return parent if plain and plain[0].arg == name else None


def attribute_bindings(module: Module, scope: Scope, name: str) -> list[tuple[Scope, Binding]]:
    """What the methods of a class bind an attribute to (`self.model`), each with the method; [] for other names."""
    first, _, attribute = name.partition(".")
    holder, _ = lookup(scope, first)
    owner = _class_of_receiver(holder, first) if holder is not None and attribute else None
    if owner is None:
        return []
    return [(item.method or owner, item) for item in owner.bindings.get(f"self.{attribute}", [])]


def lookup(scope: Scope | None, name: str) -> tuple[Scope | None, list[Binding]]:
    """The nearest scope that binds `name`, and its bindings; a class is seen only from itself, as in Python."""
    start = scope
    while scope is not None:
        if name in scope.bindings and (scope is start or not isinstance(scope.node, ast.ClassDef)):
            return scope, scope.bindings[name]
        scope = scope.parent
    return None, []
