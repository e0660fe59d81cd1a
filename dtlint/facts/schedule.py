"""Facts about the micro-batches of a pipeline: uneven stages, and the first steps of a batch that grows."""

from __future__ import annotations

from dtlint.cost import sizes
from dtlint.cost.job import Job
from dtlint.cost.pipeline import bubble
from dtlint.cost.step import mean_seconds, worked_stages
from dtlint.facts.registry import SIZING, TIMING, FactValue, fact, missing, narrow, register
from dtlint.interval import hull
from dtlint.plan import Infeasible, Plan
from dtlint.plan.derived.batch import counted_ranks
from dtlint.value import Unknown


@register("pipeline.imbalance", "number", "share of a micro-batch", (*TIMING, "model.vocab"), "cost model")
def imbalance(plan: Plan) -> FactValue:
    """The share of each micro-batch that the mean stage waits for the slowest one."""
    layers, count = plan.integer("model.layers"), plan.integer("parallel.pipeline")
    if layers and count and layers % count and plan.stated("parallel.stage_layers") is None:
        return Unknown(
            f"how {layers} layers are cut into {count} stages is not told", "--set parallel.stage_layers=..."
        )
    told = plan.setting("parallel.stage_layers")
    if isinstance(told, Unknown):
        return told
    found = sizes(plan)
    if isinstance(found, Unknown):
        return found
    return narrow(hull(map(_waiting, found.completed.jobs)))


def _waiting(job: Job) -> float:
    worked = worked_stages(job)
    return 1 - mean_seconds(job, worked) / max(work.seconds for _, work in worked)


@register("batch.ranks", "number", "ranks", ("parallel.data", "parallel.tensor"), "deepspeed-batch")
def batch_ranks(plan: Plan) -> FactValue:
    """Ranks whose micro-batches the framework counts into the global batch."""
    found = counted_ranks(plan)
    return found if found is not None else missing(plan, "parallel.data")


@register("memory.overflows_with_1f1b", "flag", "", SIZING, "megatron-sc21")
def overflows_with_1f1b(plan: Plan) -> FactValue:
    """Whether the plan would run out of memory if backward passes began as early as they can."""
    return _with_1f1b(plan, "memory.overflows")


@register("memory.activations_with_1f1b_bytes", "number", "bytes", SIZING, "megatron-sc21")
def activations_with_1f1b(plan: Plan) -> FactValue:
    """Activations of the most loaded GPU then: of as many micro-batches as there are stages, at most."""
    return _with_1f1b(plan, "memory.activations_bytes")


def _with_1f1b(plan: Plan, name: str) -> FactValue:
    changed = plan.but({"schedule.kind": "1f1b"})
    return Unknown(changed.reason) if isinstance(changed, Infeasible) else fact(changed, name)


@register("batch.first_of_ramp", "number", "samples", ("batch.rampup",), "megatron-arguments")
def first_of_ramp(plan: Plan) -> FactValue:
    """The global batch that the run starts with."""
    sizes_ = _ramp(plan)
    return sizes_[0] if sizes_ else missing(plan, "batch.rampup")


@register(
    "batch.ramp_misfit", "number", "samples", ("batch.rampup", "batch.micro", "parallel.data"), "megatron-arguments"
)
def ramp_misfit(plan: Plan) -> FactValue:
    """The first global batch of the ramp that is no multiple of micro batch x DP, 0 if all are."""
    sizes_, local = _ramp(plan), _local_batch(plan)
    if not sizes_ or local is None:
        return missing(plan, "batch.rampup", "batch.micro", "parallel.data")
    return next((size for size in sizes_ if size % local), 0)


@register(
    "pipeline.ramp_microbatches",
    "number",
    "micro-batches",
    ("batch.rampup", "batch.micro", "parallel.data"),
    "megatron-arguments",
)
def ramp_microbatches(plan: Plan) -> FactValue:
    """Micro-batches of one pipeline flush at the batch that the run starts with."""
    sizes_, local = _ramp(plan), _local_batch(plan)
    if not sizes_ or local is None:
        return missing(plan, "batch.rampup", "batch.micro", "parallel.data")
    return max(1, sizes_[0] // local)


@register(
    "pipeline.ramp_bubble",
    "number",
    "share of a step",
    ("batch.rampup", "batch.micro", "parallel.data", "parallel.pipeline", "parallel.virtual_pipeline"),
    "gpipe",
)
def ramp_bubble(plan: Plan) -> FactValue:
    """The share of a step that a stage idles at the batch that the run starts with."""
    count, degree = ramp_microbatches(plan), plan.integer("parallel.pipeline")
    if not isinstance(count, int) or degree is None:
        return count if isinstance(count, Unknown) else missing(plan, "parallel.pipeline")
    return bubble(degree, count, plan.integer("parallel.virtual_pipeline") or 1, plan.word("schedule.kind") or "1f1b")


def _ramp(plan: Plan) -> tuple[int, ...]:
    found = plan.value("batch.rampup")
    return tuple(size for size in found if isinstance(size, int)) if isinstance(found, tuple) else ()


def _local_batch(plan: Plan) -> int | None:
    micro, data = plan.integer("batch.micro"), plan.integer("parallel.data")
    return None if micro is None or data is None else micro * data
