"""Whether a file may give a function, or a class, an argument for one of its parameters, or use the function at all."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from dtlint.languages.python.unreached import names_used
from dtlint.languages.unused import Unused


def passes(text: str, unused: Sequence[Unused]) -> dict[Unused, bool | None]:
    """Of each parameter whether a file may give it: None where the file does not use what has it.

    What is not a call (`maker = Trainer`), a class built on it, and a text with its name may hand it anything.
    """
    named = [each for each in unused if _owner(each) in text]
    if not named:
        return dict.fromkeys(unused)
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError):
        return {each: True if each in named else None for each in unused}
    return {each: _gives(nodes, each) if each in named else None for each in unused}


def uses(text: str, unused: Sequence[Unused]) -> set[Unused]:
    """The functions that a file may use, or one that leads to them; all that it names where it is no Python."""
    named = {each for each in unused if any(name in text for name in (each.name, *each.by))}
    if not named:
        return named
    try:
        used = names_used(ast.parse(text))
    except (SyntaxError, ValueError, RecursionError):
        return named
    return {each for each in named if not used.isdisjoint((each.name, *each.by))}


def _gives(nodes: Sequence[ast.AST], unused: Unused) -> bool | None:
    owner, _, parameter = unused.name.rpartition(".")
    calls = [node for node in nodes if isinstance(node, ast.Call) and _last(node.func) == owner]
    functions = {id(call.func) for call in calls}
    mentions = (node for node in nodes if _last(node) == owner or _is_text_of(node, owner))
    sets = any(_sets(node, parameter) for node in nodes)
    if sets or any(id(node) not in functions for node in mentions):
        return True
    return any(_is_given(call, parameter, unused.before) for call in calls) if calls else None


def _owner(unused: Unused) -> str:
    return unused.name.rpartition(".")[0]


def _last(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _is_text_of(node: ast.AST, owner: str) -> bool:
    """Whether a text names it, alone or behind dots (`"package.trainers.Trainer"`)."""
    text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
    return text.rpartition(".")[2] == owner


def _sets(node: ast.AST, parameter: str) -> bool:
    """Whether a statement sets an attribute of this name of another object than a method's own."""
    if isinstance(node, ast.Attribute) and node.attr == parameter and isinstance(node.ctx, ast.Store):
        return not (isinstance(node.value, ast.Name) and node.value.id == "self")
    named = (
        node.args[1] if isinstance(node, ast.Call) and _last(node.func) == "setattr" and len(node.args) > 1 else None
    )
    return isinstance(named, ast.Constant) and named.value == parameter


def _is_given(call: ast.Call, parameter: str, before: int | None) -> bool:
    if any(isinstance(each, ast.Starred) for each in call.args):
        return True
    if before is not None and len(call.args) > before:
        return True
    return any(keyword.arg in (None, parameter) for keyword in call.keywords)
