"""Arguments that dataclasses of the tree declare: a copy of a front end reads what its own classes have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dtlint.frameworks import Reading
from dtlint.runs.tree import Tree
from dtlint.source import Source, Unreadable
from dtlint.value import Value

if TYPE_CHECKING:
    from dtlint.languages.python.tree import Argument

LAYER = "tree-dataclasses"
_OF_CLASSES = ("gpt-neox", "llama-factory", "torchtitan")
"""Front ends and frameworks whose releases read their arguments into dataclasses, and whose copies add fields."""
_DOUBTED = ("config.unknown", "config.invalid")
_OF_TRAINER = ("trainer.strange",)
_MARK = "dataclass"
_COPY = ("transformers", "training_args.py")
"""Where the Trainer's own arguments lie in a copy of its package."""
_SHELVES = ("", "src/")
"""Where a project keeps its packages: beside its programs, or in a folder that installing it makes known."""


def reads_into_classes(reading: Reading) -> bool:
    """Whether a reading is of arguments that a front end reads into dataclasses."""
    return reading.frontend in _OF_CLASSES or reading.framework in _OF_CLASSES


def own_fields(tree: Tree, folders: Sequence[Path], readings: Sequence[Reading]) -> list[Reading]:
    """The arguments that a release does not take as they stand and dataclasses of the tree declare: those of a copy of
    the Trainer's package where that is the one that the program in `folders` imports.
    """
    of_classes = _doubted([each for each in readings if reads_into_classes(each)], _DOUBTED)
    of_trainer = _doubted(readings, _OF_TRAINER)
    kinds = {
        **_kinds(tree, tree.python_sources, of_classes, str.__eq__),
        **_kinds(tree, lambda: _copies(tree, folders), of_trainer, str.startswith),
    }
    return [Reading(LAYER, declares=frozenset(kinds), types=kinds)] if kinds else []


def _doubted(readings: Iterable[Reading], names: Sequence[str]) -> frozenset[str]:
    """The keys that members of these collections speak of."""
    members = (member for reading in readings for name in names for member in reading.collections.get(name, ()))
    keys = (member.fields.get("key") for member in members)
    return frozenset(str(key.value) for key in keys if isinstance(key, Value))


def _copies(tree: Tree, folders: Sequence[Path]) -> Iterator[Source]:
    """The modules of the Trainer's arguments that a program in these folders may import: the copy around it, else any
    of the tree, which may be installed.
    """
    path = "/".join(_COPY)
    around = (tree.find(f"{shelf}{path}", folder) for folder in folders for shelf in _SHELVES)
    nearest = next((file for file in around if file is not None), None)
    for file in tree.ending(_COPY) if nearest is None else (nearest,):
        try:
            yield tree.source(file)
        except Unreadable:
            continue


def field_of(key: str) -> str:
    """The name of the field that an argument is: `--use-qlora` and `model.use_qlora` are `use_qlora`."""
    return key.lstrip("-").rpartition(".")[2].replace("-", "_")


def _kind(argument: Argument) -> str:
    return argument.kind if argument.action == "store" else "flag"


def _kinds(
    tree: Tree, sources: Callable[[], Iterable[Source]], keys: frozenset[str], stands_for: Callable[[str, str], bool]
) -> dict[str, str]:
    """The types of the keys that dataclasses in the sources declare; `stands_for` says whether a field's name is what a
    key may be written for (argparse takes the beginning of one).
    """
    if not keys:
        return {}
    from dtlint.runs.programs import module_in

    fields = {key: field_of(key) for key in keys}
    found: dict[str, str] = {}
    for source in sources():
        if _MARK not in source.text or not any(field in source.text for field in fields.values()):
            continue
        declared = module_in(tree, source).arguments
        for key, field in fields.items():
            name = next((name for name in declared if stands_for(name, field)), None)
            if name is not None:
                found[key] = _kind(declared[name])
    return found
