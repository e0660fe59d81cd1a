"""Functions of imported files that nothing in a program leads to: they are there and are not run."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from functools import partial

from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.program import Program, all_modules, is_entry, of_file
from dtlint.languages.python.tree import Module
from dtlint.languages.python.uncalled import is_handed_on, reaches_by_text
from dtlint.languages.unused import Unused

_USES = tuple[str, frozenset[str]]
"""A function of a file's top level ("" for all outside of such), and the names that are used in it."""
_LISTED = "__all__"
"""What a file lists for `import *`, and uses no more than an import does."""
_PATH = re.compile(r"[A-Za-z_][\w]*(?:[.:][A-Za-z_]\w*)+")
"""A text that may name a function by its module (`package.losses.focal`, `package.train:main`)."""
_WHOLE = ("globals(", "vars(", ".__dict__")
"""What hands out all that a file has."""


def unreached(program: Program, module: Module, line: int) -> tuple[Unused, ...]:
    """The function of an imported file's top level that holds a line, with those `by` which alone it would be come to,
    where nothing in the program names any of them; () where something does, or may.
    """
    functions = {} if is_entry(program, module) else _functions(module)
    name = next((name for name, node in functions.items() if node.lineno <= line <= (node.end_lineno or 0)), "")
    if not name or any(map(_may_hand_out, all_modules(program).values())):
        return ()
    uses = of_file(program, "uses by function", module.top, partial(_uses, module))
    dead = functions.keys() - _reached({"", *_roots(program, module)}, dict(uses))
    return (Unused("function", name, tuple(sorted(_leading(name, dead, uses)))),) if name in dead else ()


def names_used(root: ast.AST) -> frozenset[str]:
    """The functions of other files that a file may use: not those that it only imports, nor its own."""
    body = root.body if isinstance(root, ast.Module) else []
    own = {node.name for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    imported = _imported(root)
    return frozenset(name for node in body for name in _used(node, own, imported))


def _roots(program: Program, module: Module) -> Iterator[str]:
    """The functions that other files use, or that a decorator may hand on."""
    for other in all_modules(program).values():
        if other is not module:
            yield from of_file(program, "functions of others", other.top, partial(names_used, other.top.node))
    yield from (name for name in _functions(module) if is_handed_on(module.definitions[name]))


def _functions(module: Module) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    body = module.top.node.body if isinstance(module.top.node, ast.Module) else []
    found = (node for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {node.name: node for node in found if node.name in module.definitions}


def _uses(module: Module) -> tuple[_USES, ...]:
    """What each function of a file's top level uses, and what stands outside of them; a class counts as used."""
    functions = _functions(module)
    body = module.top.node.body if isinstance(module.top.node, ast.Module) else []
    imported = _imported(module.top.node)
    outside = [node for node in body if node not in functions.values()]
    return (
        ("", frozenset(name for node in outside for name in _used(node, (), imported))),
        *((name, frozenset(_used(node, (), imported))) for name, node in functions.items()),
    )


def _reached(begun: set[str], uses: Mapping[str, frozenset[str]]) -> set[str]:
    found, waiting = set(begun), list(begun)
    while waiting:
        new = uses.get(waiting.pop(), frozenset()) - found
        found |= new
        waiting.extend(new)
    return found


def _leading(name: str, dead: Collection[str], uses: tuple[_USES, ...]) -> set[str]:
    """The functions that lead to one, themselves not come to."""
    users = {each: frozenset(user for user, names in uses if each in names and user in dead) for each in dead}
    return _reached({name}, users) - {name}


def _used(node: ast.AST, own: Collection[str], imported: Collection[str]) -> Iterator[str]:
    """The names below a node: bare ones, what is taken of a module, and the last of such as a text names; imports that
    give a function another name use it.
    """
    if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign) and _assigns(node, _LISTED):
        return
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and each.id not in own:
            yield each.id
        elif isinstance(each, ast.Attribute) and dotted(each).partition(".")[0] in imported:
            yield each.attr
        elif isinstance(each, ast.ImportFrom):
            yield from (alias.name for alias in each.names if alias.asname not in (None, alias.name))
        elif isinstance(each, ast.Constant) and isinstance(each.value, str) and _PATH.fullmatch(each.value):
            yield re.split("[.:]", each.value)[-1]


def _assigns(node: ast.Assign | ast.AugAssign | ast.AnnAssign, name: str) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return any(isinstance(target, ast.Name) and target.id == name for target in targets)


def _imported(root: ast.AST) -> frozenset[str]:
    """The names that imports give in a file."""
    nodes = (node for node in ast.walk(root) if isinstance(node, ast.Import | ast.ImportFrom))
    return frozenset((alias.asname or alias.name).partition(".")[0] for node in nodes for alias in node.names)


def _may_hand_out(module: Module) -> bool:
    """Whether a file may use functions whose names stand in values: `getattr(losses, args.loss)`, `globals()[name]`."""
    if reaches_by_text(module) or any(word in module.source.text for word in _WHOLE):
        return True
    asked = [site.node for site in module.called.get("getattr", ()) if isinstance(site.node, ast.Call)]
    imported = _imported(module.top.node) if asked else frozenset()
    return any(node.args and dotted(node.args[0]).partition(".")[0] in imported for node in asked)
