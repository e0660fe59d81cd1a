"""Several Python files as one program: which definition a qualified name means, and who calls it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping

from dtlint.languages.python.memo import Definition as Definition
from dtlint.languages.python.memo import Found, Memo, Shared
from dtlint.languages.python.names import qualified
from dtlint.languages.python.tree import HERE, Argument, Module, Scope, Site
from dtlint.record import NamedTuple
from dtlint.source import Source
from dtlint.value import Setting

MAX_MODULES = 60
"""Most files that are followed from one entry script."""
MAX_CHARACTERS = 8_000_000
"""Most text that is read from one entry script on."""
_MAX_REEXPORTS = 5


class Program(NamedTuple):
    """The modules of a training program by dotted name; `entry` is the script that is launched.

    `given` are the values of the script's command-line arguments as the launch passes them (by destination name);
    None when no launch is known, so that argparse defaults are only assumed. `arguments` are all that its modules
    declare, the entry script's first. `open` is whether the launch may pass more than was read (`$MORE_ARGS`).
    """

    modules: Mapping[str, Module]
    entry: str
    given: Mapping[str, Setting] | None
    arguments: Mapping[str, Argument]
    open: bool
    memo: Memo

    @property
    def main(self) -> Module:
        """The entry script."""
        return self.modules[self.entry]


def link_modules(modules: Mapping[str, Module], entry: str = "", given: Mapping[str, Setting] | None = None) -> Program:
    """A program of modules by dotted name or path (`pkg/train.py`); the first is the entry unless `entry` is given."""
    named = {dotted_name(key): module._replace(name=dotted_name(key)) for key, module in modules.items()}
    return joined(named, dotted_name(entry) if entry else next(iter(named)), given, Shared())


def joined(modules: Mapping[str, Module], entry: str, given: Mapping[str, Setting] | None, shared: Shared) -> Program:
    """A program of modules that have their names already; `shared` is what other programs of the tree have found."""
    declared = dict(modules[entry].arguments)
    for module in modules.values():
        for name, argument in module.arguments.items():
            declared.setdefault(name, argument)
    return Program(modules, entry, given, declared, False, Memo(shared))


def dotted_name(key: str) -> str:
    """The module name of a path below the root (`pkg/__init__.py` is `pkg`); a dotted name stays as it is."""
    if not key.endswith(".py"):
        return key
    parts = [part for part in key[:-3].split("/") if part not in ("", ".", "..")]
    return ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)


def follow_imports(
    entry: Source, find: Callable[[str], Source | None], read: Callable[[Source, str], Module]
) -> Mapping[str, Module]:
    """The entry script as `__main__` and, breadth first, the modules that it imports; `read` gives a file its name.

    It ends at MAX_MODULES files or MAX_CHARACTERS in all; the modules that are left out are as if outside the tree.
    """
    modules = {"__main__": read(entry, "__main__")}
    waiting = [(modules["__main__"].package, name) for name in modules["__main__"].imports]
    tried: set[str] = set()
    left = MAX_CHARACTERS - len(entry.text)
    while waiting and len(modules) < MAX_MODULES and left > 0:
        target = absolute(*waiting.pop(0))
        source = find(target) if target not in tried else None
        tried.add(target)
        if source is not None:
            left -= len(source.text)
            modules[target] = module = read(source, target)
            waiting.extend((module.package, name) for name in module.imports)
    return modules


def absolute(package: str, name: str) -> str:
    """A relative module name (`.utils`) as seen from a package (`pkg`) made absolute (`pkg.utils`)."""
    bare = name.lstrip(".")
    level = len(name) - len(bare)
    if not level:
        return name
    parts = package.split(".") if package else []
    base = parts[: len(parts) - level + 1]
    return ".".join([*base, bare] if bare else base)


def definition(program: Program, module: Module, name: str) -> Definition | None:
    """The function or class that a qualified name, seen from `module`, means, if a file of the program defines it."""
    key = (module.name, name)
    if key not in program.memo.definitions:
        found = _located(program, module, name)
        program.memo.definitions[key] = None if found is None else _lookup(program, *found, depth=0)
    known = program.memo.definitions[key]
    program.memo.note("definition", module, name, None if known is None else (known.module.name, known.scope))
    return known


def locate(program: Program, module: Module, name: str) -> tuple[Module, str] | None:
    """The module of the program that a qualified name leads into, and what remains of the name there."""
    found = _located(program, module, name)
    program.memo.note("location", module, name, _as_said(found))
    return found


def _as_said(found: tuple[Module, str] | None) -> tuple[str, Scope, str] | None:
    """A place in a module as another program's is compared with it."""
    return None if found is None else (found[0].name, found[0].top, found[1])


