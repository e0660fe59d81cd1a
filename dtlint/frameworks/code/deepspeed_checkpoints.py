"""Finds programs that recompute by DeepSpeed's own function, which alone reads its section of recomputation."""

from __future__ import annotations

import re

from dtlint.frameworks import Member
from dtlint.languages.python.program import Program

_MARK = re.compile(
    r"\bdeepspeed\.checkpointing\b|\bfrom deepspeed import [^\n]{0,80}\bcheckpointing\b"
    r"|\bactivation_checkpointing import\b|\bactivation_checkpointing\.checkpointing\b"
)


def deepspeed_checkpoints(program: Program) -> tuple[Member, ...]:
    """The collection `code.deepspeed_checkpoints`: where a file of the program first speaks of that function."""
    found = ((module.source, _MARK.search(module.source.text)) for module in program.modules.values())
    return tuple(Member(source.span(*match.span()), {}) for source, match in found if match is not None)
