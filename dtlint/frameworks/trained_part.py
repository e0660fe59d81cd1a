"""Which part of the model a program with a training loop of its own trains, as its flags tell."""

from __future__ import annotations

from collections.abc import Sequence

from dtlint.frameworks import Reading
from dtlint.frameworks.flag_list import read_flags
from dtlint.frameworks.transformers.adapters import QUANTIZERS, SWITCHES, adapter_claims
from dtlint.languages.traced import Word

LAYER = "trained-part"


def read(program: Sequence[Word]) -> list[Reading]:
    """The rank of the adapters and how frozen weights are stored; nothing where neither a flag nor the program's name
    speaks of them.
    """
    flags = read_flags(program[1:], (*SWITCHES, *QUANTIZERS))
    claims = tuple(adapter_claims(flags, program[0], 0))
    return [Reading(LAYER, program[0].place, claims)] if claims else []
