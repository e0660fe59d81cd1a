"""Modules that a program imports from the repository around it and that did not come along: Python stops at them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from dtlint.runs.tree import Tree
from dtlint.source import Source, Unreadable

_PROGRAMS = "pretrain_"
"""How the programs at the root of Megatron are called, from which others import."""
_ANYTHING = ("import *", "__getattr__", "globals()", "exec(", "sys.modules", "vars()")
"""What may give a module names that its text does not show."""
_BUILT = re.compile(r"_.*|.*_pb2(_grpc)?|version")
"""Names of modules that are built when a package is installed."""


def absent_module(entry: Source, tree: Tree) -> str:
    """The module, or the name in a module, that a script imports before anything else runs and that no file of the
    tree has, "" where there is none. A package that is not here at all may be installed.
    """
    if tree.listing.cut:
        return ""
    return next((name for name, names in _imports(entry, tree) for name in _absent(name, names, tree)), "")


def absent_name(entry: Source, tree: Tree) -> str:
    """The name that a script imports before anything else runs from a module around it which has no such name, ""
    where there is none. A package of that name may be installed instead, unless the script takes other names from this
    one that are here.
    """
    if tree.listing.cut or entry.file is None:
        return ""
    lacking: dict[str, list[str]] = {}
    held: set[str] = set()
    for name, names in _imports(entry, tree):
        package, file = name.partition(".")[0], _imported(name, entry.file.parent, tree)
        for each in names if file is not None else ():
            if file is None or _may_give(file, each, tree):
                held.add(package)
            elif not _BUILT.fullmatch(each):
                lacking.setdefault(package, []).append(f"{name}.{each}")
    return next((found[0] for package, found in lacking.items() if package in held), "")


def _imported(name: str, folder: Path, tree: Tree) -> Path | None:
    """The file of a module as a script of a folder finds it: beside itself or from a folder above, the nearest one, a
    package before a file.
    """
    path = name.replace(".", "/")
    package, module = tree.find(f"{path}/__init__.py", folder), tree.find(f"{path}.py", folder)
    if package is None or module is None:
        return package or module
    return module if len(module.parts) >= len(package.parts) else package


def _imports(entry: Source, tree: Tree) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The modules that the script imports unconditionally, and the names that it takes from each."""
    import ast

    from dtlint.runs.programs import module_in

    node = module_in(tree, entry).top.node
    for statement in node.body if isinstance(node, ast.Module) else ():
        if isinstance(statement, ast.Import):
            yield from ((alias.name, ()) for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
            yield statement.module, tuple(alias.name for alias in statement.names if alias.name != "*")


def _absent(name: str, names: tuple[str, ...], tree: Tree) -> Iterator[str]:
    parts = tuple(name.split("."))
    if _lacks(parts, tree):
        yield name
    elif len(files := _files_of(parts, tree)) == 1:
        yield from (f"{name}.{each}" for each in names if not _may_give(files[0], each, tree))


def _lacks(parts: tuple[str, ...], tree: Tree) -> bool:
    """Whether a module is not here, of which the package around it is, or which is a program of Megatron's root."""
    if len(parts) == 1:
        return parts[0].startswith(_PROGRAMS) and not _stands(parts[0], Path(), tree)
    packages = [file.parent for file in tree.ending((*parts[:-1], "__init__.py"))]
    if not packages:
        return len(parts) > 2 and _lacks(parts[:-1], tree)
    return not any(_stands(parts[-1], folder, tree) for folder in packages)


def _stands(name: str, folder: Path, tree: Tree) -> bool:
    """Whether a folder has a file or folder of a name, be it one that a module is built from; any, where none is
    given.
    """
    depth = len(folder.parts)
    inside = (file for file in tree.listing.files if not depth or file.is_relative_to(folder))
    return any(name in (*file.parts[depth:-1], file.name.partition(".")[0]) for file in inside)


def _files_of(parts: tuple[str, ...], tree: Tree) -> list[Path]:
    return [*tree.ending((*parts[:-1], f"{parts[-1]}.py")), *tree.ending((*parts, "__init__.py"))]


def _may_give(file: Path, name: str, tree: Tree) -> bool:
    """Whether a module may have a name: its text holds it, it takes names from elsewhere, or it is a module of it."""
    try:
        text = tree.source(file).text
    except Unreadable:
        return True
    if name in text or any(each in text for each in _ANYTHING):
        return True
    return file.name == "__init__.py" and _stands(name, file.parent, tree)
