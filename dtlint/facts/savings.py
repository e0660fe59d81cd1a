"""Facts about other plans on the same machines: what the step would save by one change that certainly fits.

Each saving is (today - changed) / today over the whole step, 0 where no such change fits or today's plan itself does
not start or runs out of memory (that is another fault), and unknown where it is not decided whether the change fits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from dtlint.cost import estimate
from dtlint.facts.pipeline import saved_share
from dtlint.facts.registry import SIZING, TIMING, FactValue, fact, lower, missing, narrow, register, uncounted
from dtlint.interval import Interval
from dtlint.plan import Infeasible, Plan
from dtlint.plan.constraints import violations
from dtlint.record import NamedTuple
from dtlint.value import Plain, Unknown

Change = Mapping[str, Plain]

OFFLOADS = ("sharding.offload_optimizer", "sharding.offload_parameters")


class Better(NamedTuple):
    """The change that saves most, and the share of today's step that it saves; no change and 0 where none fits."""

    change: Change
    saving: FactValue


@register("saving.no_offload", "number", "share of a step", (*OFFLOADS, *SIZING, "batch.global"), "zero")
def no_offload(plan: Plan) -> FactValue:
    """What the step saves with optimizer and parameters, or the parameters alone, back on the GPU."""
    on_gpu: tuple[Change, ...] = (dict.fromkeys(OFFLOADS, "none"), {OFFLOADS[1]: "none"})
    return _saving(plan, [change for change in on_gpu if _changes(plan, change)])


@register("memory.states_without_offload_bytes", "number", "bytes", SIZING, "zero")
def states_without_offload(plan: Plan) -> FactValue:
    """Weights, gradients and optimizer states of one GPU if nothing were offloaded; up to those of a model that trains
    whole where it is not known which part of it does.
    """
    changed = plan.but(dict.fromkeys(OFFLOADS, "none"))
    if isinstance(changed, Infeasible):
        return Unknown(changed.reason)
    found, each = fact(changed, "memory.states_bytes"), fact(changed, "memory.bytes_per_parameter")
    if isinstance(found, Unknown | Interval) or not isinstance(each, Interval) or not each.low:
        return found
    return Interval(lower(found), lower(found) * each.high / each.low)


@register("memory.overflows_with_small_buckets", "flag", "", SIZING, "deepspeed-memory")
def overflows_with_small_buckets(plan: Plan) -> FactValue:
    """Whether the plan would run out of memory with communication buckets of 0.1 GB."""
    return _overflows(plan, {"communication.bucket_bytes": 1e8})


@register("memory.overflows_at_stage3", "flag", "", SIZING, "zero")
def overflows_at_stage3(plan: Plan) -> FactValue:
    """Whether the plan would run out of memory with the weights shared out too."""
    return _overflows(plan, {"sharding.stage": 3})


def _overflows(plan: Plan, change: Change) -> FactValue:
    changed = plan.but(change)
    return Unknown(changed.reason) if isinstance(changed, Infeasible) else fact(changed, "memory.overflows")


@register("saving.lower_stage", "number", "share of a step", (*SIZING, "batch.global"), "zero")
def lower_stage(plan: Plan) -> FactValue:
    """What the step saves at a lower sharding stage, with the overlap of today."""
    return uncounted(plan) or _saving(plan, _lower_stages(plan))


@register("sharding.enough_stage", "number", "", (*SIZING, "batch.global"), "zero")
def enough_stage(plan: Plan) -> FactValue:
    """The sharding stage, at most today's, at which the plan certainly fits and the step is fastest."""
    best = uncounted(plan) or _best(plan, _lower_stages(plan))
    if isinstance(best, Unknown):
        return best
    stage = best.change.get("sharding.stage", plan.value("sharding.stage"))
    return stage if isinstance(stage, int) else missing(plan, "sharding.stage")


@register("saving.less_recompute", "number", "share of a step", (*SIZING, "batch.global"), "korthikanti")
def less_recompute(plan: Plan) -> FactValue:
    """What the step saves if nothing, or the attention alone, is recomputed."""
    return _saving(plan, _less_recompute(plan))


@register("checkpointing.enough", "word", "", (*SIZING, "batch.global"), "korthikanti")
def enough_checkpointing(plan: Plan) -> FactValue:
    """How much must be recomputed for the plan to fit certainly: none, selective, or as much as today."""
    best = _best(plan, _less_recompute(plan))
    if isinstance(best, Unknown):
        return best
    return str(best.change.get("checkpointing.activations", plan.value("checkpointing.activations")))


@register("saving.interleaving", "number", "share of a step", (*TIMING, "parallel.virtual_pipeline"), "megatron-sc21")
def interleaving(plan: Plan) -> FactValue:
    """What the step saves with a few chunks of layers for each rank."""
    return _saving(plan, _interleaved(plan))


@register("pipeline.chunks_to_interleave", "number", "chunks", (*TIMING, "parallel.virtual_pipeline"), "megatron-sc21")
def chunks_to_interleave(plan: Plan) -> FactValue:
    """The chunks of layers of a rank, 1 to 3, with which the step is fastest."""
    best = _best(plan, _interleaved(plan))
    return best if isinstance(best, Unknown) else int(str(best.change.get("parallel.virtual_pipeline", 1)))


