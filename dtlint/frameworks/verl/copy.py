"""What a copy of verl's workers in a tree does with a mini-batch that its micro batch does not divide."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from dtlint.frameworks import Claim, Reading
from dtlint.source import Source
from dtlint.value import Unknown

WORKERS = {"fsdp": "verl/workers/fsdp_workers.py", "megatron": "verl/workers/megatron_workers.py"}
"""The file of the worker of each framework, in verl's repository and in copies of it."""
_SIZE = "ppo_micro_batch_size_per_gpu"
_OLD = "ppo_micro_batch_size"
"""The number for all ranks, which is seldom given: releases before 0.2 assert only where it is."""


def read(source: Source) -> Reading:
    """The remainder as unknown where the copy asserts nothing: it may make the last micro-batch smaller."""
    if _asserts(source.text):
        return Reading("program")
    reason = f"{source.path} does not assert that the micro batch divides the mini-batch"
    return Reading("program", claims=(Claim("batch.remainder", Unknown(reason), "assert"),))


@lru_cache(maxsize=16)
def _asserts(text: str) -> bool:
    """Whether a worker asserts it; every run of a tree asks the same few files."""
    return any(_asserted(_parsed(text)))


def _parsed(text: str) -> ast.AST:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return ast.Module([], [])


def _asserted(node: ast.AST) -> Iterator[ast.Assert]:
    """The assertions on the micro batch of a rank that do not hang on the number for all ranks."""
    if isinstance(node, ast.Assert) and _divides(node.test):
        yield node
    for child in ast.iter_child_nodes(node):
        if not (isinstance(node, ast.If) and _OLD in _names(node.test) and child is not node.test):
            yield from _asserted(child)


def _divides(test: ast.expr) -> bool:
    products = (node for node in ast.walk(test) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod))
    return any(_SIZE in _names(node.right) for node in products)


def _names(node: ast.AST) -> set[str]:
    """The attributes and texts in an expression."""
    found = {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}
    return found | {str(part.value) for part in ast.walk(node) if isinstance(part, ast.Constant)}
