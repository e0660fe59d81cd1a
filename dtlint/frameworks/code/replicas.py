"""Finds replicas that start from different weights, since nothing that exchanges their gradients makes them equal:
`code.replicas`.
"""

from __future__ import annotations

import re

from dtlint.frameworks import Member
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.code.mentions import holds_rank, mentions, picked_by_rank
from dtlint.frameworks.pytorch.exchange import collectives
from dtlint.frameworks.pytorch.names import FSDP1
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.calls import Call, argument, passed
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import standing, stands
from dtlint.record import NamedTuple
from dtlint.source import Span
from dtlint.value import Value

_EQUALISED = re.compile(
    r"broadcast|load_(state|check|model|weight|param)|[Rr]estore|[Rr]esum|pretrained|torch\.load|safetensors|all_gather"
    r"|(?<![aA])(?<!cuda\.)sync|constant_|zeros_(?!like)|ones_(?!like)|fork_rng|set_rng_state|share_memory|weights\s*="
)
"""Words of programs that may bring the ranks' weights together, or draw none."""
_BROUGHT = re.compile(
    r"broadcast|load_(?!dataset)|[Rr]estore|[Rr]esum|pretrained|torch\.load|safetensors|fork_rng|set_rng_state|share_memory"
    r"|weights\s*=|(?<!a)(?<!no_)sync(?!hronize|_batchnorm|_module_states\s*=\s*False)"
)
"""The same for models that are wrapped: what such programs gather and save is not what they start from."""
_SEEDS = re.compile(r"seed", re.IGNORECASE)
_OTHER_SEEDS = re.compile(r"(np|numpy|random)(\.random)?\.seed")
"""Seeds of generators that draw no weights."""
_UNSHARDED = {"NO_SHARD": "", "HYBRID_SHARD": "hybrid", "_HYBRID_SHARD_ZERO2": "hybrid"}
"""Strategies of FSDP1 that keep whole copies of shards: of all ranks, or one a group."""
_LEVELS = 3
"""Names that lead from a seed to the rank."""


class Exchange(NamedTuple):
    """What exchanges the gradients of replicas: in words, for a finding beside it, and with copies between groups of
    ranks alone ("hybrid").
    """

    place: Span
    by: str
    said: str
    copies: str = ""


def replicas(program: Program) -> tuple[Member, ...]:
    """The collection `code.replicas`: `seeded` ("rank" where every rank takes a seed of its own, "none" where none is
    set) of a program that exchanges the gradients of all parameters (`by`: "hand", or the strategy of FSDP that does,
    `copies`: "hybrid" where only groups of ranks hold copies) and never brings the weights together.
    """
    exchange = _by_hand(program) or _by_wrapper(program)
    if exchange is None:
        return ()
    said = {"by": exchange.by, "copies": exchange.copies}
    if not mentions(program, _SEEDS):
        if not any("init_process_group" in module.called for module in program.modules.values()):
            return ()  # what starts the processes is not here, and may seed them
        return (Member(exchange.place, texts(exchange.place, seeded="none", **said)),)
    seeds = _seed_calls(program)
    if not seeds or not all(picked_by_rank(place, _LEVELS) and stands(place) for place in seeds):
        return ()
    told = next((place for place in seeds if holds_rank(place)), seeds[0])
    span = told.module.span(told.node)
    return (Member(span, texts(span, seeded="rank", **said), ((exchange.place, exchange.said),)),)


def _by_hand(program: Program) -> Exchange | None:
    found = next((member for member in collectives(program) if _is_whole(member)), None)
    if found is None or mentions(program, _EQUALISED):
        return None
    return Exchange(found.place, "hand", "the gradients are exchanged by hand")


def _by_wrapper(program: Program) -> Exchange | None:
    """FSDP1 with whole copies, which it makes equal where sync_module_states is on and nowhere else."""
    wraps = standing(program, FSDP1)
    strategies = {_strategy(call) for call in wraps}
    name = strategies.pop() if len(strategies) == 1 else ""
    if not name or mentions(program, _BROUGHT):
        return None
    given = next((item.place for item in passed(wraps[0], "sharding_strategy", 2)), None)
    place = wraps[0].head if given is None else given.module.span(given.node)
    return Exchange(place, name, f"{name} keeps whole copies, and sends none", _UNSHARDED[name])


def _strategy(call: Call) -> str:
    """The strategy that a call of FSDP is certain to take, "" for one without copies or with synchronised ones."""
    value = argument(call, "sharding_strategy", 2)
    name = str(value.value).rpartition(".")[2] if isinstance(value, Value) and value.origin.kind == "written" else ""
    synced = argument(call, "sync_module_states", 10)
    apart = synced is None or (isinstance(synced, Value) and synced.value is False)
    return name if name in _UNSHARDED and apart else ""


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
        if not _OTHER_SEEDS.fullmatch(dotted(getattr(site.node, "func", None) or site.node))
    ]
