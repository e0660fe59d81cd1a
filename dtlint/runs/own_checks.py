"""What a copy of a framework in the tree does not refuse, though its releases do: samples longer than the positions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dtlint.frameworks import Member, Reading
from dtlint.runs.parsers import parser_of
from dtlint.runs.tree import Tree
from dtlint.source import Source
from dtlint.value import Value

if TYPE_CHECKING:
    from dtlint.languages.python.tree import Module

LAYER = "tree-checks"
UNCHECKED = "model.unchecked_positions"
"""The collection of the parsers in the tree that take samples of any length."""
_LENGTH, _POSITIONS = "seq_length", "max_position_embeddings"
_OF_CLASSES, _OF_PARSER = "gpt-neox", "megatron-arguments"
"""The layers of those whose releases compare the two (EleutherAI/gpt-neox megatron/neox_arguments/arguments.py,
validate_values; NVIDIA/Megatron-LM megatron/training/arguments.py, validate_args).
"""
_FIELDS = frozenset((_LENGTH, _POSITIONS, "pipe_parallel_size", "model_parallel_size"))
"""Fields by which a file is told to declare what a config of GPT-NeoX may hold."""


def unchecked_positions(tree: Tree, folders: Sequence[Path], readings: Sequence[Reading]) -> list[Reading]:
    """The parser of the run in the tree, where a sample is longer than the positions and nothing there refuses that."""
    layers = {reading.layer for reading in readings} & {_OF_CLASSES, _OF_PARSER}
    if not layers or not _exceeds(readings):
        return []
    from dtlint.languages.python.refusing import stops_by_comparing

    modules = list(_speaking(tree))
    if any(stops_by_comparing(module, _LENGTH, _POSITIONS) for module in modules):
        return []
    parser = parser_of(tree, folders) if _OF_PARSER in layers else _declaring(modules)
    return [] if parser is None else [Reading(LAYER, collections={UNCHECKED: (Member(parser.span(0, 0), {}),)})]


def _exceeds(readings: Sequence[Reading]) -> bool:
    """Whether a length that is told is above a number of positions that is."""
    lengths, positions = (list(_numbers(readings, name)) for name in ("data.sequence_length", "model.max_positions"))
    return bool(lengths and positions) and max(lengths) > min(positions)


def _numbers(readings: Sequence[Reading], name: str) -> Iterator[int]:
    values = (claim.value for reading in readings for claim in reading.claims if claim.setting == name)
    yield from (value.value for value in values if isinstance(value, Value) and isinstance(value.value, int))


def _speaking(tree: Tree) -> Iterator[Module]:
    """The modules of the tree that name both."""
    from dtlint.runs.programs import module_in

    for source in tree.python_sources():
        words = (_LENGTH, _POSITIONS)
        if all(word in source.text or word.replace("_", "-") in source.text for word in words):
            yield module_in(tree, source)


def _declaring(modules: Sequence[Module]) -> Source | None:
    """The file that declares the keys of a config as fields of classes."""
    return next((module.source for module in modules if module.arguments.keys() >= _FIELDS), None)
