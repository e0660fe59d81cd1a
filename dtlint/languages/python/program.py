"""Several Python files as one program: which definition a qualified name means, and who calls it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping

from dtlint.languages.json_tree import Node
from dtlint.languages.python.names import qualified
from dtlint.languages.python.tree import HERE, Argument, Module, Scope, Site
from dtlint.record import NamedTuple
from dtlint.source import Source
from dtlint.value import Setting

MAX_MODULES = 60
"""Most files that are followed from one entry script."""
MAX_CHARACTERS = 8_000_000
"""Most text that is read from one entry script on."""
MAX_LATE = 60
"""Most files that are read later, because a name leads into them."""
_MAX_REEXPORTS = 5


class Late:
    """Modules that a program imports beyond MAX_MODULES: each is read when a name leads into it."""

    __slots__ = ("find", "modules", "read", "waiting")

    def __init__(self, find: Callable[[str], Source | None], read: Callable[[Source], Module]) -> None:
        self.find = find
        self.read = read
        self.modules: dict[str, Module | None] = {}
        self.waiting: set[str] = set()

    def wait_for(self, module: Module) -> None:
        """Let the imports of a module be read when they are asked for."""
        self.waiting.update(absolute(module.package, name) for name in module.imports)

    def module(self, name: str) -> Module | None:
        """The module of a dotted name, if it was left out and lies in the tree."""
        if name in self.waiting and name not in self.modules and len(self.modules) < MAX_LATE:
            source = self.find(name)
            self.modules[name] = found = None if source is None else self.read(source)._replace(name=name)
            if found is not None:
                self.wait_for(found)
        return self.modules.get(name)


class Memo:
    """What has been found out about one program: definitions by module and name, calls of functions, and, as far as
    the values that a launch gives allow, reachable places.
    """

    __slots__ = ("callers", "configs", "definitions", "handed_over", "late", "reaches")

    def __init__(
        self,
        of_files: Memo | None = None,
        late: Late | None = None,
        configs: Callable[[str], Node | None] | None = None,
    ) -> None:
        """`of_files`: what the same files told before; what a launch gives is left behind. `configs` gives the tree of
        a config file by its path as the program names it.
        """
        self.configs: Callable[[str], Node | None] | None = configs if of_files is None else of_files.configs
        self.late: Late | None = late if of_files is None else of_files.late
        self.callers: dict[Scope, tuple[tuple[Module, Site], ...]] = {} if of_files is None else of_files.callers
        self.handed_over: dict[Scope, tuple[tuple[Module, Site], ...]] = (
            {} if of_files is None else of_files.handed_over
        )
        self.definitions: dict[tuple[str, str], Definition | None] = {} if of_files is None else of_files.definitions
        self.reaches: dict[tuple[object, ...], object] = {}


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


class Definition(NamedTuple):
    """A function or class and the module that defines it."""

    module: Module
    scope: Scope


def link_modules(
    modules: Mapping[str, Module],
    entry: str = "",
    given: Mapping[str, Setting] | None = None,
    late: Late | None = None,
    configs: Callable[[str], Node | None] | None = None,
) -> Program:
    """A program of modules by dotted name or path (`pkg/train.py`); the first is the entry unless `entry` is given."""
    named = {dotted_name(key): module._replace(name=dotted_name(key)) for key, module in modules.items()}
    main = dotted_name(entry) if entry else next(iter(named))
    declared = dict(named[main].arguments)
    for module in named.values():
        for name, argument in module.arguments.items():
            declared.setdefault(name, argument)
    return Program(named, main, given, declared, False, Memo(late=late, configs=configs))


def dotted_name(key: str) -> str:
    """The module name of a path below the root (`pkg/__init__.py` is `pkg`); a dotted name stays as it is."""
    if not key.endswith(".py"):
        return key
    parts = [part for part in key[:-3].split("/") if part not in ("", ".", "..")]
    return ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)


def follow_imports(
    entry: Source, find: Callable[[str], Source | None], read: Callable[[Source], Module], name: str = "__main__"
) -> tuple[Mapping[str, Module], Late]:
    """The entry script under its `name` and, breadth first, the modules that it imports; those that are left out, when
    MAX_MODULES files or MAX_CHARACTERS in all are reached, are read when a name leads into them.
    """
    modules = {name: read(entry)._replace(name=name)}
    waiting = [(modules[name].package, each) for each in modules[name].imports]
    tried: set[str] = set()
    left = MAX_CHARACTERS - len(entry.text)
    while waiting and len(modules) < MAX_MODULES and left > 0:
        target = absolute(*waiting.pop(0))
        source = find(target) if target and target not in tried else None
        tried.add(target)
        if source is not None:
            left -= len(source.text)
            modules[target] = module = read(source)._replace(name=target)
            waiting.extend((module.package, name) for name in module.imports)
    late = Late(find, read)
    late.waiting.update(target for item in waiting if (target := absolute(*item)) not in tried)
    return modules, late


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
        found = locate(program, module, name)
        program.memo.definitions[key] = None if found is None else _lookup(program, *found, depth=0)
    return program.memo.definitions[key]


def locate(program: Program, module: Module, name: str) -> tuple[Module, str] | None:
    """The module of the program that a qualified name leads into, and what remains of the name there."""
    if name.startswith(f"{HERE}."):
        return module, name[len(HERE) + 1 :]
    parts = absolute(module.package, name).split(".")
    folders: tuple[list[str], ...] = ([], module.name.split(".")[:-1], program.entry.split(".")[:-1])
    for length in range(len(parts), 0, -1):
        for prefix in ([*folder, *parts[:length]] for folder in folders):
            holder = module_named(program, ".".join(prefix))
            if holder is not None:
                return holder, ".".join(parts[length:])
    return None


def module_named(program: Program, name: str) -> Module | None:
    """The module of a dotted name, if it lies in the tree."""
    found = program.modules.get(name)
    if found is not None or program.memo.late is None:
        return found
    return program.memo.late.module(name)


def _lookup(program: Program, module: Module, name: str, depth: int) -> Definition | None:
    if name in module.definitions:
        return Definition(module, module.definitions[name])
    if depth > _MAX_REEXPORTS or not name:
        return None
    for holder, target in (*_inherited(module, name), *_reexported(module, name)):
        found = locate(program, holder, target)
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
    for _ in range(_MAX_REEXPORTS):
        found = locate(program, module, name)
        if found is None or not found[1] or found[1] in found[0].top.bindings:
            return found
        module, rest = found
        stars = ((module, f"{star}.{rest}") for star in module.stars)
        name = next((target for holder, target in stars if _binds(program, holder, target)), "")
        if not name:
            return found
    return None


def _binds(program: Program, module: Module, name: str) -> bool:
    found = locate(program, module, name)
    return found is not None and (found[1] in found[0].top.bindings or bool(found[0].stars))


def with_given(program: Program, given: Mapping[str, Setting], more: bool) -> Program:
    """The program as a launch starts it that passes these values, and maybe `more`."""
    return program._replace(given=given, open=more, memo=Memo(program.memo))


def callers(program: Program, wanted: Definition) -> tuple[tuple[Module, Site], ...]:
    """Every call of a function in the program, with the module that it stands in; a class's construction calls its
    `__init__`.

    A method called on an object of unknown class counts if no other class of the program has a method of that name.
    """
    if wanted.scope not in program.memo.callers:
        program.memo.callers[wanted.scope] = tuple(_callers(program, wanted))
    return program.memo.callers[wanted.scope]


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
    for module in program.modules.values():
        for site in module.called.get(last, ()):
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
