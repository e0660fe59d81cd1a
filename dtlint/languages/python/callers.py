"""Who calls a function of a program: by its name, or under the name that it is handed over as."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtlint.languages.python.names import qualified
from dtlint.languages.python.program import Definition, Program, definition, subclasses, unnoted
from dtlint.languages.python.receivers import may_call
from dtlint.languages.python.tree import HERE, Module, Scope, Site


def called_by_name(program: Program, name: str) -> tuple[tuple[Module, Site], ...]:
    """The calls of functions of this name in all modules, file by file."""
    if name not in program.memo.files.sites:
        program.memo.files.sites[name] = tuple(
            (module, site) for module in program.modules.values() for site in module.called.get(name, ())
        )
    return program.memo.files.sites[name]


def callers(program: Program, wanted: Definition) -> tuple[tuple[Module, Site], ...]:
    """Every call of a function in the program, with the module that it stands in; a class's construction calls its
    `__init__`.

    A method called on an object of unknown class counts if no other class of the program has a method of that name,
    and nothing says that the object is another library's (receivers.py).
    """
    if wanted.scope not in program.memo.files.callers:
        program.memo.files.callers[wanted.scope] = unnoted(program, lambda: tuple(_callers(program, wanted)))
    found = program.memo.files.callers[wanted.scope]
    said = tuple((module.name, site.node) for module, site in found)
    program.memo.note("callers", wanted.module, wanted.scope, said)
    return found


def times_named(program: Program, wanted: Definition) -> int:
    """How often a program names a function or class, outside imports and the lists of what a package has for others."""
    name = wanted.scope.name.rpartition(".")[2]
    modules = (module for module in program.modules.values() if name in module.source.text)
    found = sum(_is_name(node, name) for module in modules for node in ast.walk(module.top.node))
    program.memo.note("times named", wanted.module, wanted.scope, found)
    return found


def _is_name(node: ast.AST, name: str) -> bool:
    return (isinstance(node, ast.Name) and node.id == name) or (isinstance(node, ast.Attribute) and node.attr == name)


def namesakes(program: Program, wanted: Definition) -> tuple[tuple[Module, Site], ...]:
    """Calls on objects of unknown class under the name of a method: each may be a call of it. None for a function."""
    owner, last = wanted.scope.parent, wanted.scope.name.rpartition(".")[2]
    if owner is None or not isinstance(owner.node, ast.ClassDef):
        return ()
    found = tuple((module, site) for module, site in called_by_name(program, last) if _is_on_unknown(module, site))
    program.memo.note(
        "namesakes", wanted.module, wanted.scope, tuple((module.name, site.node) for module, site in found)
    )
    return found


def _is_on_unknown(module: Module, site: Site) -> bool:
    node = site.node
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and not qualified(module, node.func, site.scope)
    )


def _callers(program: Program, wanted: Definition) -> Iterator[tuple[Module, Site]]:
    last = wanted.scope.name.rpartition(".")[2]
    owner = wanted.scope.parent
    if owner is not None and isinstance(owner.node, ast.ClassDef):
        if last == "__init__":
            yield from callers(program, Definition(wanted.module, owner))
            yield from _by_subclasses(program, wanted, owner)
            return
        loose = sum(_has_method(module, last) for module in program.modules.values()) == 1
    else:
        loose = False
    for module, site in called_by_name(program, last):
        if _calls(program, module, site, wanted, loose):
            yield module, site


def _by_subclasses(program: Program, wanted: Definition, owner: Scope) -> Iterator[tuple[Module, Site]]:
    """The constructions of classes that inherit an `__init__`, and its calls by those that have one of their own."""
    below = subclasses(program, owner.name.rpartition(".")[2])
    for module in program.modules.values() if below else ():
        for scope in (scope for scope in module.definitions.values() if scope in below):
            found = definition(program, module, f"{HERE}.{scope.name}.__init__")
            if found is not None and found.scope is wanted.scope:
                yield from callers(program, Definition(module, scope))
            yield from ((module, site) for site in _super_calls(program, module, scope, wanted))


def _super_calls(program: Program, module: Module, owner: Scope, wanted: Definition) -> Iterator[Site]:
    """The calls of `super().__init__` in the `__init__` of a class whose nearest base with one is that of `wanted`."""
    own = module.definitions.get(f"{owner.name}.__init__")
    bases = owner.node.bases if isinstance(owner.node, ast.ClassDef) else []
    names = (f"{name}.__init__" for base in bases for name in qualified(module, base, owner.parent or owner))
    above = next((found for name in names if (found := definition(program, module, name)) is not None), None)
    if own is None or above is None or above.scope is not wanted.scope:
        return
    for site in own.sites:
        function = site.node.func if isinstance(site.node, ast.Call) else None
        if isinstance(function, ast.Attribute) and function.attr == "__init__" and _is_super(function.value):
            yield site


def _is_super(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"


def _has_method(module: Module, name: str) -> int:
    """How many classes of a module define a method of this name."""
    methods = (scope for key, scope in module.definitions.items() if key.endswith(f".{name}"))
    return sum(scope.parent is not None and isinstance(scope.parent.node, ast.ClassDef) for scope in methods)


def _calls(program: Program, module: Module, site: Site, wanted: Definition, loose: bool) -> bool:
    names = qualified(module, site.node.func, site.scope) if isinstance(site.node, ast.Call) else ()
    if not names:
        return loose and may_call(program, module, site, wanted)
    found = (definition(program, module, name) for name in names)
    return any(item is not None and item.scope is wanted.scope for item in found)
