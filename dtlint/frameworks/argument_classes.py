"""Classes of arguments in a program: whether it makes arguments of one, or only says that a function takes them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from dtlint.languages.python.callers import callers
from dtlint.languages.python.program import Definition, Program, is_entry, of_file
from dtlint.languages.python.tree import Argument, Module

_TYPES = ("annotation", "returns")
"""Fields of a syntax tree that say of what type something is, and run nothing."""


def is_used(program: Program, argument: Argument) -> bool:
    """Whether a program does something with the class that an argument is a field of: gives it to a parser, builds it,
    derives another from it; what stands in a function that nothing calls is not done. What no class holds is declared
    by the code that adds it.
    """
    name = _class_of(program, argument)
    return not name or is_made(program, name)


def is_made(program: Program, name: str) -> bool:
    """Whether a program does something with a class of this name."""
    return any(_uses(program, module, name) for module in program.modules.values())


def is_field_of(program: Program, argument: Argument, ending: str) -> bool:
    """Whether an argument is a field of a class whose name ends so."""
    return _class_of(program, argument).endswith(ending)


def is_derived(program: Program, argument: Argument, bases: tuple[str, ...]) -> bool:
    """Whether the class that an argument is a field of comes down to one whose name ends so, by bases that the program
    shows.
    """
    return comes_down(program, _class_of(program, argument), bases)


def comes_down(program: Program, name: str, bases: tuple[str, ...]) -> bool:
    """The same of a class by its name."""
    waiting, seen = [name], set[str]()
    while waiting:
        name = waiting.pop()
        if not name or name in seen:
            continue
        seen.add(name)
        above = [_last_name(base) for node in _classes(program, name) for base in node.bases]
        if any(base.endswith(bases) for base in above):
            return True
        waiting.extend(above)
    return False


def _classes(program: Program, name: str) -> Iterator[ast.ClassDef]:
    for module in program.modules.values():
        scope = module.definitions.get(name)
        if scope is not None and isinstance(scope.node, ast.ClassDef):
            yield scope.node


def _class_of(program: Program, argument: Argument) -> str:
    """The name of the class that holds an argument, "" if none does."""
    line, source = argument.place.line, argument.place.source
    scopes = (scope for module in program.modules.values() if module.source is source for scope in module.scopes)
    classes = (scope.node for scope in scopes if isinstance(scope.node, ast.ClassDef))
    return next((node.name for node in classes if node.lineno <= line <= (node.end_lineno or line)), "")


def _uses(program: Program, module: Module, name: str) -> bool:
    if name not in module.source.text:
        return False
    mentions = of_file(program, "names that something runs", module.top, lambda: _running(module.top.node))
    return any(_may_run(program, module, node) for node in mentions.get(name, ()))


def _may_run(program: Program, module: Module, node: ast.AST) -> bool:
    """Whether a node stands in no function of an imported file that nothing calls."""
    if is_entry(program, module):
        return True
    line = getattr(node, "lineno", 0)
    around = (
        scope
        for scope in module.scopes
        if isinstance(scope.node, ast.FunctionDef)
        and "." not in scope.name
        and scope.node.lineno <= line <= (scope.node.end_lineno or line)
    )
    return all(callers(program, Definition(module, scope)) for scope in around)


def _running(tree: ast.AST) -> Mapping[str, Sequence[ast.AST]]:
    """The names and attributes of a tree by their last word, but for those of types; what a class is derived from is
    no use of its own name.
    """
    found: dict[str, list[ast.AST]] = {}
    left = [(tree, frozenset[str]())]
    while left:
        here, own = left.pop()
        name = _last_name(here)
        if name and name not in own:
            found.setdefault(name, []).append(here)
        for field, value in ast.iter_fields(here):
            inner = [] if field in _TYPES else value if isinstance(value, list) else [value]
            around = own | {here.name} if isinstance(here, ast.ClassDef) and field == "bases" else own
            left.extend((each, around) for each in inner if isinstance(each, ast.AST))
    return found


def _last_name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
