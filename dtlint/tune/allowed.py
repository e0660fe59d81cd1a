"""Which values may not stand together, told from the values alone, before a plan is made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from dtlint.catalog import Combination, combinations
from dtlint.plan.derived.batch import counts_tensor_ranks
from dtlint.release import older, releases
from dtlint.tune.axes import GROUP, NODE, WHOLE
from dtlint.value import Plain

if TYPE_CHECKING:
    from dtlint.plan import Plan

Values = Mapping[str, Plain]


class Grounds:
    """What decides on combinations and does not vary: today's values, read once for the whole search."""

    __slots__ = (
        "counts_tensor", "experts", "kv_heads", "node", "sequence", "splits", "switches", "today", "world",
    )  # fmt: skip

    def __init__(self, plan: Plan) -> None:
        self.today: dict[str, Plain] = {name: plan.value(name) for name in _READ}
        self.world = plan.integer("parallel.world_size") or 1
        self.node = plan.integer("cluster.gpus_per_node") or 1
        self.kv_heads = plan.integer("model.kv_heads")
        self.experts = plan.integer("model.experts") or 0
        self.sequence = plan.integer("data.sequence_length")
        self.counts_tensor = counts_tensor_ranks(plan)
        self.splits = tuple(_checks(self, plan, "split"))
        self.switches = tuple(_checks(self, plan, "switches"))

    def number(self, values: Values, name: str) -> int:
        """A degree of the combination, today's where it does not vary."""
        found = values.get(name, self.today.get(name))
        return found if isinstance(found, int) else 1

    def plain(self, values: Values, name: str) -> Plain:
        """A value of the combination, today's where it does not vary."""
        return values.get(name, self.today[name])


Forbids = Callable[[Grounds, Values], bool]
Check = tuple[str, Forbids]

_READ = (
    "parallel.tensor", "parallel.pipeline", "parallel.virtual_pipeline", "parallel.context", "parallel.ulysses",
    "parallel.expert", "parallel.sequence", "sharding.stage", "batch.micro", "batch.global", "overlap.gradients",
    "overlap.parameters", "overlap.tensor", "sharding.offload_optimizer", "sharding.offload_parameters",
)  # fmt: skip


def _checks(grounds: Grounds, plan: Plan, part: str) -> Iterator[Check]:
    """What the framework forbids. What some of its releases take is forbidden until one of those is named, unless
    today's plan has it."""
    for found in combinations(plan.word("framework") or "", part):
        forbids = ARITHMETIC[found.name]
        if not found.until or not (_is_taken(plan, found) or forbids(grounds, {})):
            yield found.reason, forbids


def _is_taken(plan: Plan, found: Combination) -> bool:
    """Whether the release in use is known to be one that takes the combination."""
    pairs = ((releases(plan.word(name) or ""), releases(limit)) for name, limit in found.until.items())
    return any(ours is not None and limit is not None and older(ours, limit) is False for ours, limit in pairs)


def refused(grounds: Grounds, values: Values) -> str | None:
    """Why a combination of degrees and sharding cannot be; None where nothing here forbids it."""
    return next((reason for reason, forbids in grounds.splits if forbids(grounds, values)), None)


def idle(grounds: Grounds, values: Values) -> str | None:
    """Why a combination of the other settings cannot be, or says nothing beside these degrees."""
    return next((reason for reason, forbids in grounds.switches if forbids(grounds, values)), None)


def _ways(grounds: Grounds, values: Values) -> int:
    product = 1
    for axis in ("tensor", "pipeline", "context", "ulysses"):
        product *= grounds.number(values, f"parallel.{axis}")
    return product


def _no_grid(grounds: Grounds, values: Values) -> bool:
    return grounds.world % _ways(grounds, values) != 0


def _no_expert_grid(grounds: Grounds, values: Values) -> bool:
    expert = grounds.number(values, "parallel.expert")
    return expert > 1 and grounds.world % (expert * grounds.number(values, "parallel.pipeline")) != 0


def _heads_undivided(grounds: Grounds, values: Values) -> bool:
    """A rank has several key and value heads, whole ones."""
    return bool(grounds.kv_heads) and (grounds.kv_heads or 0) % grounds.number(values, "parallel.tensor") != 0


def _heads_unshared(grounds: Grounds, values: Values) -> bool:
    """A rank has several key and value heads, or several ranks have one."""
    heads, tensor = grounds.kv_heads, grounds.number(values, "parallel.tensor")
    return bool(heads) and heads is not None and heads % tensor != 0 and tensor % heads != 0


def _chunks_alone(grounds: Grounds, values: Values) -> bool:
    return grounds.number(values, "parallel.virtual_pipeline") > 1 and grounds.number(values, "parallel.pipeline") == 1


def _sequence_alone(grounds: Grounds, values: Values) -> bool:
    wanted = grounds.plain(values, "parallel.sequence")
    return "parallel.sequence" in values and wanted is True and grounds.number(values, "parallel.tensor") == 1


def _experts_without_sequence(grounds: Grounds, values: Values) -> bool:
    beside = grounds.experts > 0 and grounds.number(values, "parallel.tensor") > 1
    return beside and grounds.plain(values, "parallel.sequence") is not True


def _sequence_undivided(grounds: Grounds, values: Values) -> bool:
    """Each tensor-parallel rank takes a part of the two pieces that a context-parallel one has."""
    parts = grounds.number(values, "parallel.tensor") * 2 * grounds.number(values, "parallel.context")
    return grounds.sequence is not None and grounds.sequence % parts != 0


