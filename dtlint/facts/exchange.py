"""Facts about how gradients and parameters of data-parallel ranks travel: buckets, and sums that are repeated."""

from __future__ import annotations

from dtlint.cost import Point, estimate, sizes
from dtlint.cost.buckets import collectives
from dtlint.cost.constants import COLLECTIVE_SECONDS
from dtlint.cost.data_parallel import replica_seconds
from dtlint.cost.job import Job
from dtlint.cost.stages import held, stages
from dtlint.facts.registry import (
    TIMING,
    FactValue,
    fact,
    lower,
    missing,
    narrow,
    over_completions,
    over_exchanges,
    register,
)
from dtlint.interval import Interval, hull
from dtlint.plan import Plan
from dtlint.value import Unknown

_BUCKETS = ("communication.bucket_bytes", "precision.gradients", "model.parameters", "batch.accumulation")
_WIDTH = {"fp32": 4, "bf16": 2, "fp16": 2}


@register(
    "communication.searched_recomputation",
    "flag",
    "",
    ("communication.find_unused", "communication.static_graph", "checkpointing.activations", "checkpointing.reentrant"),
    "torch-reentrant",
)
def searched_recomputation(plan: Plan) -> FactValue:
    """Whether DDP is told to look for unused parameters while reentrant recomputation runs backward in between."""
    if plan.collection("code.searched_recomputations"):
        return True
    unused = plan.stated("communication.find_unused")
    asked = unused is not None and unused.value is True and unused.origin.kind in ("written", "given", "default")
    recomputed = plan.word("checkpointing.activations") in ("full", "selective")
    if not asked or not recomputed or plan.flag("communication.static_graph") is not False:
        return False
    reentrant = plan.flag("checkpointing.reentrant")
    return Unknown("the variant of recomputation is not told") if reentrant is None else reentrant


@register("communication.selected_parts", "flag", "", ("communication.find_unused",), "torch-ddp")
def selected_parts(plan: Plan) -> FactValue:
    """Whether the model's forward pass runs one of several parts, so that parameters do stay unused in a step."""
    return bool(plan.collection("code.selected_parts"))


@register("communication.bucket_launches", "number", "collectives a step", _BUCKETS, "deepspeed-config")
def bucket_launches(plan: Plan) -> FactValue:
    """Gradient collectives of one step: a tensor is never cut, and from ZeRO-2 on they come with every micro-batch."""
    found, size = sizes(plan), plan.number("communication.bucket_bytes")
    width = _WIDTH.get(plan.word("precision.gradients") or "")
    stage, count = plan.integer("sharding.stage"), plan.integer("batch.accumulation")
    if isinstance(found, Unknown) or not size or width is None or stage is None:
        return found if isinstance(found, Unknown) else missing(plan, "communication.bucket_bytes", "sharding.stage")
    if stage >= 2 and count is None:
        return missing(plan, "batch.accumulation")
    if any(job.shape.trainable is not None for job in found.completed.jobs):
        return Unknown("how many tensors the adapters have is not told")
    rounds = count if stage >= 2 and count is not None else 1
    return rounds * min(collectives(job, size / width) for job in found.completed.jobs)


@register("communication.bucket_seconds", "number", "s", _BUCKETS, "deepspeed-config")
def bucket_seconds(plan: Plan) -> FactValue:
    """Seconds of a step that starting these collectives takes."""
    launches = fact(plan, "communication.bucket_launches")
    return launches if isinstance(launches, Unknown) else lower(launches) * COLLECTIVE_SECONDS


@register("communication.bucket_share", "number", "share of a step", (*_BUCKETS, *TIMING), "deepspeed-config")
def bucket_share(plan: Plan) -> FactValue:
    """The same as a share of the step."""
    seconds, step = fact(plan, "communication.bucket_seconds"), fact(plan, "step.seconds")
    if isinstance(seconds, Unknown) or isinstance(step, Unknown):
        return seconds if isinstance(seconds, Unknown) else step
    ends = (step.low, step.high) if isinstance(step, Interval) else (lower(step), lower(step))
    return narrow(hull(lower(seconds) / (lower(seconds) + end) for end in ends))


@register(
    "memory.buckets_bytes", "number", "bytes", ("communication.bucket_bytes", "sharding.stage"), "deepspeed-memory"
)
def buckets_bytes(plan: Plan) -> FactValue:
    """Communication buffers of one GPU: the reduce bucket, its double where it overlaps, the gather bucket; where the
    model is not known those that it does not make smaller.
    """
    found, whole = sizes(plan), lower(fact(plan, "memory.whole_buckets_bytes"))
    if isinstance(found, Unknown):
        return whole or found
    return narrow(hull(max(whole, each.parts.get("buckets", 0.0)) for each in found.memories))


@register(
    "memory.whole_buckets_bytes",
    "number",
    "bytes",
    ("communication.bucket_bytes", "communication.whole_buckets", "sharding.stage", "overlap.gradients"),
    "deepspeed-memory",
)
def whole_buckets_bytes(plan: Plan) -> FactValue:
    """Reduce buckets that ZeRO-1 and 2 allocate at their full size before each backward pass, two where they overlap
    (DeepSpeed runtime/zero/stage_1_and_2.py, ipg_buffer): a small model does not make them smaller.
    """
    stage, size, overlap = (
        plan.integer("sharding.stage"),
        plan.number("communication.bucket_bytes"),
        "overlap.gradients",
    )
    whole = plan.flag("communication.whole_buckets")
    if stage is None or size is None or whole is None or plan.flag(overlap) is None:
        return missing(plan, "sharding.stage", "communication.bucket_bytes", "communication.whole_buckets", overlap)
    return size * (2 if plan.flag(overlap) else 1) if whole and stage in (1, 2) else 0.0


