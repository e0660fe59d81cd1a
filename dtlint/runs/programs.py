"""The Python side of a run: the script that a launch names, and the modules of the tree that it imports."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path, PurePath

from dtlint.frameworks import Reading
from dtlint.frameworks.nemo.spelling import NEMO_MARKS
from dtlint.languages.json_tree import Document, Node
from dtlint.languages.python import Module, Shared, command_line, follow, marker, read_module
from dtlint.languages.python.arguments import may_hide, positional
from dtlint.languages.python.invalid import is_invalid
from dtlint.languages.python.program import Program, with_given
from dtlint.languages.python.sharing import kept
from dtlint.languages.traced import Word
from dtlint.record import NamedTuple
from dtlint.runs.model import NO_PYTHON, OWN_FILES, OWN_PARSER, PYTHON
from dtlint.runs.parsers import types_of
from dtlint.runs.tree import Tree
from dtlint.source import Problem, Source, Unreadable

_LOADS = re.compile(r"\b(?:yaml|json|toml|tomllib|OmegaConf)\.(?:safe_load|full_load|unsafe_load|load)\(")
_FRONT_ENDS = (
    "transformers",
    "trl",
    "accelerate",
    "lightning",
    "pytorch_lightning",
    "swift",
    "llamafactory",
    "axolotl",
)
_ARGUMENTS = re.compile(r"HfArgumentParser|TrlParser|TrainingArguments|Trainer\b")
"""Words of what a front end's packages have for its arguments."""
_BORROWED = ("HfArgumentParser", "TrlParser", "TrainingArguments", "transformers.Trainer")
"""Words of programs that have a front end's arguments from wherever."""
PARSERS = ("megatron", "nemo", "mindspeed")
"""Packages whose parser a program may take over: Megatron-LM and what is built on it."""

LAYERS = "mpu"
"""The package of Megatron's parallel layers, which early releases have beside their parser: where the tree has it, its
modules tell whether they have one.
"""

WITHOUT_PARSER = ("megatron.core", "megatron.bridge", "megatron.energon")
"""Packages of Megatron that are called as libraries and read no command line."""


Started = tuple[Source, tuple[Word, ...] | None]
"""A program as it is started: its script, and the words that it is passed, None without a launch."""


class Told(NamedTuple):
    """What reading a program tells: why it could not be read, and readings, each with the file that it is from."""

    problems: tuple[Problem, ...]
    readings: list[tuple[Source, Reading]]


def read_program(program: Started, tree: Tree) -> Told:
    """What a program tells."""
    entry, words = program
    return Told(program_problems(entry, tree), program_readings(entry, tree, words))


def is_read(entry: Source) -> bool:
    """Whether a script says anything of training; what others import is not asked."""
    return marker(entry.text.encode("utf-8", errors="replace"))


def program_readings(entry: Source, tree: Tree, words: tuple[Word, ...] | None) -> list[tuple[Source, Reading]]:
    """What the script and what it imports from the tree say about the plan, each with the file that it is from.

    `words` are the script's arguments as the launch passes them, None without a launch.
    """
    from dtlint.frameworks import (
        environment_python,
        frozen_python,
        lenient_parser,
        strict_parser,
        unfrozen_python,
        unrecomputed_python,
    )
    from dtlint.frameworks.accelerate import fsdp_plugin
    from dtlint.frameworks.accelerate import program as accelerator_python
    from dtlint.frameworks.code import own_loop, trainer_states
    from dtlint.frameworks.colossalai import program as colossalai
    from dtlint.frameworks.deepspeed import experts as deepspeed_experts
    from dtlint.frameworks.deepspeed import pipelines as deepspeed_pipelines
    from dtlint.frameworks.deepspeed import program as deepspeed_python
    from dtlint.frameworks.lightning import program as lightning_python
    from dtlint.frameworks.pytorch import ddp, fsdp, model_loading
    from dtlint.frameworks.pytorch import program as pytorch
    from dtlint.frameworks.transformers import assigned as transformers_assigned
    from dtlint.frameworks.transformers import declared as transformers_declared
    from dtlint.frameworks.transformers import parser as transformers_parser
    from dtlint.frameworks.transformers import program as transformers_python
    from dtlint.frameworks.transformers import wrapped_models

    if not is_read(entry):
        return [(entry, Reading("program"))]
    program = _with_words(program_of(entry, tree), words)
    readings = [
        kept(program, (reader.__name__, program.entry, program.main.top), partial(reader.read, program))
        for reader in (
            deepspeed_python,
            deepspeed_pipelines,
            deepspeed_experts,
            fsdp,
            ddp,
            pytorch,
            transformers_python,
            accelerator_python,
            colossalai,
        )
    ]
    if any(reading.framework or reading.frontend for reading in readings):
        loop = (own_loop.__name__, program.entry, program.main.top)
        readings.append(kept(program, loop, partial(own_loop.read, program)))
    readings.extend((transformers_declared.read(program), model_loading.read(program), frozen_python.read(program)))
    readings.append(unfrozen_python.read(program))
    readings.append(trainer_states.read(program))
    readings.extend((fsdp_plugin.read(program), fsdp_plugin.read_unasked(program)))
    readings.extend((lightning_python.read(program), environment_python.read(program), _declared(program)))
    readings += [Reading(OWN_FILES)] if _loads_settings(program) else []
    readings.append(unrecomputed_python.read(program))
    if any(mark in entry.text for mark in NEMO_MARKS):
        from dtlint.frameworks.nemo import program as nemo_python

        readings.append(nemo_python.read(program, words or ()))
    if "initialize_model_parallel" in entry.text:
        from dtlint.frameworks.megatron import program as megatron_python

        readings.append(megatron_python.read(program))
    readings.append(wrapped_models.read(program))
    readings.extend((*transformers_assigned.read(program), strict_parser.read(program), lenient_parser.read(program)))
    parser = transformers_parser.read(program)
    readings.extend((parser, transformers_parser.read_line(program, words or (), parser)))
    return [(reading.place.source if reading.place is not None else entry, reading) for reading in readings]


