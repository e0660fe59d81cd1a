"""Finds replicas that start from different weights, where gradients are exchanged by hand: `code.replicas`."""

from __future__ import annotations

import re

from dtlint.frameworks import Member
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.code.mentions import holds_rank, mentions
from dtlint.frameworks.pytorch.exchange import collectives
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import stands
from dtlint.value import Value

_EQUALISED = re.compile(
    r"broadcast|load_state_dict|from_pretrained|torch\.load|load_checkpoint|safetensors|sync|all_gather|constant_|zeros_|ones_"
    r"|torch\.save|fork_rng|set_rng_state|share_memory|pretrained|weights\s*="
)
"""Words of programs that may bring the ranks' weights together, or draw none."""
_SEEDS = re.compile(r"seed", re.IGNORECASE)


def replicas(program: Program) -> tuple[Member, ...]:
    """The collection `code.replicas`: `seeded` ("rank" where every rank takes a seed of its own, "none" where none is
    set) of a program that exchanges the gradients of all parameters by hand and never brings the weights together.
    """
    exchanges = [member for member in collectives(program) if _is_whole(member)]
    if not exchanges or mentions(program, _EQUALISED):
        return ()
    exchange = exchanges[0]
    if not mentions(program, _SEEDS):
        return (Member(exchange.place, texts(exchange.place, seeded="none")),)
    seeds = _seed_calls(program)
    if not seeds or not all(holds_rank(place) and stands(place) for place in seeds):
        return ()
    span = seeds[0].module.span(seeds[0].node)
    return (Member(span, texts(span, seeded="rank"), ((exchange.place, "the gradients are exchanged by hand"),)),)


def _is_whole(member: Member) -> bool:
    whole, wrapper = member.fields["over_gradients"], member.fields["wrapper"]
    return isinstance(whole, Value) and bool(whole.value) and isinstance(wrapper, Value) and wrapper.value == "none"


def _seed_calls(program: Program) -> list[Place]:
    """The calls that seed torch, or may."""
    return [
        place_of(program, module, site)
        for module in program.modules.values()
        for word, sites in module.called.items()
        if _SEEDS.search(word)
        for site in sites
    ]