@register("saving.tensor_overlap", "number", "share of a step", (*TIMING, "overlap.tensor"), "cost model")
def tensor_overlap(plan: Plan) -> FactValue:
    """What the step saves if tensor-parallel communication runs beside the matrix products."""
    return _saving(plan, [{"overlap.tensor": True}])


@register("saving.larger_micro", "number", "share of a step", (*SIZING, "batch.global"), "cost model")
def larger_micro(plan: Plan) -> FactValue:
    """What the step saves with twice the micro-batch at the same global batch."""
    micro = plan.integer("batch.micro")
    return missing(plan, "batch.micro") if micro is None else _saving(plan, [{"batch.micro": 2 * micro}])


@register("saving.kept_parameters", "number", "share of a step", (*SIZING, "batch.global"), "torch-fully-shard")
def kept_parameters(plan: Plan) -> FactValue:
    """What the step saves if gathered parameters stay until the backward pass."""
    return uncounted(plan) or _saving(plan, [{"sharding.reshard_after_forward": False}])


@register("saving.narrow_reduce", "number", "share of a step", (*TIMING, "precision.reduce"), "cost model")
def narrow_reduce(plan: Plan) -> FactValue:
    """What the step saves if gradients travel in bf16."""
    keeps = plan.word("framework") in ("megatron", "nemo")
    names = ("precision.gradients", "precision.reduce") if keeps else ("precision.reduce",)
    return _saving(plan, [dict.fromkeys(names, "bf16")])


@register("saving.narrower_tensor", "number", "share of a step", (*SIZING, "batch.global"), "megatron-sc21")
def narrower_tensor(plan: Plan) -> FactValue:
    """What the step saves with fewer tensor-parallel and more data-parallel ranks."""
    return _saving(plan, _narrower_tensor(plan))


@register("topology.enough_tensor", "number", "ranks", (*SIZING, "batch.global"), "megatron-sc21")
def enough_tensor(plan: Plan) -> FactValue:
    """The tensor-parallel width, at most today's, with which the plan certainly fits and the step is fastest."""
    best = _best(plan, _narrower_tensor(plan))
    if isinstance(best, Unknown):
        return best
    width = best.change.get("parallel.tensor", plan.value("parallel.tensor"))
    return width if isinstance(width, int) else missing(plan, "parallel.tensor")


def _narrower_tensor(plan: Plan) -> Iterator[Change]:
    today = plan.integer("parallel.tensor") or 1
    return (_narrowed(plan, width, today) for width in range(1, today) if today % width == 0)


def _narrowed(plan: Plan, width: int, today: int) -> Change:
    """A width, with a smaller micro-batch where the global batch is too small for as many more ranks of today's."""
    alone, micro = {"parallel.tensor": width}, (plan.integer("batch.micro") or 0) * width
    if micro == 0 or micro % today or not isinstance(plan.but(alone), Infeasible):
        return alone
    return {**alone, "batch.micro": micro // today}


def _lower_stages(plan: Plan) -> Iterator[Change]:
    """Overlap stays as it is today: its default hangs on the stage, and to switch it on is another remedy."""
    stage, overlap = plan.integer("sharding.stage") or 0, plan.flag("overlap.gradients") is not False
    return ({"sharding.stage": lower, "overlap.gradients": overlap} for lower in range(1, stage))


def _less_recompute(plan: Plan) -> Sequence[Change]:
    """None where the layers to recompute are chosen already."""
    if plan.integer("checkpointing.layers") is not None:
        return ()
    words = ("none", "selective") if plan.word("framework") in ("megatron", "nemo", "torchtitan") else ("none",)
    return [{"checkpointing.activations": word} for word in words]


def _interleaved(plan: Plan) -> Sequence[Change]:
    """Few chunks only: each sends its activations to the next stage, and the memory of the first stage grows."""
    return [{"parallel.virtual_pipeline": chunks} for chunks in (2, 3)]


def _changes(plan: Plan, change: Change) -> bool:
    return any(plan.value(name) != value for name, value in change.items())


def _saving(plan: Plan, changes: Iterable[Change]) -> FactValue:
    best = _best(plan, changes)
    return best if isinstance(best, Unknown) else best.saving


def _best(plan: Plan, changes: Iterable[Change]) -> Better | Unknown:
    """The change that saves most at the low end, of those that certainly fit; unknown where none does and one may."""
    today = estimate(plan)
    if isinstance(today, Unknown):
        return today
    best, doubt = Better({}, 0.0), None
    if violations(plan) or fact(plan, "memory.overflows") is True:
        return best
    for change in changes:
        saved = _saved(plan, change)
        if isinstance(saved, Unknown):
            doubt = doubt or saved
        elif lower(saved) > lower(best.saving):
            best = Better(change, saved)
    return doubt if doubt is not None and not best.change else best


def _saved(plan: Plan, change: Change) -> FactValue:
    changed = plan.but(change)
    if isinstance(changed, Infeasible):
        return 0.0
    overflows = fact(changed, "memory.overflows")
    if overflows is not False:
        return overflows if isinstance(overflows, Unknown) else 0.0
    before, after = estimate(plan), estimate(changed)
    if isinstance(before, Unknown) or isinstance(after, Unknown):
        return before if isinstance(before, Unknown) else missing(plan, "cluster.gpu")
    return narrow(saved_share(before, after))
