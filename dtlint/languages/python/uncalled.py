"""Classes and methods that nothing in a program names: code that is there and is not run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.names import qualified
from dtlint.languages.python.program import Program, all_modules, definition
from dtlint.languages.python.tree import Module, Scope
from dtlint.languages.unused import HOLDERS, Unused

_PLAIN = frozenset({"staticmethod", "classmethod", "property", "torch.no_grad", "torch.inference_mode"})
"""Decorators that hand a method to nobody else."""
_CALLS_NOTHING = re.compile(r"(^|\.)(object|ABC|Generic|\w*Mixin)$")
"""Classes that call no method of the classes built on them, beside such as they name themselves."""
_OPEN = frozenset({"Fire", "instantiate", "get_class", "get_obj_from_str", "locate", "build_from_cfg", "LightningCLI"})
"""Functions that reach classes and their methods by names in texts and in files."""


def uncalled(program: Program, module: Module, line: int) -> tuple[Unused, ...]:
    """The class around a line and its method there, as far as nothing names them in the program; () where something
    does, or may: a decorator hands on, a class built on one that is not here lends its methods, and `fire` reaches
    everything.
    """
    method = _innermost(module, line)
    owner = method.parent if method is not None else None
    if method is None or owner is None or not isinstance(owner.node, ast.ClassDef):
        return ()
    if any(map(reaches_by_text, all_modules(program).values())):
        return ()
    unbuilt = not any(_decorators(owner)) and not is_named(program, owner)
    lent = is_handed_on(method) or not _is_built_here(program, module, owner)
    unnamed = not lent and not is_named(program, method)
    found = (Unused("class", owner.name) if unbuilt else None, Unused("method", method.name) if unnamed else None)
    return tuple(each for each in found if each is not None)


def reaches_by_text(module: Module) -> bool:
    """Whether a file may call what it names in texts, or what a config names."""
    got = (site.node.args for site in module.called.get("getattr", ()) if isinstance(site.node, ast.Call))
    of_modules = any(args and _is_import(args[0]) for args in got)
    return of_modules or not _OPEN.isdisjoint(module.called)


def _is_import(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and dotted(node.func).rpartition(".")[2] in ("import_module", "__import__")


def _innermost(module: Module, line: int) -> Scope | None:
    """The method that holds a line; functions within it are its parts."""
    around = [
        scope
        for scope in module.definitions.values()
        if isinstance(scope.node, ast.FunctionDef | ast.AsyncFunctionDef) and _holds(scope.node, line)
    ]
    return min(around, key=lambda scope: scope.name.count("."), default=None)


def _holds(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _decorators(scope: Scope) -> Iterator[str]:
    node = scope.node
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) else []
    return (dotted(each.func if isinstance(each, ast.Call) else each) for each in decorators)


def _is_built_here(program: Program, module: Module, owner: Scope) -> bool:
    """Whether a class is built on classes of the program alone, whose methods call each other in sight."""
    waiting, seen = [(module, owner)], {id(owner)}
    while waiting:
        inside, scope = waiting.pop()
        for each in scope.node.bases if isinstance(scope.node, ast.ClassDef) else []:
            base = each.value if isinstance(each, ast.Subscript) else each
            names = qualified(inside, base, scope.parent or inside.top)
            found = definition(program, inside, names[0]) if len(names) == 1 else None
            if found is None and not _CALLS_NOTHING.search(dotted(base)):
                return False
            if found is not None and id(found.scope) not in seen:
                seen.add(id(found.scope))
                waiting.append((found.module, found.scope))
    return True


def is_handed_on(method: Scope) -> bool:
    """Whether a decorator may hand a method to somebody who calls it."""
    return not _PLAIN.issuperset(_decorators(method))


def is_named(program: Program, scope: Scope) -> bool:
    """Whether a program names a class or function outside its own definition."""
    name = scope.name.rpartition(".")[2]
    if name.startswith("__"):
        return True
    modules = (module for module in all_modules(program).values() if name in module.source.text)
    return any(name in _names(module, scope.node) for module in modules)


def _names(module: Module, but: ast.AST) -> Iterator[str]:
    """The names that a file uses, outside one definition: not those that it only imports or lists for others."""
    waiting: list[ast.AST] = [module.top.node]
    is_package = module.source.path.endswith("__init__.py")
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield from () if dotted(node.value).endswith(HOLDERS) else (node.attr,)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield node.func.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not is_package:
            yield from node.value.split(".") if len(node.value) < _LONGEST else ()
        waiting.extend(child for child in ast.iter_child_nodes(node) if child is not but)


_LONGEST = 200
"""Code points of the longest text that may be a name with dots."""
