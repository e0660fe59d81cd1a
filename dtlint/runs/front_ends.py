"""Front ends whose plan stands in files of keys: which reader takes a file, and which one a program's arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Protocol, cast

from dtlint.frameworks import Reading
from dtlint.languages.json_tree import Document
from dtlint.languages.traced import Word


class Reader(Protocol):
    """What a module under dtlint.frameworks offers that reads such files."""

    LAYER: str
    ROLE: str

    def recognise(self, document: Document) -> bool:
        """Whether a file is one of the front end's."""

    def recognise_program(self, program: Sequence[Word]) -> bool:
        """Whether a program (its script and arguments) is the front end's."""

    def read_program(self, program: Sequence[Word]) -> Reading:
        """What a program claims by itself, and the files that it names in the role ROLE."""

    def read_config(self, documents: Sequence[Document], words: Sequence[Word] = ()) -> Reading:
        """What files claim together, with the program's arguments over them."""


MARKS: Mapping[str, tuple[str, ...]] = {
    "verl": ("actor_rollout_ref",),
    "axolotl": ("base_model",),
    "composer": ("global_train_batch_size",),
    "gpt_neox": ("pipe_parallel_size", "pipe-parallel-size", "model_parallel_size", "model-parallel-size"),
    "easyr1": ("rollout_batch_size", "micro_batch_size_per_device_for_update"),
}
"""By module: texts of which one stands in every file of the front end, so that no reader is loaded for others."""


def is_marked(text: str, name: str) -> bool:
    """Whether a text may be one of a front end's files."""
    return any(mark in text for mark in MARKS[name])


def reader_of(document: Document) -> Reader | None:
    """The reader that takes a file; None where no front end of this kind does."""
    marked = (name for name in MARKS if is_marked(document.source.text, name))
    return next((reader(name) for name in marked if reader(name).recognise(document)), None)


def reader_of_program(program: Sequence[Word]) -> Reader | None:
    """The reader of the front end that a program is; None where it is none of them."""
    return next((reader(name) for name in MARKS if reader(name).recognise_program(program)), None)


def reader(name: str) -> Reader:
    """The reader of a module, by its name, which is the role of the files that its programs name."""
    return cast("Reader", import_module(f"dtlint.frameworks.{name}"))
