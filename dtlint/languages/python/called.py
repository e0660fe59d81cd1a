"""Finds calls by the last word of what they call, and what they pass for a parameter."""

from __future__ import annotations

import ast

from dtlint.languages.python.bindings import dotted, last_word
from dtlint.languages.python.tree import Scope, Site

_BOUND = frozenset({"__init__", "forward"})
"""Methods that a call runs which does not name them."""


def calls_by_name(scopes: tuple[Scope, ...]) -> dict[str, tuple[Site, ...]]:
    """Calls by the last word of what they call; a call of `b` after `import a as b` or `b = a` counts for `a` too."""
    originals = _original_names(scopes)
    found: dict[str, list[Site]] = {}
    for scope in scopes:
        for site in scope.sites:
            if isinstance(site.node, ast.Call):
                spelled = _last_word(site.node.func)
                for name in _meanings(spelled, originals):
                    found.setdefault(name, []).append(site)
    return {name: tuple(sites) for name, sites in found.items()}


def _meanings(spelled: str, originals: dict[str, set[str]]) -> set[str]:
    """A called word and all words that it is another name of."""
    found, waiting = {spelled}, [spelled]
    while waiting:
        new = originals.get(waiting.pop(), set()) - found
        found |= new
        waiting.extend(new)
    return found


def _original_names(scopes: tuple[Scope, ...]) -> dict[str, set[str]]:
    originals: dict[str, set[str]] = {}
    for scope in scopes:
        for name, bindings in scope.bindings.items():
            for binding in bindings:
                target = binding.target if binding.kind == "import" else _last_word(binding.node)
                last = target.rpartition(".")[2]
                if last and binding.kind in ("import", "value") and last != name:
                    originals.setdefault(name.rpartition(".")[2], set()).add(last)
    return originals


def _last_word(node: ast.AST | None) -> str:
    """The word that a name or attribute ends in; of `partial(f, ...)` that of f."""
    if isinstance(node, ast.Call) and node.args and _last_word(node.func) == "partial":
        node = node.args[0]
    return last_word(node)


def argument_node(function: Scope, name: str, call: ast.AST) -> ast.expr | None:
    """The expression that a call passes for a parameter, if it is written there by itself."""
    node = function.node
    if not isinstance(call, ast.Call) or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        return None
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    names = [argument.arg for argument in [*node.args.posonlyargs, *node.args.args]]
    if name not in names:
        return None
    index = names.index(name) - int(_is_bound(function, call))
    if not 0 <= index < len(call.args) or any(isinstance(item, ast.Starred) for item in call.args[: index + 1]):
        return None
    return call.args[index]


def rest_nodes(function: Scope, call: ast.AST) -> list[ast.expr]:
    """The expressions that a call passes for `*models` of a function; [] where they are not written one by one."""
    node = function.node
    if not isinstance(call, ast.Call) or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        return []
    first = len(node.args.posonlyargs) + len(node.args.args) - int(_is_bound(function, call))
    return [] if any(isinstance(item, ast.Starred) for item in call.args) else call.args[first:]


def given_to(call: ast.Call) -> list[ast.expr]:
    """All expressions that a call passes."""
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def _is_bound(function: Scope, call: ast.Call) -> bool:
    """Whether a call leaves out the first parameter of a function: of a method, of a class that it builds, and of a
    layer or criterion that is called itself (`criterion(x, y)`).
    """
    node = function.node
    if function.parent is None or not isinstance(function.parent.node, ast.ClassDef):
        return False
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    if any(_last_word(decorator) == "staticmethod" for decorator in node.decorator_list):
        return False
    return isinstance(call.func, ast.Attribute) or node.name in _BOUND


def annotated_word(node: ast.expr | None) -> str:
    """The last word of an annotation; that of `X | None` and `Optional[X]` is X."""
    if isinstance(node, ast.BinOp):
        return annotated_word(node.left)
    if isinstance(node, ast.Subscript) and dotted(node.value).rpartition(".")[2] == "Optional":
        return annotated_word(node.slice)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value.rpartition(".")[2]
    return dotted(node).rpartition(".")[2] if node is not None else ""
