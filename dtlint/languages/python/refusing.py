"""Whether code certainly stops by how two numbers of its arguments compare: an assert, a condition that raises, a call
that is handed the comparison (`ensure_valid(args.one <= args.other)`).
"""

from __future__ import annotations

import ast

from dtlint.languages.python.bindings import last_word
from dtlint.languages.python.tree import Module

_ENDS = frozenset(("exit", "_exit", "abort"))
_HOLDERS = frozenset(("args", "self", "config", "cfg"))


def stops_by_comparing(module: Module, one: str, other: str) -> bool:
    """Whether a module stops by how two attributes compare, under no condition on anything else (`if args.one is not
    None: assert args.one <= args.other`).
    """
    return _stops_in(module.top.node, frozenset((one, other)), certain=True)


def _stops_in(node: ast.AST, names: frozenset[str], *, certain: bool) -> bool:
    if isinstance(node, ast.Assert):
        return certain and _compares(node.test, names)
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and node.value.args:
        return certain and _compares(node.value.args[0], names)
    if isinstance(node, ast.If):
        if certain and _compares(node.test, names) and any(map(_stops, _within(node))):
            return True
        certain = certain and _asks_of(node.test, names)
    return any(_stops_in(each, names, certain=certain) for each in ast.iter_child_nodes(node))


def _within(condition: ast.If) -> list[ast.AST]:
    return [part for statement in condition.body for part in ast.walk(statement)]


def _stops(node: ast.AST) -> bool:
    return isinstance(node, ast.Raise) or (isinstance(node, ast.Call) and last_word(node.func) in _ENDS)


def _compares(test: ast.AST, names: frozenset[str]) -> bool:
    """Whether a condition holds the two against each other."""
    found = (node for node in ast.walk(test) if isinstance(node, ast.Compare) and len(node.ops) == 1)
    return any({last_word(each.left), last_word(each.comparators[0])} == names for each in found)


def _asks_of(test: ast.AST, names: frozenset[str]) -> bool:
    """Whether a condition asks for nothing but the two."""
    words = {last_word(node) for node in ast.walk(test) if isinstance(node, ast.Name | ast.Attribute)}
    return words <= names | _HOLDERS
