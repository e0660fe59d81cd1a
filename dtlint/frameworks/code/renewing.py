"""Tells whether each epoch has an order of its own although no sampler is told of it: data or a seed of its own."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable
from functools import partial

from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.callers import callers
from dtlint.languages.python.calls import Call, passed
from dtlint.languages.python.program import Definition, Program, of_file
from dtlint.languages.python.reach import enclosing_function
from dtlint.languages.python.tree import Binding, Module, Scope, Site

_MIXES = re.compile(r"^_?(re)?shuffle(d|_|$)|resample", re.IGNORECASE)
"""Names of functions that give data another order."""
_TELLS = "set_epoch"


def tells_by_hand(program: Program) -> bool:
    """Whether a program sets the epoch of a sampler itself (`loader.sampler.epoch = epoch`), or hands the method that
    sets it on to whoever calls it (`before_epoch = sampler.set_epoch`).
    """
    names = (name for module in program.modules.values() for scope in module.scopes for name in scope.bindings)
    return any(name.endswith("sampler.epoch") for name in names) or any(
        of_file(program, "hands set_epoch on", module.top, partial(_hands_on, module))
        for module in program.modules.values()
    )


def _hands_on(module: Module) -> bool:
    """Whether a file reads the method that tells a sampler its epoch, by its name or by a text, other than to call it
    there.
    """
    if _TELLS not in module.source.text:
        return False
    called = {id(node.func) for node in ast.walk(module.top.node) if isinstance(node, ast.Call)}
    return any(_reads(node) for node in ast.walk(module.top.node) if id(node) not in called)


def _reads(node: ast.AST) -> bool:
    if isinstance(node, ast.Call) and dotted(node.func).rpartition(".")[2] in ("getattr", "methodcaller"):
        return any(isinstance(item, ast.Constant) and item.value == _TELLS for item in node.args)
    return isinstance(node, ast.Attribute) and node.attr == _TELLS and isinstance(node.ctx, ast.Load)


def mixes_between(program: Program, epochs: Collection[int]) -> bool:
    """Whether a loop over epochs (one of these nodes) gives the data another order by itself."""
    words = ((word, sites) for module in program.modules.values() for word, sites in module.called.items())
    mixing = (site for word, sites in words if _MIXES.search(word) for site in sites)
    return any(_among(site.loops, epochs) for site in mixing)


def is_renewed(call: Call, epochs: Collection[int]) -> bool:
    """Whether a sampler is built anew in each epoch, with what it draws from, or with a seed that tells the epoch."""
    if any("epoch" in item.place.module.text(item.place.node) for item in passed(call, "seed", 4)):
        return True
    data = [item.place.node for item in passed(call, "dataset", 0)]
    return _changes(call.place.scope, data, _among(call.loops, epochs)) or _is_called_anew(call, epochs)


def _is_called_anew(call: Call, epochs: Collection[int]) -> bool:
    """Whether the function that builds a sampler is called in each epoch, with other data or another seed."""
    function = enclosing_function(call.place.scope)
    if function is None:
        return False
    sites = (site for _, site in callers(call.place.program, Definition(call.place.module, function)))
    return any(_changes(site.scope, _passed(site), _among(site.loops, epochs)) for site in sites)


def _passed(site: Site) -> list[ast.expr]:
    node = site.node
    return [*node.args, *(item.value for item in node.keywords)] if isinstance(node, ast.Call) else []


def _changes(scope: Scope, given: Iterable[ast.AST], loops: Collection[ast.AST]) -> bool:
    """Whether what is given is bound anew in one of these loops."""
    names = {node.id for item in given for node in ast.walk(item) if isinstance(node, ast.Name)}
    bound = (binding for name in names for binding in scope.bindings.get(name, ()))
    return any(_binds(loop, binding) for binding in bound for loop in loops)


def _binds(loop: ast.AST, binding: Binding) -> bool:
    counts = isinstance(loop, ast.For) and binding.kind == "loop" and binding.node is loop.iter
    return counts or loop in binding.loops


def _among(loops: Iterable[ast.AST], epochs: Collection[int]) -> list[ast.AST]:
    """The loops over epochs among these."""
    return [loop for loop in loops if id(loop) in epochs or id(getattr(loop, "iter", None)) in epochs]
