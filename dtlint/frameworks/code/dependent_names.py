"""Which names rest on others within some statements: by what is assigned, added, looped over and asked."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from dtlint.languages.python.bindings import dotted, last_word

_GROWS = ("append", "extend", "add", "insert", "update")
_MAX_ROUNDS = 6
_INDEXED = "enumerate"


def resting_on(statements: Iterable[ast.stmt], names: Iterable[str]) -> frozenset[str]:
    """The names whose values rest on one of these, themselves included: also what is set under a condition on one, or
    in a loop over one.
    """
    body, found = list(statements), set(names)
    for _ in range(_MAX_ROUNDS):
        before = len(found)
        for node in body:
            _spread(node, found, False)
        if len(found) == before:
            break
    return frozenset(found)


def mentions_any(node: ast.AST, names: Iterable[str]) -> bool:
    """Whether one of the names stands in an expression."""
    wanted = frozenset(names)
    return any(isinstance(part, ast.Name) and part.id in wanted for part in ast.walk(node))


def batch_names(loop: ast.For | ast.While) -> frozenset[str]:
    """The names of what a loop takes from its loader in each turn, and those that rest on it: not the number of the
    turn, which all ranks have alike.
    """
    taken = set(_targets(loop)) if isinstance(loop, ast.For) else set()
    for node in ast.walk(loop):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and last_word(node.value.func) == "next":
            taken |= {name for target in node.targets for name in _stored(target)}
    return resting_on(loop.body, taken) if taken else frozenset()


def _targets(loop: ast.For) -> Iterator[str]:
    called = last_word(loop.iter.func) if isinstance(loop.iter, ast.Call) else ""
    if called == "range":
        return
    counted = called == _INDEXED or _is_counted(loop.iter)
    parts = loop.target.elts if isinstance(loop.target, ast.Tuple) else []
    yield from _stored(parts[1] if counted and len(parts) > 1 else loop.target)


def _is_counted(node: ast.AST) -> bool:
    """`tqdm(enumerate(loader))`"""
    inner = node.args if isinstance(node, ast.Call) else []
    return any(isinstance(item, ast.Call) and last_word(item.func) == _INDEXED for item in inner)


def _spread(node: ast.AST, found: set[str], under: bool) -> None:
    """Adds what a statement sets from the names; all that it sets where it stands `under` a condition on one."""
    if isinstance(node, ast.For | ast.While | ast.If):
        asked = node.iter if isinstance(node, ast.For) else node.test
        inside = under or mentions_any(asked, found)
        if isinstance(node, ast.For) and inside:
            found |= set(_stored(node.target))
        for inner in (*node.body, *node.orelse):
            _spread(inner, found, inside)
    elif isinstance(node, ast.With | ast.AsyncWith | ast.Try):
        for part in ast.iter_child_nodes(node):
            _spread(part, found, under)
    elif isinstance(node, ast.ExceptHandler):
        for inner in node.body:
            _spread(inner, found, under)
    else:
        _set(node, found, under)


def _set(node: ast.AST, found: set[str], under: bool) -> None:
    if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and node.value is not None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if under or mentions_any(node.value, found):
            found |= {name for target in targets for name in _stored(target)}
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        call = node.value
        grows = isinstance(call.func, ast.Attribute) and call.func.attr in _GROWS
        if grows and isinstance(call.func, ast.Attribute) and (under or any(mentions_any(a, found) for a in call.args)):
            found |= {dotted(call.func.value)} - {""}


def _stored(target: ast.expr) -> Iterator[str]:
    if isinstance(target, ast.Tuple | ast.List):
        for item in target.elts:
            yield from _stored(item)
    elif isinstance(target, ast.Starred):
        yield from _stored(target.value)
    elif isinstance(target, ast.Name):
        yield target.id
