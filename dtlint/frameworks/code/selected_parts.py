"""Finds models whose forward pass runs one of several parts, as its input says: the others get no gradient then."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtlint.frameworks import Member
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.program import Program
from dtlint.languages.python.tree import Module, Scope

_HOLDERS = ("ModuleDict", "ModuleList")


def selected_parts(program: Program) -> tuple[Member, ...]:
    """The collection `code.selected_parts`: `self.heads[task](x)` where `task` is handed to the forward pass, and
    `if task == "depth": self.depth_head(x)`.
    """
    return tuple(
        Member(module.span(node), {})
        for module in program.modules.values()
        for scope in module.scopes
        for node in _selections(module, scope)
    )


def _selections(module: Module, scope: Scope) -> Iterator[ast.AST]:
    forward, owner = scope.node, scope.parent.node if scope.parent is not None else None
    if not isinstance(forward, ast.FunctionDef) or forward.name != "forward" or not isinstance(owner, ast.ClassDef):
        return
    held = frozenset(_held(owner))
    inputs = frozenset(item.arg for item in (*forward.args.args[1:], *forward.args.kwonlyargs))
    for node in ast.walk(forward):
        indexed = isinstance(node, ast.Subscript) and dotted(node.value) in held and _root(node.slice) in inputs
        if indexed or (isinstance(node, ast.If | ast.IfExp) and _chooses(node, inputs)):
            yield node


def _held(owner: ast.ClassDef) -> Iterator[str]:
    """The attributes of a class that hold several modules."""
    built = (node for node in ast.walk(owner) if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call))
    for node in built:
        if isinstance(node.value, ast.Call) and dotted(node.value.func).rpartition(".")[2] in _HOLDERS:
            yield from (dotted(target) for target in node.targets)


def _root(node: ast.AST) -> str:
    """The name that an expression starts from: `batch` of `batch["task"]` and `batch.task[0]`."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _chooses(node: ast.If | ast.IfExp, inputs: frozenset[str]) -> bool:
    """Whether a condition compares an input with a word and runs a part of the model on one side of it."""
    test = node.test
    if not isinstance(test, ast.Compare) or _root(test.left) not in inputs:
        return False
    words = [item for part in test.comparators for item in ast.walk(part) if isinstance(item, ast.Constant)]
    bodies = [*node.body, *node.orelse] if isinstance(node, ast.If) else [node.body, node.orelse]
    inside = (item for body in bodies for item in ast.walk(body) if isinstance(item, ast.Call))
    return any(isinstance(item.value, str) for item in words) and any(_is_part(item.func) for item in inside)


def _is_part(function: ast.expr) -> bool:
    return dotted(function).startswith("self.")
