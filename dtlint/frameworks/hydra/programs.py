"""The config that a program's own code names for hydra; apart from its command line, which needs no Python parser."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtlint.frameworks.hydra.command_line import NOTHING, Declared

_DECORATORS = ("hydra_runner", "main")
"""NeMo's and hydra's own; other decorators of these names give no name of a config."""


_OPENING = ("schema", "strict", None)
"""Arguments that give a config keys of a class, or let it take any (hydra 1.0); None stands for `**`."""


def declared_in(text: str) -> Declared:
    """The config that the decorator of a program with this text names."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return NOTHING
    for _, call in _decorated(tree):
        given = dict(zip(("config_path", "config_name"), call.args, strict=False))
        given |= {word.arg: word.value for word in call.keywords if word.arg is not None}
        name, folder = _text(given.get("config_name")), given.get("config_path")
        plain = "." if folder is None or _is_none(folder) else _text(folder)
        return Declared(plain, name or "")
    return NOTHING


def is_plainly_started(text: str) -> bool:
    """Whether hydra starts a program of this text with the config of a file alone, which no class of the program's own
    adds keys to (`hydra_runner(schema=...)` of NeMo).
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return False
    calls = [call for _, call in _decorated(tree)]
    return bool(calls) and not any(word.arg in _OPENING for call in calls for word in call.keywords)


def _text(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def handed(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """The functions of a program that hydra hands the config."""
    return (function for function, _ in _decorated(tree))


def _decorated(tree: ast.Module) -> Iterator[tuple[ast.FunctionDef, ast.Call]]:
    for node in (each for each in tree.body if isinstance(each, ast.FunctionDef)):
        for each in node.decorator_list:
            if isinstance(each, ast.Call) and _name(each.func) in _DECORATORS:
                yield node, each


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
