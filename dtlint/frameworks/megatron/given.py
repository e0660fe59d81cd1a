"""The flags of a Megatron command line as its parser would count them: the last of each name, with its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dtlint.frameworks.flag_list import split_flags
from dtlint.frameworks.megatron.known import known_flag
from dtlint.frameworks.megatron.meanings import MEANINGS
from dtlint.frameworks.options import Option, whole
from dtlint.languages.traced import Word
from dtlint.record import NamedTuple
from dtlint.value import truth

_DEEPSPEED = (
    "deepspeed", "deepspeed-config", "zero-stage", "ds-sequence-parallel-size", "no-pipeline-parallel",
    "deepspeed-activation-checkpointing", "deepspeed-mpi",
)  # fmt: skip

SWITCHED_OFF = "deepspeed.switched_off"
"""The collection of the DeepSpeed config that is named where nothing switches the engine on."""


class Given(NamedTuple):
    """`flags` by name (no dashes in front, `-` for `_`), `repeated` those that a later one of the name overrides,
    `positional` words that belong to no flag, `open` why flags may be hidden ("" if they can't be).
    """

    flags: Mapping[str, Option]
    repeated: tuple[Option, ...] = ()
    positional: tuple[Word, ...] = ()
    open: str = ""

    def has(self, name: str) -> bool:
        """Whether a flag is given and not switched off by a value (`--sequence_parallel false`)."""
        option = self.flags.get(name)
        return option is not None and switched(option) is not False

    def word(self, name: str) -> Word | None:
        """The flag's first value, None if it is absent or has none."""
        option = self.flags.get(name)
        return option.value if option is not None else None

    def number(self, name: str) -> int | None:
        """The flag's value if it is a known whole number."""
        word = self.word(name)
        return whole(word.text or "") if word is not None else None

    def anchor(self, name: str) -> Word | None:
        """The word that says what a flag sets: its value, else the flag."""
        option = self.flags.get(name)
        return None if option is None else option.value or option.flag


def has_deepspeed(given: Given) -> bool:
    """Whether the flags are Megatron-DeepSpeed's."""
    return any(given.has(name) for name in _DEEPSPEED)


def switched(option: Option) -> bool | None:
    """The value of a flag that front ends write as `--flag true`; None where it is another kind of value or absent."""
    return truth(option.value.text or "") if option.value is not None else None


def read_flags(words: Sequence[Word]) -> Given:
    """The flags of a list of arguments, each with as many values as Megatron's parser gives it."""
    split = split_flags(words, _most_values)
    return Given(split.flags, split.repeated, split.positional, split.open)


def _most_values(name: str, after: Sequence[Word]) -> int:
    """How many of the words that follow a flag are its values.

    An unquoted unknown word is the value of a flag that takes one; behind a flag that takes none, or one that has its
    values, it may hide further flags.
    """
    takes = _takes(name)
    if takes == "0":
        return 1 if after and truth(after[0].text or "") is not None else 0
    if takes.isdecimal():
        return int(takes)
    return next((index for index, word in enumerate(after) if word.many and index), len(after))


def _takes(name: str) -> str:
    meaning = MEANINGS.get(name)
    if meaning is not None:
        return "0" if meaning.kind == "fixed" else "1"
    known = known_flag("--" + name)
    return known.takes if known is not None else "*"
