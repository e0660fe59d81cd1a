"""Tells whether the class of a dataset may cut what it reads by the number of the rank."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dtlint.frameworks.code.ranks import is_rank, is_rank_word
from dtlint.languages.python.bindings import last_word
from dtlint.languages.python.instances import instances, with_bases
from dtlint.languages.python.places import Budget, Place
from dtlint.languages.python.tree import Scope

_TELLS = re.compile(r"(print|debug|info|warn(ing)?|error|exception|critical|log|write|set_description|set_device|to)_?")
"""Functions that say which rank it is, or move to its device: what it is given there picks no samples."""
_DEVICES = re.compile(r"cuda|npu|xpu|hpu|device")


def is_cut_by_rank(dataset: Place) -> bool:
    """Whether a method of the class that makes a dataset, or of one that it is built on, reckons with the rank:
    `shard = conf["rank"] % shards`, `parts[rank]`, `f"part-{rank}.h5"`.
    """
    scopes = [
        (found.module, scope)
        for owner in instances(dataset)
        for found in with_bases(dataset, owner.definition)
        for scope in found.scope.inner
    ]
    return any(
        _picks(Place(dataset.program, module, scope, node, budget=Budget()))
        for module, scope in scopes
        for node in _reckoned(scope)
    )


def _reckoned(scope: Scope) -> Iterator[ast.expr]:
    """What a method calculates, picks or spells, but for what it says and compares."""
    waiting = list(ast.iter_child_nodes(scope.node))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Compare) or (isinstance(node, ast.Call) and _TELLS.fullmatch(last_word(node.func))):
            continue
        if isinstance(node, ast.BinOp | ast.JoinedStr):
            yield node
        elif isinstance(node, ast.Subscript):
            yield node.slice
        waiting += ast.iter_child_nodes(node)


def _picks(place: Place) -> bool:
    """Whether the rank goes into something that is no device."""
    if _DEVICES.search(place.module.text(place.node, 200)):
        return False
    return any(_is_rank(place.at(node)) for node in ast.walk(place.node))


def _is_rank(place: Place) -> bool:
    """The number of this rank, or what a config holds under its name: `conf["world_rank"]`."""
    node = place.node
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return is_rank_word(str(node.slice.value))
    return isinstance(node, ast.Name | ast.Attribute | ast.Call) and is_rank(place, 0)
