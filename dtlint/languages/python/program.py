"""Several Python files as one program: which definition a qualified name means, and who calls it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import cast

from dtlint.languages.json_tree import Node
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.imported import absolute, dotted_name
from dtlint.languages.python.memo import Definition as Definition
from dtlint.languages.python.memo import Files, Found, Memo
from dtlint.languages.python.names import qualified
from dtlint.languages.python.tree import HERE, Argument, Module, Scope, Site
from dtlint.record import NamedTuple
from dtlint.source import Source
from dtlint.value import Setting

_MAX_REEXPORTS = 5


class Program(NamedTuple):
    """The modules of a training program by dotted name; `entry` is the script that is launched.

    `given` are the values of the script's command-line arguments as the launch passes them (by destination name);
    None when no launch is known, so that argparse defaults are only assumed. `arguments` are all that its modules
    declare, the entry script's first. `open` is whether the launch may pass more than was read (`$MORE_ARGS`).
    `file_parsers` are the methods by which arguments come from elsewhere than the command line.
    """

    modules: Mapping[str, Module]
    entry: str
    given: Mapping[str, Setting] | None
    arguments: Mapping[str, Argument]
    open: bool
    memo: Memo
    file_parsers: frozenset[str] = frozenset()

    @property
    def main(self) -> Module:
        """The entry script."""
        return self.modules[self.entry]


def link_modules(modules: Mapping[str, Module], entry: str = "", given: Mapping[str, Setting] | None = None) -> Program:
    """A program of modules by dotted name or path (`pkg/train.py`); the first is the entry unless `entry` is given."""
    named = {dotted_name(key): module._replace(name=dotted_name(key)) for key, module in modules.items()}
    return joined(named, dotted_name(entry) if entry else next(iter(named)), given, Files())


def joined(modules: Mapping[str, Module], entry: str, given: Mapping[str, Setting] | None, files: Files) -> Program:
    """A program of modules that have their names already; `files` has what other programs of the tree have found, and
    how more files are read.
    """
    declared = dict(modules[entry].arguments)
    for module in modules.values():
        for name, argument in module.arguments.items():
            declared.setdefault(name, argument)
    return Program(modules, entry, given, declared, False, Memo(files))


def definition(program: Program, module: Module, name: str) -> Definition | None:
    """The function or class that a qualified name, seen from `module`, means, if a file of the program defines it."""
    key = (module.name, name)
    if key not in program.memo.files.definitions:
        found = _located(program, module, name)
        program.memo.files.definitions[key] = None if found is None else _lookup(program, *found, set())
    known = program.memo.files.definitions[key]
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
    if key not in program.memo.files.located:
        program.memo.files.located[key] = _searched(program, module, name)
    return program.memo.files.located[key]


def _searched(program: Program, module: Module, name: str) -> tuple[Module, str] | None:
    parts = absolute(module.package, name).split(".")
    folders: tuple[list[str], ...] = ([], module.name.split(".")[:-1], program.entry.split(".")[:-1])
    for length in range(len(parts), 0, -1):
        for prefix in ([*folder, *parts[:length]] for folder in folders):
            holder = module_named(program, ".".join(prefix))
            if holder is not None:
                return holder, ".".join(parts[length:])
    return None


def module_named(program: Program, name: str) -> Module | None:
    """The module of a dotted name, if it lies in the tree; not a noted question, but a part of some."""
    found, late = program.modules.get(name), program.memo.files.late
    return late.module(name) if found is None and late is not None else found


def _lookup(program: Program, module: Module, name: str, seen: set[tuple[str, str]]) -> Definition | None:
    """The same; `seen` are the names by module that were looked up on the way: packages import all of each other.

    Where more is left of a name than was asked for, the module that it is imported from is not in the program.
    """
    if name in module.definitions:
        return Definition(module, module.definitions[name])
    if not name or (module.name, name) in seen:
        return None
    seen.add((module.name, name))
    for holder, target in (*_inherited(module, name), *_reexported(module, name)):
        found = _located(program, holder, target)
        if found is not None and found[1].count(".") <= name.count("."):
            inner = _lookup(program, *found, seen)
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


HYDRA_OPTIONS: Mapping[str, str] = {
    **dict.fromkeys(("--config-name", "--config_name", "-cn"), "config_name"),
    **dict.fromkeys(("--config-path", "--config_path", "-cp"), "config_path"),
}
"""Options of hydra's own, by the argument of `hydra.main` in whose stead they stand; what a launch passes by them is
given as `hydra:config_name`.
"""

WORDS = "sys.argv"
"""The list of the words that a program was started with; what the launch passes there is given by their numbers."""
COUNT = f"len({WORDS})"
"""How many words there are, as it is given where every one of them is known."""


def with_given(program: Program, given: Mapping[str, Setting], more: bool) -> Program:
    """The program as a launch starts it that passes these values, and maybe `more`."""
    return program._replace(given=given, open=more, memo=Memo(program.memo.files))


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


def given_below(program: Program, prefix: str) -> tuple[str, ...]:
    """The keys of a config that begin so and that the launch passes (`model.depth=`)."""
    found = tuple(name for name in program.given or () if name.startswith(prefix) and name.endswith("="))
    program.memo.note("given below", None, prefix, found)
    return found


def entry_script(program: Program) -> Module:
    """The script that is launched."""
    program.memo.note("script", None, None, program.main.top)
    return program.main


def is_entry(program: Program, module: Module) -> bool:
    """Whether a module is the script that is launched."""
    found = module.name == program.entry
    program.memo.note("entry", module, None, found)
    return found


def all_modules(program: Program) -> Mapping[str, Module]:
    """All files of the program, for questions that look at each of them."""
    program.memo.note("modules", None, None, program.modules)
    return program.modules


def holder_of(program: Program, source: Source) -> Module | None:
    """The module that a file is in the program, None if it is none of those that were followed."""
    found = next((module for module in program.modules.values() if module.source is source), None)
    program.memo.note("source", None, source, None if found is None else (found.name, found.top))
    return found


def subclasses(program: Program, name: str) -> tuple[Scope, ...]:
    """The classes of the program that name one of this last word among their bases."""
    files = program.memo.files
    if files.subclasses is None:
        files.subclasses = _by_base(program)
    found = files.subclasses.get(name, ())
    program.memo.note("subclasses", None, name, found)
    return found


def _by_base(program: Program) -> dict[str, tuple[Scope, ...]]:
    found: dict[str, tuple[Scope, ...]] = {}
    for module in program.modules.values():
        for scope in module.definitions.values():
            for base in scope.node.bases if isinstance(scope.node, ast.ClassDef) else ():
                word = dotted(base).rpartition(".")[2]
                found[word] = (*found.get(word, ()), scope)
    return found


def reads_configs(program: Program) -> bool:
    """Whether the config files that the program loads are at hand."""
    found = program.memo.files.configs is not None
    program.memo.note("configs", None, None, found)
    return found


def config_file(program: Program, path: str) -> Node | None:
    """The tree of a config file by the path that the program loads."""
    find = program.memo.files.configs
    found = find(path) if find is not None else None
    program.memo.note("config", None, path, found)
    return found


def imports_from(program: Program, package: str) -> bool:
    """Whether a file of the program imports from a package whose name begins so."""
    if package not in program.memo.files.packages:
        names = (name for module in program.modules.values() for name in module.imports)
        program.memo.files.packages[package] = any(name.partition(".")[0].startswith(package) for name in names)
    found = program.memo.files.packages[package]
    program.memo.note("package", None, package, found)
    return found


def unnoted(program: Program, find: Callable[[], Found]) -> Found:
    """What `find` finds, without a note of what it asks: the answer as a whole is noted."""
    noting, program.memo.questions = program.memo.questions, None
    try:
        return find()
    finally:
        program.memo.questions = noting


def of_file(program: Program, question: str, about: Hashable, find: Callable[[], Found]) -> Found:
    """What `find` finds about a file or a part of it, and rests on nothing else: found once for all programs."""
    known = program.memo.files.shared.of_files
    found = known.get((question, about)) or known.keep((question, about), (find(),))
    return cast("Found", found[0])


def sites(module: Module) -> Iterator[Site]:
    """Every site of a module, scope by scope."""
    for scope in module.scopes:
        yield from scope.sites