def _located(program: Program, module: Module, name: str) -> tuple[Module, str] | None:
    if name.startswith(f"{HERE}."):
        return module, name[len(HERE) + 1 :]
    key = (module.name, name)
    if key not in program.memo.located:
        program.memo.located[key] = _searched(program, module, name)
    return program.memo.located[key]


def _searched(program: Program, module: Module, name: str) -> tuple[Module, str] | None:
    parts = absolute(module.package, name).split(".")
    folders: tuple[list[str], ...] = ([], module.name.split(".")[:-1], program.entry.split(".")[:-1])
    for length in range(len(parts), 0, -1):
        for prefix in ([*folder, *parts[:length]] for folder in folders):
            holder = program.modules.get(".".join(prefix))
            if holder is not None:
                return holder, ".".join(parts[length:])
    return None


def _lookup(program: Program, module: Module, name: str, depth: int) -> Definition | None:
    if name in module.definitions:
        return Definition(module, module.definitions[name])
    if depth > _MAX_REEXPORTS or not name:
        return None
    for holder, target in (*_inherited(module, name), *_reexported(module, name)):
        found = _located(program, holder, target)
        if found is not None and found != (module, name):
            inner = _lookup(program, *found, depth + 1)
            if inner is not None:
                return inner
    return None


def _inherited(module: Module, name: str) -> Iterator[tuple[Module, str]]:
    """`Class.method` as the same method of each base class."""
    owner, _, method = name.rpartition(".")
    scope = module.definitions.get(owner)
    if scope is not None and isinstance(scope.node, ast.ClassDef):
        for base in scope.node.bases:
            for qualified_base in qualified(module, base, scope.parent or scope):
                yield module, f"{qualified_base}.{method}"


def _reexported(module: Module, name: str) -> Iterator[tuple[Module, str]]:
    """A name that the module imports, also with `*`, and so hands on."""
    head, _, tail = name.partition(".")
    for binding in module.top.bindings.get(head, []):
        if binding.kind == "import":
            yield module, f"{binding.target}.{tail}" if tail else binding.target
    if head not in module.top.bindings:
        yield from ((module, f"{star}.{name}") for star in module.stars)


def binding_module(program: Program, module: Module, name: str) -> tuple[Module, str] | None:
    """The module that binds an imported name at its top level, through `import *`, and the name there."""
    found = _binding_module(program, module, name)
    program.memo.note("binding", module, name, _as_said(found))
    return found


def _binding_module(program: Program, module: Module, name: str) -> tuple[Module, str] | None:
    for _ in range(_MAX_REEXPORTS):
        found = _located(program, module, name)
        if found is None or not found[1] or found[1] in found[0].top.bindings:
            return found
        module, rest = found
        stars = ((module, f"{star}.{rest}") for star in module.stars)
        name = next((target for holder, target in stars if _binds(program, holder, target)), "")
        if not name:
            return found
    return None


def _binds(program: Program, module: Module, name: str) -> bool:
    found = _located(program, module, name)
    return found is not None and (found[1] in found[0].top.bindings or bool(found[0].stars))


def with_given(program: Program, given: Mapping[str, Setting], more: bool) -> Program:
    """The program as a launch starts it that passes these values, and maybe `more`."""
    return program._replace(given=given, open=more, memo=Memo(of_files=program.memo))


