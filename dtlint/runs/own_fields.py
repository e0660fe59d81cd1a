"""Arguments that dataclasses of the tree declare: a copy of a front end reads what its own classes have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dtlint.frameworks import Reading
from dtlint.runs.tree import Tree
from dtlint.source import Source
from dtlint.value import Value

if TYPE_CHECKING:
    from dtlint.languages.python.tree import Argument

LAYER = "tree-dataclasses"
_OF_CLASSES = ("llama-factory", "torchtitan")
"""Front ends and frameworks whose releases read their arguments into dataclasses, and whose copies add fields."""
_DOUBTED = ("config.unknown", "config.invalid")
_MARK = "dataclass"


def reads_into_classes(reading: Reading) -> bool:
    """Whether a reading is of arguments that a front end reads into dataclasses."""
    return reading.frontend in _OF_CLASSES or reading.framework in _OF_CLASSES


def own_fields(tree: Tree, readings: Sequence[Reading]) -> list[Reading]:
    """The arguments that a release does not take as they stand and dataclasses of the tree declare."""
    fields = {key: field_of(key) for reading in readings if reads_into_classes(reading) for key in _doubted(reading)}
    if not fields:
        return []
    declared = _declared(tree, frozenset(fields.values()))
    kinds = {key: _kind(declared[field]) for key, field in fields.items() if field in declared}
    return [Reading(LAYER, declares=frozenset(kinds), types=kinds)] if kinds else []


def _doubted(reading: Reading) -> Iterator[str]:
    for name in _DOUBTED:
        for member in reading.collections.get(name, ()):
            key = member.fields.get("key")
            if isinstance(key, Value):
                yield str(key.value)


def field_of(key: str) -> str:
    """The name of the field that an argument is: `--use-qlora` and `model.use_qlora` are `use_qlora`."""
    return key.lstrip("-").rpartition(".")[2].replace("-", "_")


def _kind(argument: Argument) -> str:
    return argument.kind if argument.action == "store" else "flag"


def _declared(tree: Tree, fields: frozenset[str]) -> dict[str, Argument]:
    """The fields of these names that dataclasses in the tree have."""
    from dtlint.runs.programs import module_in

    found: dict[str, Argument] = {}
    for source in _holding(tree, fields):
        arguments = module_in(tree, source).arguments
        found.update({name: arguments[name] for name in fields if name in arguments})
    return found


def _holding(tree: Tree, fields: frozenset[str]) -> Iterator[Source]:
    """The Python files of the tree that hold a dataclass and one of the names."""
    for source in tree.python_sources():
        if _MARK in source.text and any(field in source.text for field in fields):
            yield source
