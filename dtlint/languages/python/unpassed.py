"""Branches on parameters whose default passes them by: they are taken only where some caller gives the parameter."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.names import attribute_bindings
from dtlint.languages.python.reach import enclosing_function
from dtlint.languages.python.tree import Guard, Module, Scope, Site
from dtlint.languages.python.uncalled import is_handed_on
from dtlint.languages.unused import Unused
from dtlint.record import NamedTuple

_CONSTRUCTOR = "__init__"


class _Wanted(NamedTuple):
    """What a branch is taken for: the name of a value, and whether it has to be true."""

    name: str
    true: bool


def unpassed(module: Module, site: Site) -> tuple[Unused, ...]:
    """The parameters that must be given for a site to be come to: one of the function around it, or one that
    `__init__` alone gives to the attribute which is asked (`if self.distributed:`).
    """
    found = (_parameter(module, site.scope, wanted) for guard in site.guards for wanted in _needed(guard))
    return tuple(each for each in found if each is not None)


def _needed(guard: Guard) -> Iterator[_Wanted]:
    """The values that have to be true, or false, for a guard to have its outcome."""
    waiting = [(guard.test, guard.holds)] if guard.test is not None else []
    while waiting:
        test, true = waiting.pop()
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            waiting.append((test.operand, not true))
        elif isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And if true else ast.Or):
            waiting.extend((part, true) for part in test.values)
        elif isinstance(test, ast.Name | ast.Attribute):
            yield _Wanted(dotted(test), true)


def _parameter(module: Module, scope: Scope, wanted: _Wanted) -> Unused | None:
    function = enclosing_function(scope)
    if function is None or "." not in wanted.name:
        return _of(function, wanted.name, wanted.true) if function is not None else None
    bound = attribute_bindings(module, scope, wanted.name)
    method, binding = bound[0] if len(bound) == 1 else (None, None)
    if method is None or binding is None or method.name.rpartition(".")[2] != _CONSTRUCTOR or binding.guards:
        return None
    given = binding.node if binding.kind == "value" and not binding.path else None
    return _of(method, given.id, wanted.true) if isinstance(given, ast.Name) else None


def _of(function: Scope, name: str, true: bool) -> Unused | None:
    """The parameter of a function that everything calls by name, where its default is the other truth."""
    node = function.node
    bound = function.bindings.get(name, [])
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or len(bound) != 1 or bound[0].kind != "parameter":
        return None
    default = bound[0].node
    if not isinstance(default, ast.Constant) or bool(default.value) is true or is_handed_on(function):
        return None
    called = _called(function)
    return None if called is None else Unused("parameter", f"{called}.{name}", before=_before(node, name, function))


def _called(function: Scope) -> str | None:
    """The name by which callers call a function: that of the class for its `__init__`."""
    *owners, name = function.name.split(".")
    owner = function.parent.node if function.parent is not None else None
    if name != _CONSTRUCTOR:
        return None if name.startswith("__") else name
    undecorated = isinstance(owner, ast.ClassDef) and not owner.decorator_list
    return owners[-1] if owners and undecorated else None


def _before(node: ast.FunctionDef | ast.AsyncFunctionDef, name: str, function: Scope) -> int | None:
    """How many arguments of a call stand before a parameter; None where it is given by name only."""
    plain = [item.arg for item in (*node.args.posonlyargs, *node.args.args)]
    if name not in plain:
        return None
    bound = function.parent is not None and isinstance(function.parent.node, ast.ClassDef)
    static = any(dotted(each) == "staticmethod" for each in node.decorator_list)
    return plain.index(name) - (1 if bound and not static else 0)
