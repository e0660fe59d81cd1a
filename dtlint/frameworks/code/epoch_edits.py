"""Writes `sampler.set_epoch(epoch)` into the loop over epochs, where it is certain what both are called there."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.calls import Call
from dtlint.languages.python.editing import put_first
from dtlint.languages.python.names import qualified
from dtlint.languages.python.places import Place
from dtlint.languages.python.tree import Binding
from dtlint.source import Edit

_LOADERS = ("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")


def told(call: Call, iterables: Iterable[ast.AST]) -> tuple[Edit, ...]:
    """The edit that tells a sampler the epoch; () unless the function that builds it holds the only loop over one of
    `iterables` (those of the program's epochs), later on and under no other condition than the sampler.
    """
    scope, wanted = call.place.scope, {id(node) for node in iterables}
    loops = [
        (name, binding)
        for name, bindings in scope.bindings.items()
        for binding in bindings
        if binding.kind == "loop" and id(binding.node) in wanted and len(bindings) == 1
    ]
    sampler = next(_names(call.place), None)
    if len(loops) != 1 or sampler is None or len(wanted) != 1:
        return ()
    (epoch, counter), (name, built) = loops[0], sampler
    loop = _loop_of(scope.node, counter.place)
    if loop is None or not _comes_before(built, counter, loop):
        return ()
    edit = put_first(call.place.module, loop, f"{name}.set_epoch({epoch})")
    return (edit,) if edit is not None else ()


def _names(sampler: Place) -> Iterator[tuple[str, Binding]]:
    """What a sampler is called, by a name that is nothing else: its own, or that of the loader that it is built in."""
    for name, bindings in sampler.scope.bindings.items():
        if len(bindings) != 1 or bindings[0].kind != "value" or bindings[0].path or not name.isidentifier():
            continue
        if bindings[0].node is sampler.node:
            yield name, bindings[0]
        elif _is_loader_of(sampler, bindings[0].node):
            yield f"{name}.sampler", bindings[0]


def _is_loader_of(sampler: Place, node: ast.AST | None) -> bool:
    if not isinstance(node, ast.Call) or qualified(sampler.module, node.func, sampler.scope) not in [
        (name,) for name in _LOADERS
    ]:
        return False
    return any(keyword.arg == "sampler" and keyword.value is sampler.node for keyword in node.keywords)


def _loop_of(owner: ast.AST, target: ast.AST) -> ast.For | None:
    """The `for` statement that counts with a name."""
    loops = (node for node in ast.walk(owner) if isinstance(node, ast.For))
    return next((node for node in loops if node.target is target and dotted(target)), None)


def _comes_before(built: Binding, counter: Binding, loop: ast.For) -> bool:
    """Whether what is built certainly is, in this round, where the loop begins."""
    nested = counter.guards[: len(built.guards)] == built.guards and counter.loops[: len(built.loops)] == built.loops
    return nested and getattr(built.place, "lineno", 0) < loop.lineno
