"""What of an imported file runs only where that file is started itself: `if __name__ == "__main__":` and what leads on
from there.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from functools import partial

from dtlint.languages.python.program import Program, all_modules, is_entry, of_file
from dtlint.languages.python.tree import Binding, Module, Scope, is_start
from dtlint.languages.python.uncalled import reaches_by_text

_MENTION = tuple[str, str]
"""The function or class of the file's top level in which a name is used ("" for outside, "__main__" for the start),
and the name.
"""
_LONGEST = 200
"""Code points of the longest text that may be a name with dots."""
_START = "__main__"


def is_of_own_start(program: Program, module: Module, line: int) -> bool:
    """Whether a line of an imported file stands in a function or class that only the file's own start leads to."""
    if is_entry(program, module) or _START not in module.source.text:
        return False
    around = next((name for name, node in _definitions(module).items() if _holds(node, line)), "")
    return bool(around) and around in _own(program, module)


def _own(program: Program, module: Module) -> frozenset[str]:
    """The functions and classes of a file's top level that are used by its start, or by such, and by nothing else."""
    names = _definitions(module)
    others = [each for each in all_modules(program).values() if each is not module]
    if any(map(reaches_by_text, (module, *others))):
        return frozenset()
    words = (of_file(program, "words that others may mean", each.top, partial(_words, each)) for each in others)
    used: set[str] = set().union(*words)
    mentions = of_file(program, "uses by holder", module.top, partial(_mentions, module))
    roots = {name for holder, name in mentions if holder == ""} | used
    live = _reached(names.keys() & roots, mentions)
    return frozenset(names.keys() & _reached({_START}, mentions)) - live


def _reached(begun: set[str], mentions: frozenset[_MENTION]) -> set[str]:
    found, waiting = set(begun), list(begun)
    while waiting:
        holder = waiting.pop()
        new = {name for outer, name in mentions if outer == holder} - found
        found |= new
        waiting.extend(new)
    return found


def _definitions(module: Module) -> dict[str, ast.stmt]:
    body = module.top.node.body if isinstance(module.top.node, ast.Module) else []
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {node.name: node for node in body if isinstance(node, kinds)}


def _holds(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _mentions(module: Module) -> frozenset[_MENTION]:
    """What the file's statements use; a decorator may hand its function on to anybody, so that it counts as used."""
    found: set[_MENTION] = set()
    for node in module.top.node.body if isinstance(module.top.node, ast.Module) else []:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found |= {(node.name, name) for name in _names(node)}
            found |= {("", node.name)} if node.decorator_list else set()
        elif isinstance(node, ast.If) and is_start(node.test):
            found |= {(_START, name) for part in node.body for name in _names(part)}
            found |= {("", name) for part in node.orelse for name in _names(part)}
        else:
            found |= {("", name) for name in _names(node)}
    return frozenset(found)


def _words(module: Module) -> frozenset[str]:
    """What another file uses or imports by name, without its own functions and classes of the same name."""
    own = _definitions(module).keys()
    imported = {binding.target.rpartition(".")[2] for each in module.scopes for binding in _imports(each)}
    return frozenset(name for name in _names(module.top.node, own)) | imported


def _imports(scope: Scope) -> Iterator[Binding]:
    return (binding for bindings in scope.bindings.values() for binding in bindings if binding.kind == "import")


def _names(root: ast.AST, own: Collection[str] = ()) -> Iterator[str]:
    """Names, attributes and parts of texts below a node; bare names of a file's `own` definitions are left out."""
    for node in ast.walk(root):
        if isinstance(node, ast.Name):
            yield from () if node.id in own else (node.id,)
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < _LONGEST:
            yield from node.value.split(".")
