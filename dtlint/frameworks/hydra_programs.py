"""The config that a program's own code names for hydra; apart from its command line, which needs no Python parser."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import PurePosixPath

_DECORATORS = ("hydra_runner", "main")


def config_of_program(text: str, path: str) -> str | None:
    """The path of the config that a program's decorator names (`@hydra_runner(config_path="conf", config_name="gpt")`);
    None where there is none. `path` is the program's.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None
    for call in _decorators(tree):
        given = {word.arg: word.value.value for word in call.keywords if isinstance(word.value, ast.Constant)}
        name, folder = given.get("config_name"), given.get("config_path")
        if isinstance(name, str):
            file = name if name.endswith((".yaml", ".yml")) else f"{name}.yaml"
            return str(PurePosixPath(path).parent / (folder if isinstance(folder, str) else ".") / file)
    return None


def _decorators(tree: ast.Module) -> Iterator[ast.Call]:
    for node in tree.body:
        for each in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
            if isinstance(each, ast.Call) and _name(each.func) in _DECORATORS:
                yield each


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
