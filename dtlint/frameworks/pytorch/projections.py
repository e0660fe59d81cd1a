"""Reads the output projection of a model that the program builds itself: how many words its vocabulary has."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dtlint.frameworks import Claim, Member
from dtlint.languages.python.calls import Call, argument, calls, passed
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import stands
from dtlint.value import Value

_LINEAR = ("torch.nn.Linear", "torch.nn.modules.linear.Linear")
_VOCABULARY = re.compile(r"vocab|n_?tokens?\b", re.IGNORECASE)
"""Spellings of the number of words."""
_PRETRAINED = re.compile(r"pretrained|hf_hub|torch\.hub|safetensors", re.IGNORECASE)
"""Words of programs whose shapes are those of a checkpoint."""


def projections(program: Program) -> tuple[Member, ...]:
    """The collection `code.projections`: `width`, how many words a model of the program tells apart, where all its
    output projections have one and no checkpoint gives their shape.
    """
    if any(_PRETRAINED.search(module.source.text) for module in program.modules.values()):
        return ()
    found = tuple(_members(program))
    widths = {member.fields["width"] for member in found}
    return found[:1] if len({getattr(width, "value", None) for width in widths}) == 1 else ()


def vocabulary_claims(members: tuple[Member, ...]) -> Iterator[Claim]:
    """The vocabulary as a setting of the plan."""
    return (Claim("model.vocab", member.fields["width"], "out_features") for member in members)


def _members(program: Program) -> Iterator[Member]:
    for call in calls(program, _LINEAR):
        width = argument(call, "out_features", 1) if _is_over_words(call) and stands(call.place) is not False else None
        if isinstance(width, Value) and isinstance(width.value, int) and width.origin.span is not None:
            yield Member(width.origin.span, {"width": width}, ((call.head, "the output projection"),))


def _is_over_words(call: Call) -> bool:
    """Whether a projection is as wide as there are words, by the spelling of its width."""
    given = passed(call, "out_features", 1)
    return any(_VOCABULARY.search(item.place.module.text(item.place.node)) for item in given)