@register("memory.full_state_bytes", "number", "bytes", ("model.parameters", "precision.master"), "torch-fsdp")
def full_state_bytes(plan: Plan) -> FactValue:
    """The whole model as FSDP gathers it to save it: its weights in the format in which the shards keep them."""
    count, width = plan.number("model.parameters"), _WIDTH.get(plan.word("precision.master") or "fp32", 4)
    return missing(plan, "model.parameters") if count is None else count * width


@register("step.repeated_replica_seconds", "number", "s", (*TIMING, "sharding.group"), "torch-fully-shard")
def repeated_replica_seconds(plan: Plan) -> FactValue:
    """Seconds of a step that sums over shard groups take which are made after every micro-batch, not once."""
    found = _repeated(plan)
    return found if isinstance(found, Unknown) else narrow(hull(extra for extra, _ in found))


@register("step.repeated_replica_share", "number", "share of a step", (*TIMING, "sharding.group"), "torch-fully-shard")
def repeated_replica_share(plan: Plan) -> FactValue:
    """The same as a share of the step that is longer for it."""
    found = _repeated(plan)
    return found if isinstance(found, Unknown) else narrow(hull(_share_of_more(*pair) for pair in found))


def _repeated(plan: Plan) -> list[tuple[float, float]] | Unknown:
    """For each completion the seconds of the repeated sums, and those of the step without them."""
    found, sized = estimate(plan), sizes(plan)
    if isinstance(found, Unknown) or isinstance(sized, Unknown):
        return found if isinstance(found, Unknown) else missing(plan, "cluster.gpu")
    pairs = zip(map(_repeated_seconds, sized.completed.jobs), found.completions, strict=True)
    return [(extra, each.step_seconds) for extra, each in pairs]


def _repeated_seconds(job: Job) -> float:
    """(M - 1) sums of the shards over the groups, on the stage that holds most."""
    heaviest = max((held(job, stage) for stage in stages(job)), key=lambda params: params.total)
    return (job.batch.microbatches - 1) * replica_seconds(job, heaviest)


@register("step.repeated_gradients_seconds", "number", "s", (*TIMING, "batch.accumulation"), "torch-no-sync")
def repeated_gradients_seconds(plan: Plan) -> FactValue:
    """Seconds of a step that exchanges of all gradients take which are made after every micro-batch, not once: (M - 1)
    times what one keeps waiting.
    """
    return _repeated_gradients(plan) or over_completions(plan, lambda each: _others(plan) * each.step.data)


@register(
    "step.repeated_gradients_share", "number", "share of a step", (*TIMING, "batch.accumulation"), "torch-no-sync"
)
def repeated_gradients_share(plan: Plan) -> FactValue:
    """The same as a share of the step that is longer for it."""
    return _repeated_gradients(plan) or over_completions(
        plan, lambda each: _share_of_more(_others(plan) * each.step.data, each.step_seconds)
    )


def _repeated_gradients(plan: Plan) -> Unknown | None:
    """Why nothing is known to be exchanged again; None where it is."""
    count = plan.integer("batch.accumulation")
    if count is None:
        return missing(plan, "batch.accumulation")
    if count > 1 and plan.integer("sharding.stage") == 0:
        return None
    return Unknown("the plan accumulates nothing that whole replicas exchange", "--set batch.accumulation=...")


def _others(plan: Plan) -> int:
    """Micro-batches of a step but for the last."""
    return (plan.integer("batch.accumulation") or 1) - 1


@register("step.fourth_exchange_seconds", "number", "s", TIMING, "zero")
def fourth_exchange_seconds(plan: Plan) -> FactValue:
    """Seconds of a step that a fourth exchange of sharded weights or gradients takes beside the three of each
    micro-batch: a third of what these keep waiting.
    """
    return over_exchanges(plan, lambda each: each.step.data / 3)


@register("step.fourth_exchange_share", "number", "share of a step", TIMING, "zero")
def fourth_exchange_share(plan: Plan) -> FactValue:
    """The same as a share of the step that is longer for it."""
    return over_exchanges(plan, lambda each: _share_of_more(each.step.data / 3, each.step_seconds))


@register("step.hidden_data_seconds", "number", "s", TIMING, "megatron-max-connections")
def hidden_data_seconds(plan: Plan) -> FactValue:
    """Seconds of a step that the exchange between data-parallel ranks runs beside compute."""
    return over_exchanges(plan, _hidden)


@register("step.hidden_data_share", "number", "share of a step", TIMING, "megatron-max-connections")
def hidden_data_share(plan: Plan) -> FactValue:
    """What the step takes longer if nothing of it does, as a share of the longer step."""
    return over_exchanges(plan, lambda each: _share_of_more(_hidden(each), each.step_seconds))


def _hidden(each: Point) -> float:
    return each.step.hidden.get("data", 0.0)


def _share_of_more(extra: float, step: float) -> float:
    """Seconds on top of a step as a share of the longer step."""
    return extra / (extra + step)
