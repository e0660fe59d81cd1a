"""What follows about the batch and the pipeline schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtlint.plan.derived.registry import rule, same, stated_integer
from dtlint.value import Unknown, Value, derived

if TYPE_CHECKING:
    from dtlint.plan import Plan

AUTO = "auto"
"""The reason of a value that the front end fills in."""


def counted_ranks(plan: Plan) -> int | None:
    """Ranks whose micro-batches make up the global batch; None if unknown."""
    data, tensor = plan.integer("parallel.data"), plan.integer("parallel.tensor") or 1
    return data if data is None or not counts_tensor_ranks(plan) else data * tensor


def counts_tensor_ranks(plan: Plan) -> bool:
    """Whether every rank of a replica counts, not one of each: DeepSpeed's automatic tensor parallelism, where they
    compute the same samples (0.19.6 runtime/config.py, DeepSpeedConfig.__init__ without an mpu).
    """
    return plan.word("framework") == "deepspeed" and not plan.collection("engine.groups")


@rule("batch.accumulation")
def _accumulation(plan: Plan) -> Value | Unknown | None:
    total, micro, ranks = plan.stated("batch.global"), plan.integer("batch.micro"), counted_ranks(plan)
    if total is None or not isinstance(total.value, int):
        return _hidden_total(plan)
    if not micro or not ranks:
        return Unknown("the micro batch or the data-parallel size is unknown", "--set batch.micro=N")
    count = _local_batches(total.value, micro, ranks, plan.word("batch.remainder") or "refused")
    if count is None:
        return Unknown(f"a global batch of {total.value} is no multiple of micro batch {micro} x DP {ranks}")
    return derived(count, "batch.global", "batch.micro", "parallel.data")


def _hidden_total(plan: Plan) -> Unknown | None:
    """Why the accumulation is not its default: a global batch is written, and its number is not known."""
    total = plan.setting("batch.global")
    return total if isinstance(total, Unknown) and total.reason != AUTO else None


def _local_batches(total: int, micro: int, ranks: int, remainder: str) -> int | None:
    """The micro-batches that one rank makes of its part of a batch; None where it does not divide and has to."""
    part, left = divmod(total, ranks)
    count, rest = divmod(part, micro)
    if (left and remainder != "dropped") or (rest and remainder != "smaller"):
        return None
    return (count + 1 if rest else count) or None


@rule("batch.global")
def _global(plan: Plan) -> Value | None:
    micro, count, ranks = plan.integer("batch.micro"), plan.integer("batch.accumulation"), counted_ranks(plan)
    if micro is None or count is None or ranks is None:
        return None
    return derived(micro * count * ranks, "batch.micro", "batch.accumulation", "parallel.data")


@rule("batch.micro")
def _micro(plan: Plan) -> Value | None:
    if isinstance(plan.setting("batch.accumulation"), Unknown):
        return None
    total, ranks = plan.stated("batch.global"), counted_ranks(plan)
    count = stated_integer(plan, "batch.accumulation") or 1
    if total is None or not isinstance(total.value, int) or not ranks or total.value % (ranks * count):
        return None
    return derived(total.value // (ranks * count), "batch.global", "batch.accumulation", "parallel.data")


@rule("schedule.microbatches")
def _microbatches(plan: Plan) -> Value | Unknown | None:
    if plan.word("framework") in _CUT_THE_LOCAL_BATCH and (plan.integer("parallel.pipeline") or 1) > 1:
        return Unknown("PyTorch's schedules cut the local batch themselves", "--set schedule.microbatches=N")
    found = plan.get("batch.accumulation")
    return derived(found.value, "batch.accumulation") if isinstance(found, Value) else found


_CUT_THE_LOCAL_BATCH = ("fsdp", "ddp", "pytorch")
"""Frameworks whose pipelines of torch.distributed.pipelining cut a rank's batch as their code says."""


@rule("schedule.kind")
def _schedule(plan: Plan) -> Value | None:
    chunks = plan.integer("parallel.virtual_pipeline") or 1
    return derived("interleaved", "parallel.virtual_pipeline") if chunks > 1 else None


@rule("schedule.group")
def _group(plan: Plan) -> Value | None:
    """As many micro-batches as there are stages in Megatron's interleaved schedule (model_parallel_config.py)."""
    interleaved = plan.word("schedule.kind") == "interleaved" and plan.word("framework") in ("megatron", "nemo")
    return same(plan, "parallel.pipeline") if interleaved else None


@rule("parallel.pipeline_engine")
def _pipeline_engine(plan: Plan) -> Value | None:
    """Megatron-DeepSpeed builds a pipeline even of one stage, unless it is told not to; what another program makes of
    one is not known.
    """
    stages, framework = plan.integer("parallel.pipeline"), plan.word("framework")
    undecided = stages == 1 and isinstance(plan.setting("parallel.pipeline_engine"), Unknown)
    if stages is None or undecided or (stages == 1 and framework is None):
        return None
    return derived(stages > 1 or framework == "megatron-deepspeed", "parallel.pipeline", "framework")


@rule("parallel.virtual_pipeline")
def _virtual_pipeline(plan: Plan) -> Value | None:
    return derived(1, "parallel.pipeline") if plan.integer("parallel.pipeline") == 1 else None
