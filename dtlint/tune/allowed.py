"""Which values may not stand together, told from the values alone, before a plan is made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from dtlint.tune.axes import GROUP, NODE, WHOLE
from dtlint.value import Plain

if TYPE_CHECKING:
    from dtlint.plan import Plan

Values = Mapping[str, Plain]

MEGATRON = ("megatron", "nemo")


class Grounds:
    """What decides on combinations and does not vary: today's values, read once for the whole search."""

    __slots__ = ("domain", "experts", "framework", "kv_heads", "node", "sequence", "today", "world")

    def __init__(self, plan: Plan) -> None:
        self.today: dict[str, Plain] = {name: plan.value(name) for name in _READ}
        self.framework = plan.word("framework") or ""
        self.world = plan.integer("parallel.world_size") or 1
        self.node = plan.integer("cluster.gpus_per_node") or 1
        self.domain = plan.integer("cluster.nvlink_domain") or self.node
        self.kv_heads = plan.integer("model.kv_heads")
        self.experts = plan.integer("model.experts") or 0
        self.sequence = plan.integer("data.sequence_length")

    def number(self, values: Values, name: str) -> int:
        """A degree of the combination, today's where it does not vary."""
        found = values.get(name, self.today.get(name))
        return found if isinstance(found, int) else 1


_READ = (
    "parallel.tensor", "parallel.pipeline", "parallel.virtual_pipeline", "parallel.context", "parallel.ulysses",
    "parallel.expert", "parallel.sequence", "sharding.stage", "batch.micro", "batch.global", "overlap.gradients",
    "overlap.parameters", "overlap.tensor", "sharding.offload_optimizer", "sharding.offload_parameters",
)  # fmt: skip


def refused(grounds: Grounds, values: Values) -> str | None:
    """Why a combination of degrees and sharding cannot be; None where nothing here forbids it."""
    return next((reason for reason, forbids in _SPLITS if forbids(grounds, values)), None)


def idle(grounds: Grounds, values: Values) -> str | None:
    """Why a combination of the other settings cannot be, or says nothing beside these degrees."""
    return next((reason for reason, forbids in _SWITCHES if forbids(grounds, values)), None)


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


def _uneven_groups(grounds: Grounds, values: Values) -> bool:
    """Key and value heads divide over the ranks, or the ranks over them (Megatron-LM and torchtitan)."""
    heads, tensor = grounds.kv_heads, grounds.number(values, "parallel.tensor")
    return bool(heads) and heads is not None and heads % tensor != 0 and tensor % heads != 0


def _chunks_alone(grounds: Grounds, values: Values) -> bool:
    return grounds.number(values, "parallel.virtual_pipeline") > 1 and grounds.number(values, "parallel.pipeline") == 1


def _sequence_alone(grounds: Grounds, values: Values) -> bool:
    wanted = values.get("parallel.sequence", grounds.today["parallel.sequence"])
    return "parallel.sequence" in values and wanted is True and grounds.number(values, "parallel.tensor") == 1


def _experts_without_sequence(grounds: Grounds, values: Values) -> bool:
    """Megatron-LM arguments.py: expert beside tensor parallelism needs sequence parallelism."""
    beside = grounds.number(values, "parallel.expert") > 1 and grounds.number(values, "parallel.tensor") > 1
    wanted = values.get("parallel.sequence", grounds.today["parallel.sequence"])
    return beside and grounds.framework in MEGATRON and wanted is not True


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
    return any(values.get(name, grounds.today[name]) != grounds.today[name] for name in _SHARING)


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
    return any(values.get(name, grounds.today[name]) != grounds.today[name] for name in _REDUCING)


def _no_batch(grounds: Grounds, values: Values) -> bool:
    """The global batch is no multiple of micro-batch x ranks whose micro-batches count."""
    total = values.get("batch.global", grounds.today["batch.global"])
    ranks = grounds.world // _ways(grounds, values)
    if grounds.framework == "deepspeed":
        ranks *= grounds.number(values, "parallel.tensor")
    return isinstance(total, int) and total % (ranks * grounds.number(values, "batch.micro")) != 0


def _too_much_sharding(grounds: Grounds, values: Values) -> bool:
    """DeepSpeed's pipeline engine shares out optimizer states at most (runtime/pipe/engine.py)."""
    deep = grounds.framework in ("megatron-deepspeed", "gpt-neox", "deepspeed")
    return deep and grounds.number(values, "sharding.stage") >= 2 and grounds.number(values, "parallel.pipeline") > 1


def _gathers_nothing(grounds: Grounds, values: Values) -> bool:
    """Megatron-LM arguments.py: the overlap of gathered parameters needs the distributed optimizer and the overlap of
    gradients."""
    if values.get("overlap.parameters") is not True:
        return False
    beside = values.get("overlap.gradients", grounds.today["overlap.gradients"])
    return grounds.framework in MEGATRON and (grounds.number(values, "sharding.stage") < 1 or beside is not True)


def _tensor_overlap_alone(grounds: Grounds, values: Values) -> bool:
    """Megatron-LM arguments.py: it needs tensor and sequence parallelism."""
    if values.get("overlap.tensor") is not True:
        return False
    sequence = values.get("parallel.sequence", grounds.today["parallel.sequence"])
    return grounds.number(values, "parallel.tensor") == 1 or (grounds.framework in MEGATRON and sequence is not True)


def _offload_unshared(grounds: Grounds, values: Values) -> bool:
    """DeepSpeed zero/config.py: optimizers go to the host from stage 1 on, parameters at stage 3."""
    stage = grounds.number(values, "sharding.stage")
    optimizer = values.get("sharding.offload_optimizer", "none") != "none"
    parameters = values.get("sharding.offload_parameters", "none") != "none"
    return (optimizer and stage < 1) or (parameters and (stage < 3 or not optimizer))


_Forbids = Callable[[Grounds, Values], bool]

_SPLITS: tuple[tuple[str, _Forbids], ...] = (
    ("the GPUs do not divide into the degrees", _no_grid),
    ("the GPUs do not divide into EP x PP", _no_expert_grid),
    ("key and value heads do not divide over TP", _uneven_groups),
    ("chunks of layers without pipeline stages", _chunks_alone),
    ("sequence parallelism without TP", _sequence_alone),
    ("EP beside TP without sequence parallelism", _experts_without_sequence),
    ("a shard group of one node is the whole group or does not divide it", _group_is_whole),
    ("another sharding where there is no replica to share with", _shares_nothing),
    ("the global batch does not divide", _no_batch),
    ("ZeRO 2 and 3 do not go with a pipeline", _too_much_sharding),
)
"""Why degrees, sharding and batch cannot stand together, in the order in which it is looked at."""

_SWITCHES: tuple[tuple[str, _Forbids], ...] = (
    ("overlap of an exchange that does not take place", _hides_nothing),
    ("gathering beside compute without what it needs", _gathers_nothing),
    ("tensor overlap without TP and sequence parallelism", _tensor_overlap_alone),
    ("offload without the sharding that it needs", _offload_unshared),
)
"""Why the other settings cannot stand beside them."""
