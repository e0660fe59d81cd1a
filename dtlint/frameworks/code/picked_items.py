"""Conditions inside functions that exchange: which pick items out of what is gone through, and which ask for shards."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dtlint.frameworks.code.dependent_names import batch_names, mentions_any
from dtlint.languages.python.bindings import last_word
from dtlint.languages.python.tree import Guard, Scope, Site

_OF_SHARDS = frozenset({"full_tensor", "device_mesh", "placements", "to_local", "_local_tensor"})
"""Attributes that DTensor alone has (torch/distributed/tensor/_api.py)."""
_KINDS = re.compile(
    r"_?is_\w*|isinstance|issubclass|hasattr|getattr|type|callable|\w*(?:shard|dtensor|distributed|parallel|fsdp|mesh|"
    r"placement|expert|local|rank|group|ds_)\w*",
    re.IGNORECASE,
)
"""Words of conditions that ask what an item is, or who has it: no item need be so."""
_TENSORS = frozenset({"Tensor", "Parameter"})
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp)


def asks_for_shard(guard: Guard) -> bool:
    """`isinstance(weight, DTensor)`, `hasattr(weight, "full_tensor")`, behind `if not isinstance(weight, DTensor):
    return`: all ranks answer the same for a weight.
    """
    test, holds = _without_not(guard.test, guard.holds)
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) and holds:
        parts = [Guard(part, True) for part in test.values]
        asks = [asks_for_shard(part) for part in parts]
        return any(asks) and all(ask or _asks_for_tensor(part) for ask, part in zip(asks, parts, strict=True))
    return holds and test is not None and _names_shard(test)


def _without_not(test: ast.expr | None, holds: bool) -> tuple[ast.expr | None, bool]:
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, holds = test.operand, not holds
    return test, holds


def _names_shard(test: ast.expr) -> bool:
    if isinstance(test, ast.Compare):
        of_type = isinstance(test.left, ast.Call) and last_word(test.left.func) == "type"
        same = isinstance(test.ops[0], ast.Is | ast.Eq) and len(test.ops) == 1
        return of_type and same and last_word(test.comparators[0]) == "DTensor"
    if not isinstance(test, ast.Call):
        return last_word(test) == "is_dtensor"
    if len(test.args) == 2 and last_word(test.func) in ("isinstance", "hasattr"):
        kind = test.args[1]
        return kind.value in _OF_SHARDS if isinstance(kind, ast.Constant) else last_word(kind) == "DTensor"
    return last_word(test.func).lstrip("_") == "is_dtensor"


def _asks_for_tensor(guard: Guard) -> bool:
    """`isinstance(value, torch.Tensor)`, `torch.is_tensor(value)`"""
    test, holds = _without_not(guard.test, guard.holds)
    if not holds or not isinstance(test, ast.Call):
        return False
    by_type = last_word(test.func) == "isinstance" and len(test.args) == 2 and last_word(test.args[1]) in _TENSORS
    return by_type or last_word(test.func) == "is_tensor"


def picks_items(site: Site, guard: Guard) -> bool:
    """Whether a condition picks out of what a loop goes through the items that a call is made for: `if not
    state.get(weight): continue`. Some items pass, or the function would do nothing; not where what an item is or who
    has it is asked.
    """
    if guard.test is None or not (_asks_for_tensor(guard) or not _asks_for_kind(guard.test)):
        return False
    picking = frozenset(name for loop in site.loops if _holds(loop, guard.test) for name in _items(loop))
    made_for = picking.union(*map(_items, site.loops))
    return bool(picking) and mentions_any(guard.test, picking) and mentions_any(site.node, made_for)


def _asks_for_kind(test: ast.expr) -> bool:
    words = (part.attr if isinstance(part, ast.Attribute) else getattr(part, "id", "") for part in ast.walk(test))
    return any(_KINDS.fullmatch(word) for word in words)


def _holds(loop: ast.AST, test: ast.expr) -> bool:
    return any(part is test for part in ast.walk(loop))


def _items(loop: ast.AST) -> Iterator[str]:
    """The names of what a loop goes through, and of what is made of it."""
    if isinstance(loop, ast.For):
        yield from batch_names(loop)
    for part in loop.generators if isinstance(loop, (*_COMPREHENSIONS, ast.GeneratorExp)) else ():
        yield from (node.id for node in ast.walk(part.target) if isinstance(node, ast.Name))


def run_sites(scope: Scope) -> Iterator[Site]:
    """What a function runs in its own turn: its sites and those of its comprehensions, and of generators that a call
    takes.
    """
    yield from scope.sites
    taken = {id(each) for site in scope.sites if isinstance(site.node, ast.Call) for each in site.node.args}
    for inner in scope.inner:
        if isinstance(inner.node, _COMPREHENSIONS) or id(inner.node) in taken:
            yield from run_sites(inner)
