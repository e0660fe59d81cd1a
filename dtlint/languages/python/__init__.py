"""Values and calls out of Python training scripts, through names, helper functions and files. Nothing is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dtlint.languages.json_tree import Node
from dtlint.languages.python.arguments import dotted_words, numbered_words, parse_words, with_arguments
from dtlint.languages.python.imported import follow_imports
from dtlint.languages.python.memo import Files, Shared
from dtlint.languages.python.program import Program, joined, link_modules
from dtlint.languages.python.reading import parse_module
from dtlint.languages.python.tree import Module
from dtlint.languages.traced import Word
from dtlint.source import Source
from dtlint.value import Setting

__all__ = (
    "MARKERS",
    "Module",
    "Program",
    "Shared",
    "command_line",
    "follow",
    "imported_modules",
    "link",
    "marker",
    "read_module",
)

MARKERS = (
    b"torch.distributed",
    b"FullyShardedDataParallel",
    b"fully_shard",
    b"DataParallel",
    b"init_device_mesh",
    b"all_reduce",
    b"deepspeed",
    b"accelerate",
    b"Trainer",
    b"TrainingArguments",
    b"add_argument",
    b"pytorch_lightning",
    b"lightning",
    b"megatron",
    b"nemo",
)
"""Words of which a Python file that matters for a training run holds at least one."""


def marker(data: bytes) -> bool:
    """Whether the bytes of a .py file hold a word that makes it worth parsing."""
    return any(word in data for word in MARKERS)


def read_module(source: Source) -> Module:
    """Read one file: scopes, calls, and the command-line arguments it declares. A syntax error is in `problems`."""
    return with_arguments(parse_module(source))


def imported_modules(module: Module) -> tuple[str, ...]:
    """The dotted names that a module imports, as written (`.utils`); for `from a import b` both `a` and `a.b`."""
    return module.imports


def link(modules: Mapping[str, Module], entry: str = "", given: Mapping[str, Setting] | None = None) -> Program:
    """One program of several modules by dotted name or path; `given` is what `command_line` reads."""
    return link_modules(modules, entry, given)


def follow(
    entry: Source,
    find: Callable[[str], Source | None],
    configs: Callable[[str], Node | None] | None = None,
    shared: Shared | None = None,
    name: str = "__main__",
) -> Program:
    """The program of an entry script: `find` gives the file of a dotted name, None for what lies outside the tree;
    `configs` the tree of a YAML or JSON file by the path that the program loads.

    `shared` is what the programs of one tree have found out about its files; it is added to. A module that is imported
    and not run has its dotted `name`, from which relative imports lead on.
    """
    known = shared or Shared()
    modules, late = follow_imports(entry, find, lambda source, dotted: known.module(source, dotted, read_module), name)
    return joined(modules, name, None, Files(known, late, configs))


def command_line(program: Program, words: tuple[Word, ...]) -> dict[str, Setting]:
    """What the words after the script give the program: its command-line arguments by destination name, and the keys
    of the config that it loads, with `=` behind each (`trainer.devices=`), and the words by their number
    (`sys.argv[1]`).
    """
    return {**numbered_words(words), **dotted_words(words), **parse_words(program.arguments, words)}
