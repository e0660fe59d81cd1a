"""Tells whether an expression is computed from the number of ranks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dtlint.frameworks.pytorch.step_area import values_of
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.places import Place
from dtlint.languages.python.tree import Scope

_RANKS = re.compile(
    r"world|n_?procs?\b|num_?procs?|n_?ranks?\b|n_?gpus?|gpu_count|device_count|dp_size|dp_degree|replica|process_count"
    r"|num_(processes|workers|ranks|nodes|devices|clients?|gpus?|shards)|get_num_client",
    re.IGNORECASE,
)
"""Spellings of the number of ranks in public training code."""
_STEPS = re.compile(r"accum|micro|\bgas\b|num_?steps|grad_steps|iters?_to|n_?batch(es)?\b", re.IGNORECASE)
"""Spellings of the number of accumulated batches, which says nothing about ranks."""


_PLACES = frozenset({"to", "cuda", "device"})
"""Calls whose arguments are a device: `x.to(rank % torch.cuda.device_count())` counts nothing."""


def names_ranks(place: Place) -> bool:
    """Whether an expression, its names followed, holds the number of ranks."""
    waiting: list[tuple[Scope, ast.AST]] = [(place.scope, place.node)]
    seen: set[tuple[int, str]] = set()
    while waiting and place.budget.spend():
        scope, expression = waiting.pop()
        for node in _counted(expression):
            if _is_spelled(node):
                return True
            if not isinstance(node, ast.Name | ast.Attribute):
                continue
            key = (id(scope), dotted(node))
            if key not in seen:
                seen.add(key)
                waiting.extend(values_of(place._replace(scope=scope), node))
    return False


def _counted(expression: ast.AST) -> Iterator[ast.AST]:
    """The parts of an expression, without those that say on which device a tensor is put."""
    waiting = [expression]
    while waiting:
        node = waiting.pop()
        yield node
        function = node.func if isinstance(node, ast.Call) else None
        if isinstance(function, ast.Attribute) and function.attr in _PLACES:
            waiting.append(function.value)
        elif not isinstance(function, ast.Name) or function.id not in _PLACES:
            waiting += ast.iter_child_nodes(node)


def _is_spelled(node: ast.AST) -> bool:
    """A name, or the word of an environment variable, that is used for the number of ranks."""
    word = _word(node)
    return bool(_RANKS.search(word)) and not _STEPS.search(word) and "batch" not in word.lower()


def _word(node: ast.AST) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def counts_steps(place: Place) -> bool:
    """Whether an expression is, by its spelling, the number of batches that are accumulated."""
    return bool(_STEPS.search(place.module.text(place.node)))
