"""The parser of Megatron that lies in the tree of a program: which of Megatron's flags it does not take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dtlint.frameworks import Claim, Reading
from dtlint.runs.tree import Tree
from dtlint.source import Source, Unreadable
from dtlint.value import default

if TYPE_CHECKING:
    from dtlint.languages.python.tree import Argument

PARSER_FILES = ("megatron/training/arguments.py", "megatron/arguments.py")
"""Where Megatron's parser lies: since core_v0.6, and before."""

PARSER = "program-parser"
"""The layer of a parser of Megatron in the tree."""
_OF_EVERY_RELEASE = (
    frozenset(("--num-layers",)),
    frozenset(("--tensor-model-parallel-size", "--model-parallel-size")),
    frozenset(("--micro-batch-size", "--batch-size")),
)
"""Flags by which a file is told to be Megatron's parser, the newer and the older name of each."""
_OF_PIPELINES = frozenset(("--pipeline-model-parallel-size", "--no-pipeline-parallel", "--pipe-parallel-size"))
"""Flags of which a parser has one at least where its program can build a pipeline."""

_FROM_CLASSES = "ArgumentGroupFactory"
"""What makes flags of the fields of classes in newer releases (megatron/training/argument_utils.py): the calls of
`add_argument` are no longer all that the parser takes.
"""


def parser_reading(tree: Tree, folders: Sequence[Path], readings: Sequence[Reading]) -> list[Reading]:
    """The flags of Megatron that the parser of the run does not take, if the run has Megatron's arguments and the
    parser lies in the folders of script and program or above them.
    """
    if not any(reading.layer == "megatron-arguments" and not reading.frontend for reading in readings):
        return []
    source = parser_of(tree, folders)
    if source is None or _FROM_CLASSES in source.text:
        return []
    from dtlint.frameworks.megatron.known import training_names
    from dtlint.runs.programs import module_in

    arguments = tuple(module_in(tree, source).arguments.values())
    own = frozenset(flag for argument in arguments for flag in argument.flags)
    if any(own.isdisjoint(names) for names in _OF_EVERY_RELEASE):
        return []
    more = [reading.declares for reading in readings]
    refused = frozenset(training_names()).difference(own, *more)
    claims = tuple(_without_pipeline(own.union(*more)))
    return [Reading(PARSER, None, claims, refuses=refused, declares=own, types=types_of(arguments))]


def _without_pipeline(flags: frozenset[str]) -> Iterator[Claim]:
    """That the program builds no pipeline, be it of one stage, where its parser has no flag that speaks of one."""
    if flags.isdisjoint(_OF_PIPELINES):
        yield Claim("parallel.pipeline_engine", default(False, "the parser in the tree"))


def types_of(arguments: Iterable[Argument]) -> dict[str, str]:
    """The types of a parser's flags as `Reading.types` has them."""
    return {flag: _type(argument) for argument in arguments for flag in argument.flags}


def _type(argument: Argument) -> str:
    return argument.kind if argument.action == "store" else "flag"


def parser_of(tree: Tree, folders: Sequence[Path]) -> Source | None:
    """The file of Megatron's parser that lies in one of the folders, or above it."""
    return next(_parsers(tree, folders), None)


def _parsers(tree: Tree, folders: Sequence[Path]) -> Iterator[Source]:
    for folder in folders:
        for path in PARSER_FILES:
            file = tree.find(path, folder)
            try:
                if file is not None:
                    yield tree.source(file)
            except Unreadable:
                continue
