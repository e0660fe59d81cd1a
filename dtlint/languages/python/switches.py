"""Attributes that a program sets to nothing but off: what stands under them does not run."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from dtlint.languages.python.program import Program, all_modules, of_file
from dtlint.languages.python.tree import Guard, Module

_OFF = (False, None)


def is_off(program: Program, guard: Guard) -> bool:
    """Whether a condition asks for an attribute (`callbacks.stop_training`) that statements of the program set, each to
    off, and that nothing names otherwise (`setattr(callbacks, "stop_training", ...)`, `C(stop_training=True)`).
    """
    test = guard.test
    if not guard.holds or not isinstance(test, ast.Attribute):
        return False
    given = [value for module in all_modules(program).values() for value in _given(program, module).get(test.attr, ())]
    return bool(given) and all(isinstance(value, ast.Constant) and value.value in _OFF for value in given)


def _given(program: Program, module: Module) -> Mapping[str, list[ast.expr]]:
    return of_file(program, "what attributes are given", module.top, lambda: _given_in(module.top.node))


def _given_in(tree: ast.AST) -> Mapping[str, list[ast.expr]]:
    """The values of the names of attributes; a place that names one otherwise counts with what stands there."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        for name, value in _pairs(node):
            found.setdefault(name, []).append(value)
    return found


def _pairs(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and node.value is not None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        parts = (part for target in targets for part in ast.walk(target) if isinstance(part, ast.Attribute))
        stored = (part.attr for part in parts if isinstance(part.ctx, ast.Store))
        yield from ((name, node.value) for name in stored)
    elif isinstance(node, ast.keyword) and node.arg is not None:
        yield node.arg, node.value
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
        yield node.value, node
