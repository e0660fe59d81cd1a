"""Which of several Python files are read as programs: those that none of the others imports, and those that start
themselves. What another one imports is read with it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from dtlint.languages.python.tree import Module, is_start
from dtlint.runs.programs import is_read, module_in, program_of
from dtlint.runs.tree import Tree
from dtlint.source import Source

_LOOPS = (ast.For, ast.While, ast.With)


def import_roots(programs: Sequence[Source], others: Iterable[Source], tree: Tree) -> list[Source]:
    """The `programs` that no other one of them and none of the `others` imports, and those that start themselves. Of
    files that import each other the first one stays.
    """
    passive = {each.path for each in programs if is_read(each) and not _starts_itself(module_in(tree, each))}
    if not passive:
        return list(programs)
    importers = [each for each in dict.fromkeys((*others, *programs)) if is_read(each)]
    imported = {each.path: _imported(each, tree) for each in importers}
    order = {path: number for number, path in enumerate(imported)}
    inner = {
        path
        for importer, within in imported.items()
        for path in passive & within - {importer}
        if importer not in imported[path] or order[importer] < order[path]
    }
    return [each for each in programs if each.path not in inner]


def _imported(entry: Source, tree: Tree) -> frozenset[str]:
    return frozenset(module.source.path for module in program_of(entry, tree).modules.values())


def _starts_itself(module: Module) -> bool:
    """Whether a file does more than define when it is run: it tests for its start, loops, or calls what it defines. Of
    one that cannot be read nobody knows.
    """
    if module.problems:
        return True
    body = module.top.node.body if isinstance(module.top.node, ast.Module) else []
    return any(_acts(statement, module) for statement in body)


def _acts(statement: ast.stmt, module: Module) -> bool:
    if isinstance(statement, ast.If):
        return is_start(statement.test)
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        called = statement.value.func
        return isinstance(called, ast.Name) and called.id in module.definitions
    return isinstance(statement, _LOOPS)
