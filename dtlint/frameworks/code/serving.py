"""Loops in which ranks wait for what another rank sends them, as those of a server do behind its first rank."""

from __future__ import annotations

import ast

from dtlint.languages.python.tree import Guard


def endless(loop: ast.AST) -> bool:
    """Whether a loop has no end of its own: `while True`, `while running`, `while not self.stopped`."""
    if not isinstance(loop, ast.While):
        return False
    test = loop.test.operand if isinstance(loop.test, ast.UnaryOp) and isinstance(loop.test.op, ast.Not) else loop.test
    return isinstance(test, ast.Name | ast.Attribute) or (isinstance(test, ast.Constant) and bool(test.value))


def in_branch(loop: ast.AST, guard: Guard) -> bool:
    """Whether a loop around a guarded call stands behind the condition, not around it."""
    return guard.test is not None and getattr(loop, "lineno", 0) > guard.test.lineno