def _group_is_whole(grounds: Grounds, values: Values) -> bool:
    """A group of one node's ranks where all ranks are no more, or where states are not shared out so."""
    if values.get(GROUP, WHOLE) == WHOLE:
        return False
    ranks = grounds.world // _ways(grounds, values) * grounds.number(values, "parallel.context")
    size = group_size(grounds, values)
    return size is None or size >= ranks or ranks % size != 0 or size < 2


def group_size(grounds: Grounds, values: Values) -> int | None:
    """Ranks of the shard group that a combination names; None for the whole one."""
    wanted = values.get(GROUP, WHOLE)
    if wanted == NODE:
        inner = grounds.number(values, "parallel.tensor") * grounds.number(values, "parallel.ulysses")
        return max(1, grounds.node // inner)
    return wanted if isinstance(wanted, int) else None


def _shares_nothing(grounds: Grounds, values: Values) -> bool:
    """Another stage or group of sharding where one rank alone holds each part: it is today's plan once more."""
    if _replicas(grounds, values) > 1:
        return False
    return any(grounds.plain(values, name) != grounds.today[name] for name in _SHARING)


def _replicas(grounds: Grounds, values: Values) -> int:
    """Ranks over which gradients are summed."""
    inner = grounds.number(values, "parallel.tensor") * grounds.number(values, "parallel.pipeline")
    return grounds.world // inner


_SHARING = ("sharding.stage",)
_REDUCING = ("overlap.gradients", "overlap.parameters")


def _hides_nothing(grounds: Grounds, values: Values) -> bool:
    """Another overlap of gradients and parameters where no rank exchanges any."""
    if _replicas(grounds, values) > 1:
        return False
    return any(grounds.plain(values, name) != grounds.today[name] for name in _REDUCING)


def _no_batch(grounds: Grounds, values: Values) -> bool:
    """The global batch is no multiple of micro-batch x ranks whose micro-batches count."""
    total = grounds.plain(values, "batch.global")
    ranks = grounds.world // _ways(grounds, values)
    if grounds.counts_tensor:
        ranks *= grounds.number(values, "parallel.tensor")
    return isinstance(total, int) and total % (ranks * grounds.number(values, "batch.micro")) != 0


def _shares_gradients(grounds: Grounds, values: Values) -> bool:
    """ZeRO 2 or 3."""
    return grounds.number(values, "sharding.stage") >= 2


def _sharding_beside_pipeline(grounds: Grounds, values: Values) -> bool:
    return _shares_gradients(grounds, values) and grounds.number(values, "parallel.pipeline") > 1


def _sharding_beside_tensor(grounds: Grounds, values: Values) -> bool:
    return _shares_gradients(grounds, values) and grounds.number(values, "parallel.tensor") > 1


def _sharding_beside_experts(grounds: Grounds, values: Values) -> bool:
    return _shares_gradients(grounds, values) and grounds.experts > 1


def _overlaps_without_sharding(grounds: Grounds, values: Values) -> bool:
    return values.get("overlap.gradients") is True and grounds.number(values, "sharding.stage") < 1


def _gathers_nothing(grounds: Grounds, values: Values) -> bool:
    """Gathered parameters need sharded optimizer states, and their overlap that of the gradients."""
    if values.get("overlap.parameters") is not True:
        return False
    beside = grounds.plain(values, "overlap.gradients")
    return grounds.number(values, "sharding.stage") < 1 or beside is not True


def _tensor_overlap_alone(grounds: Grounds, values: Values) -> bool:
    return values.get("overlap.tensor") is True and grounds.number(values, "parallel.tensor") == 1


def _tensor_overlap_without_sequence(grounds: Grounds, values: Values) -> bool:
    return values.get("overlap.tensor") is True and grounds.plain(values, "parallel.sequence") is not True


def _offload_unshared(grounds: Grounds, values: Values) -> bool:
    """Optimizer states go to the host from stage 1 on, parameters at stage 3."""
    stage = grounds.number(values, "sharding.stage")
    optimizer = values.get("sharding.offload_optimizer", "none") != "none"
    parameters = values.get("sharding.offload_parameters", "none") != "none"
    return (optimizer and stage < 1) or (parameters and stage < 3)


ARITHMETIC: Mapping[str, Forbids] = {
    "no-grid": _no_grid,
    "no-expert-grid": _no_expert_grid,
    "heads-undivided": _heads_undivided,
    "heads-unshared": _heads_unshared,
    "chunks-alone": _chunks_alone,
    "sequence-alone": _sequence_alone,
    "experts-without-sequence": _experts_without_sequence,
    "group-is-whole": _group_is_whole,
    "shares-nothing": _shares_nothing,
    "no-batch": _no_batch,
    "sharding-beside-pipeline": _sharding_beside_pipeline,
    "sharding-beside-tensor": _sharding_beside_tensor,
    "sharding-beside-experts": _sharding_beside_experts,
    "sequence-undivided": _sequence_undivided,
    "hides-nothing": _hides_nothing,
    "overlaps-without-sharding": _overlaps_without_sharding,
    "gathers-nothing": _gathers_nothing,
    "tensor-overlap-alone": _tensor_overlap_alone,
    "tensor-overlap-without-sequence": _tensor_overlap_without_sequence,
    "offload-unshared": _offload_unshared,
}
"""What is looked at, by its name in catalog/data/searches.yaml, which says whose it is and where that stands."""
