"""The keys that a program sets in configs which it has loaded (`config["zero_optimization"]["stage"] = 2`)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dtlint.frameworks import Member
from dtlint.languages.python.program import Program, sites
from dtlint.source import Span
from dtlint.value import Value, written

ANY = "*"
"""Stands for keys that are not known."""

_SETTING = ("update", "setdefault", "merge_with")
_CONFIG = re.compile(r"conf|cfg|ds_|deepspeed", re.IGNORECASE)
"""What the name of a config holds: other dicts may have any keys."""


def changes(program: Program, place: Span) -> tuple[Member, ...]:
    """The collection `config.changed`: for each key that some item assignment of the program sets, its `path` as far
    as it is written there, ANY for keys that are not.
    """
    return tuple(Member(place, {"path": written(path, place)}) for path in dict.fromkeys(_paths(program)))


def is_changed(paths: frozenset[str], key: str) -> bool:
    """Whether a key (dotted) is one that the program sets, lies in a section that it sets, or holds one."""
    return any(path == ANY or f".{key}.".find(f".{path}.") >= 0 or path.startswith(f"{key}.") for path in paths)


def paths_of(members: tuple[Member, ...]) -> frozenset[str]:
    """The paths of `config.changed`."""
    found = (member.fields["path"] for member in members)
    return frozenset(str(path.value) for path in found if isinstance(path, Value))


def _paths(program: Program) -> Iterator[str]:
    for module in program.modules.values():
        for node in (site.node for site in sites(module)):
            if isinstance(node, ast.Assign):
                yield from (path for target in node.targets for path in _of_target(target))
            elif isinstance(node, ast.AugAssign):
                yield from _of_target(node.target)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SETTING:
                yield from (path for path in _of_call(node) if path != ANY or _is_config(node.func.value))


def _of_target(target: ast.expr) -> Iterator[str]:
    """`name["a"]["b"]` as a.b; of a key that is not written out what stands before it."""
    keys: list[str] = []
    while isinstance(target, ast.Subscript):
        known = isinstance(target.slice, ast.Constant) and isinstance(target.slice.value, str)
        keys.insert(0, str(target.slice.value) if known and isinstance(target.slice, ast.Constant) else ANY)
        target = target.value
    path = ".".join(keys[: keys.index(ANY)] if ANY in keys else keys)
    if path or (keys and _is_config(target)):
        yield path or ANY


def _is_config(node: ast.expr) -> bool:
    return _CONFIG.search(ast.unparse(node)) is not None


def _of_call(node: ast.Call) -> Iterator[str]:
    """What `config.update({...})` sets."""
    yield from (keyword.arg or ANY for keyword in node.keywords)
    first = node.args[0] if node.args else None
    if isinstance(first, ast.Constant) and isinstance(first.value, str):
        yield first.value
    elif isinstance(first, ast.Dict):
        for key in first.keys:
            known = isinstance(key, ast.Constant) and isinstance(key.value, str)
            yield str(key.value) if known and isinstance(key, ast.Constant) else ANY
    elif first is not None:
        yield ANY