def _declared(program: Program) -> Reading:
    types = types_of(program.arguments.values())
    borrows = any(_brings_parser(program, name) for module in program.modules.values() for name in module.imports)
    return Reading("program-arguments" if borrows else OWN_PARSER, declares=frozenset(types), types=types)


def _loads_settings(program: Program) -> bool:
    """Whether a program loads files of settings itself, and takes nothing from a front end that has arguments."""
    modules = program.modules.values()
    if any(_is_of_front_end(name) for module in modules for name in module.imports):
        return False
    texts = [module.source.text for module in modules]
    return any(map(_LOADS.search, texts)) and not any(word in text for text in texts for word in _BORROWED)


def _is_of_front_end(name: str) -> bool:
    package = name.partition(".")[0]
    return package in _FRONT_ENDS and (package != "transformers" or bool(_ARGUMENTS.search(name)))


def _brings_parser(program: Program, name: str) -> bool:
    """Whether a module that a program imports may read its command line; a file of the program that is only named like
    Megatron is judged by what it imports itself.
    """
    package = name.split(".")[0]
    if any(f"{name}.".startswith(f"{library}.") for library in WITHOUT_PARSER):
        return False
    return package in PARSERS or (package.startswith((*PARSERS, LAYERS)) and package not in program.modules)


def program_problems(entry: Source, tree: Tree) -> tuple[Problem, ...]:
    """Why nothing of a script could be read. Another release of Python may take it, so that no problem is fatal; the
    loader tells which ones none takes.
    """
    if not is_read(entry):
        return ()
    problems = module_in(tree, entry).problems
    return tuple(
        problem._replace(fatal=False, loader=NO_PYTHON if is_invalid(problem) else PYTHON) for problem in problems
    )


def program_of(entry: Source, tree: Tree) -> Program:
    """The program of a script, which several launches may start, or of a module of configs."""
    return _known(entry, tree, "__main__")


def module_of(entry: Source, tree: Tree) -> Program:
    """The program of a module that a command line names as it is imported, from the root on."""
    name = tree.within(entry).removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return _known(entry, tree, name)


def _known(entry: Source, tree: Tree, name: str) -> Program:
    from dtlint.frameworks.transformers.parser import FILE_PARSERS

    shared = _shared(tree)
    known = shared.programs.get((entry, name))
    if known is None:
        shared.forget_older()
        program = follow(entry, module_finder(entry, tree), config_finder(entry, tree), shared, name)
        known = shared.programs.keep((entry, name), program._replace(file_parsers=FILE_PARSERS))
    return known


def module_in(tree: Tree, source: Source) -> Module:
    """A file by itself."""
    return _shared(tree).module(source, "", read_module)


def _shared(tree: Tree) -> Shared:
    """What was found out about the Python files of a tree, begun by the first that asks."""
    if tree.python is None:
        tree.python = Shared()
    return tree.python


def _with_words(program: Program, words: tuple[Word, ...] | None) -> Program:
    if words is None:
        return program
    from dtlint.frameworks.transformers.files import starts_with_file

    of_file = starts_with_file(words) and not positional(program.arguments)
    is_open = of_file or may_hide(program.arguments, words)
    return with_given(program, command_line(program, words), is_open)


def config_finder(entry: Source, tree: Tree) -> Callable[[str], Node | None]:
    """Reads YAML, JSON and TOML files from the script's folder, the folders above it, or the root."""
    folder = entry.file.parent if entry.file is not None else tree.current
    known: dict[str, Node | None] = {}

    def find(path: str) -> Node | None:
        if path not in known:
            file = tree.find(path, folder)
            known[path] = _config(tree, file) if file is not None else None
        return known[path]

    return find


def _config(tree: Tree, file: Path) -> Node | None:
    if file.suffix not in _READERS:
        return None
    try:
        source = tree.source(file)
    except Unreadable:
        return None
    return _shared(tree).config(source, _config_tree)


def _config_tree(source: Source) -> Node | None:
    return _READERS[PurePath(source.path).suffix](source).root


def _read_yaml(source: Source) -> Document:
    from dtlint.languages.yaml import read_yaml

    return read_yaml(source)


def _read_json(source: Source) -> Document:
    from dtlint.languages.json import read_json

    return read_json(source)


def _read_toml(source: Source) -> Document:
    from dtlint.languages.toml import read_toml

    return read_toml(source)


_READERS: Mapping[str, Callable[[Source], Document]] = {
    ".yaml": _read_yaml,
    ".yml": _read_yaml,
    ".json": _read_json,
    ".toml": _read_toml,
}
"""How the config files that a program loads are read, by their endings."""


def module_finder(entry: Source, tree: Tree) -> Callable[[str], Source | None]:
    """Finds modules from the script's folder and the folders above it."""
    folder = entry.file.parent if entry.file is not None else tree.current

    def find(name: str) -> Source | None:
        path = name.replace(".", "/")
        for candidate in (f"{path}.py", f"{path}/__init__.py"):
            file = tree.find(candidate, folder)
            if file is None:
                continue
            try:
                return tree.source(file)
            except Unreadable:
                return None
        return None

    return find