def declared_argument(program: Program, name: str) -> Argument | None:
    """The command-line argument of this destination name that the program declares, None if it declares none."""
    found = program.arguments.get(name)
    program.memo.note("argument", None, name, found)
    return found


def given_argument(program: Program, name: str) -> tuple[Setting | None, bool]:
    """What the launch passes for an argument, None if nothing, and whether that is certain."""
    given = program.given
    found = (given.get(name) if given is not None else None), given is not None and not program.open
    program.memo.note("given", None, name, found)
    return found


def is_entry(program: Program, module: Module) -> bool:
    """Whether a module is the script that is launched."""
    found = module.name == program.entry
    program.memo.note("entry", module, None, found)
    return found


def all_modules(program: Program) -> Mapping[str, Module]:
    """All files of the program, for questions that look at each of them."""
    program.memo.note("modules", None, None, program.modules)
    return program.modules


def imports_from(program: Program, package: str) -> bool:
    """Whether a file of the program imports from a package whose name begins so."""
    if package not in program.memo.packages:
        names = (name for module in program.modules.values() for name in module.imports)
        program.memo.packages[package] = any(name.partition(".")[0].startswith(package) for name in names)
    found = program.memo.packages[package]
    program.memo.note("package", None, package, found)
    return found


def called_by_name(program: Program, name: str) -> tuple[tuple[Module, Site], ...]:
    """The calls of functions of this name in all modules, file by file."""
    if name not in program.memo.sites:
        program.memo.sites[name] = tuple(
            (module, site) for module in program.modules.values() for site in module.called.get(name, ())
        )
    return program.memo.sites[name]


def callers(program: Program, wanted: Definition) -> tuple[tuple[Module, Site], ...]:
    """Every call of a function in the program, with the module that it stands in; a class's construction calls its
    `__init__`.

    A method called on an object of unknown class counts if no other class of the program has a method of that name.
    """
    if wanted.scope not in program.memo.callers:
        program.memo.callers[wanted.scope] = _unnoted(program, lambda: tuple(_callers(program, wanted)))
    found = program.memo.callers[wanted.scope]
    said = tuple((module.name, site.node) for module, site in found)
    program.memo.note("callers", wanted.module, wanted.scope, said)
    return found


def _unnoted(program: Program, find: Callable[[], Found]) -> Found:
    """What `find` finds, without a note of what it asks: the answer as a whole is noted."""
    noting, program.memo.questions = program.memo.questions, None
    try:
        return find()
    finally:
        program.memo.questions = noting


def _callers(program: Program, wanted: Definition) -> Iterator[tuple[Module, Site]]:
    last = wanted.scope.name.rpartition(".")[2]
    owner = wanted.scope.parent
    if owner is not None and isinstance(owner.node, ast.ClassDef):
        if last == "__init__":
            yield from callers(program, Definition(wanted.module, owner))
            return
        loose = sum(_has_method(module, last) for module in program.modules.values()) == 1
    else:
        loose = False
    for module, site in called_by_name(program, last):
        if _calls(program, module, site, wanted, loose):
            yield module, site


def _has_method(module: Module, name: str) -> int:
    """How many classes of a module define a method of this name."""
    methods = (scope for key, scope in module.definitions.items() if key.endswith(f".{name}"))
    return sum(scope.parent is not None and isinstance(scope.parent.node, ast.ClassDef) for scope in methods)


def _calls(program: Program, module: Module, site: Site, wanted: Definition, loose: bool) -> bool:
    names = qualified(module, site.node.func, site.scope) if isinstance(site.node, ast.Call) else ()
    if not names:
        return loose
    found = (definition(program, module, name) for name in names)
    return any(item is not None and item.scope is wanted.scope for item in found)


def sites(module: Module) -> Iterator[Site]:
    """Every site of a module, scope by scope."""
    for scope in module.scopes:
        yield from scope.sites
