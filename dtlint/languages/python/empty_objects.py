"""Objects of classes that hold nothing, of which an attribute is read before anything sets it: the program stops."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.names import qualified
from dtlint.languages.python.program import Program, all_modules, definition
from dtlint.languages.python.tree import Module, Scope
from dtlint.languages.unused import Unused

_OF_ALL = frozenset(dir(object))
_PLAIN = ast.Assign | ast.AnnAssign | ast.Expr | ast.Return
"""Statements that are their expressions alone."""


def stopped_before(program: Program, module: Module, line: int) -> tuple[Unused, ...]:
    """The attribute at which every way to a line of a function ends: one of an object that was built of an empty class
    before, read right there or first of all in the function that is handed the object.
    """
    scopes = [scope for scope in module.scopes if isinstance(scope.node, ast.FunctionDef) and _holds(scope.node, line)]
    found = (stop for scope in scopes for stop in _stops(program, module, scope, line))
    return tuple(found)[:1]


def _holds(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _stops(program: Program, module: Module, scope: Scope, line: int) -> Iterator[Unused]:
    built: dict[str, Scope] = {}
    body = scope.node.body if isinstance(scope.node, ast.FunctionDef) else []
    for statement in (each for each in body if each.lineno < line):
        for name in [each for each in built if _names(statement, each)]:
            owner = built.pop(name)
            read = _read(program, module, scope, statement, name)
            if read and not _has(program, owner, read[0]):
                yield Unused("object", f"{owner.name}.{read[0]}", read[1:])
        built |= _built(program, module, scope, statement)


def _names(statement: ast.stmt, name: str) -> bool:
    return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(statement))


def _built(program: Program, module: Module, scope: Scope, statement: ast.stmt) -> dict[str, Scope]:
    """The name that a statement gives to an object of an empty class."""
    call = statement.value if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if not isinstance(call, ast.Call) or call.args or call.keywords or not isinstance(target, ast.Name):
        return {}
    names = qualified(module, call.func, scope)
    found = definition(program, module, names[0]) if len(names) == 1 else None
    return {target.id: found.scope} if found is not None and _is_empty(found.scope.node) else {}


def _is_empty(node: ast.AST) -> bool:
    """Whether a class gives its objects no attributes: `class Args: pass`."""
    if not isinstance(node, ast.ClassDef) or node.keywords or node.decorator_list:
        return False
    plain = all(dotted(base) == "object" for base in node.bases)
    return plain and all(_does_nothing(each) or _is_idle_init(each) for each in node.body)


def _is_idle_init(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == "__init__" and all(map(_does_nothing, node.body))


def _does_nothing(node: ast.stmt) -> bool:
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def _read(program: Program, module: Module, scope: Scope, statement: ast.stmt, name: str) -> tuple[str, ...]:
    """The attribute of a name that a statement reads, and the function that it hands the name to for that; () where
    none is certain.
    """
    value = statement.value if isinstance(statement, _PLAIN) else None
    own = _first_read(value, name) if value is not None else ""
    if own or not isinstance(value, ast.Call):
        return (own,) if own else ()
    names = qualified(module, value.func, scope)
    found = definition(program, module, names[0]) if len(names) == 1 else None
    node = found.scope.node if found is not None else None
    given = [index for index, each in enumerate(value.args) if isinstance(each, ast.Name) and each.id == name]
    attribute = _read_first(node, given[0]) if isinstance(node, ast.FunctionDef) and len(given) == 1 else ""
    return (attribute, dotted(value.func).rpartition(".")[2]) if attribute else ()


def _read_first(function: ast.FunctionDef, index: int) -> str:
    """The attribute of an argument that a function reads before it does anything else."""
    parameters = [*function.args.posonlyargs, *function.args.args]
    doing = (
        each for each in function.body if not (isinstance(each, ast.Import | ast.ImportFrom) or _does_nothing(each))
    )
    first = next(doing, None)
    asked = first.test if isinstance(first, ast.If) else first.value if isinstance(first, _PLAIN) else None
    if asked is None or index >= len(parameters) or function.decorator_list or _is_generator(function):
        return ""
    return _first_read(asked, parameters[index].arg)


def _is_generator(node: ast.FunctionDef) -> bool:
    return any(isinstance(each, ast.Yield | ast.YieldFrom) for each in ast.walk(node))


def _first_read(node: ast.expr, name: str) -> str:
    """The attribute of a name that an expression reads before anything else can go another way."""
    if isinstance(node, ast.Attribute):
        return (
            node.attr if isinstance(node.value, ast.Name) and node.value.id == name else _first_read(node.value, name)
        )
    if isinstance(node, ast.Compare | ast.BinOp):
        return _first_read(node.left, name)
    if isinstance(node, ast.BoolOp):
        return _first_read(node.values[0], name)
    if isinstance(node, ast.UnaryOp):
        return _first_read(node.operand, name)
    if isinstance(node, ast.Call):
        return _first_read(node.func, name) or (_first_read(node.args[0], name) if node.args else "")
    return _first_read(node.value, name) if isinstance(node, ast.Subscript) else ""


def _has(program: Program, owner: Scope, attribute: str) -> bool:
    """Whether objects of an empty class may have an attribute all the same: all do, or a file sets it on the class."""
    name = owner.name.rpartition(".")[2]
    nodes = (node for module in all_modules(program).values() for node in _nodes(module, name))
    return attribute in _OF_ALL or any(
        dotted(node) == "setattr" or (isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store))
        for node in nodes
    )


def _nodes(module: Module, name: str) -> Iterator[ast.AST]:
    """The attributes of a class that a file names, and what it calls with the class."""
    if name not in module.source.text:
        return
    for node in ast.walk(module.top.node):
        if isinstance(node, ast.Attribute) and dotted(node.value).rpartition(".")[2] == name:
            yield node
        elif isinstance(node, ast.Call) and any(dotted(each).rpartition(".")[2] == name for each in node.args):
            yield node.func
