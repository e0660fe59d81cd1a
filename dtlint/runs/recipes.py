"""Config functions in Python: the one that a command line names, and those of a file that no launch names."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dtlint.frameworks import NamedFile, Reading
from dtlint.languages.traced import Word
from dtlint.runs.tree import Tree
from dtlint.source import Source


def launched_recipe(
    named: NamedFile, program: Sequence[Word], tree: Tree, resolve: Callable[[str], Source | None]
) -> tuple[Source | None, Reading]:
    """What the function of a module claims that a program's options name; without it what the options say."""
    from dtlint.frameworks.torchtitan import config as torchtitan
    from dtlint.frameworks.torchtitan import registry as torchtitan_registry
    from dtlint.runs.programs import module_of

    function, module = torchtitan.function_of(program), named.path.text
    name = function.text if function is not None else None
    paths = torchtitan_registry.module_files(module) if module and name else ()
    source = next((found for path in paths if (found := resolve(path)) is not None), None)
    reading = None if source is None else torchtitan_registry.read(module_of(source, tree), name or "", program)
    said = "no config function is named" if function is None else f"the config function {function.shown} was not found"
    return source, reading or torchtitan.without_config(program, said)


def named_recipe(
    named: NamedFile, program: Sequence[Word], tree: Tree, resolve: Callable[[str], Source | None]
) -> list[tuple[Source, Reading]]:
    """What a function says that an option names with its module (`recipes.llama:pretrain_config`), where it makes a
    config of Megatron-Bridge's.
    """
    from dtlint.frameworks.nemo.program import CONFIG, read_function
    from dtlint.runs.programs import module_of

    module, _, function = (named.path.text or "").partition(":")
    path = module.replace(".", "/")
    source = next((found for file in (f"{path}.py", f"{path}/__init__.py") if (found := resolve(file))), None)
    if source is None or CONFIG not in source.text:
        return []
    reading = read_function(module_of(source, tree), function, program)
    return [] if reading is None else [(source, reading)]


def functions_in(source: Source, tree: Tree) -> tuple[str, ...]:
    """The config functions of a file; () for one that has none."""
    from dtlint.frameworks.torchtitan.registry import MARK, functions
    from dtlint.runs.programs import module_in

    return functions(module_in(tree, source)) if MARK in source.text else ()


def recipe(source: Source, function: str, tree: Tree) -> list[tuple[Source, Reading]]:
    """What one of a file's config functions says, without a launch."""
    from dtlint.frameworks.torchtitan.registry import read
    from dtlint.runs.programs import module_of

    return [(source, read(module_of(source, tree), function) or Reading("program"))]
