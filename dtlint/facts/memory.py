"""Facts about the memory of one GPU: what it holds, what it has, and whether that fits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dtlint.cost import Memory, sizes
from dtlint.cost.sizing import reference_share, sharded_bytes, unsharded_bytes
from dtlint.facts.registry import (
    DEGREES,
    SIZING,
    FactValue,
    fact,
    first_unknown,
    lower,
    missing,
    narrow,
    register,
)
from dtlint.interval import Interval, hull, point
from dtlint.plan import Infeasible, Plan, term
from dtlint.value import Plain, Unknown

_RECOMPUTED: Mapping[str, Plain] = {"checkpointing.activations": "full"}
MEMORY_MARGIN = 1.1
"""The memory model's measured error on top of a high end before a plan is said to fit (docs/cost.md)."""


@register(
    "memory.parameters_held",
    "number",
    "parameters",
    ("model.parameters", "parallel.tensor", "parallel.pipeline"),
    "zero",
)
def parameters_held(plan: Plan) -> FactValue:
    """Parameters of one model-parallel rank before ZeRO: N / (TP x PP)."""
    count = plan.number("model.parameters")
    unknown = first_unknown(plan, "parallel.tensor", "parallel.pipeline")
    if count is None or unknown is not None:
        return unknown or missing(plan, "model.parameters")
    return count / ((plan.integer("parallel.tensor") or 1) * (plan.integer("parallel.pipeline") or 1))


@register("memory.available_bytes", "number", "bytes", ("cluster.gpu", "cluster.gpu_memory_gib"), "catalog")
def available_bytes(plan: Plan) -> FactValue:
    """What one GPU has in total."""
    found = plan.number("cluster.gpu_memory_gib")
    return found * 2**30 if found is not None else missing(plan, "cluster.gpu")


@register("memory.bytes_per_parameter", "number", "bytes", ("framework", "precision.compute", "optimizer.name"), "zero")
def bytes_per_parameter(plan: Plan) -> FactValue:
    """What this framework keeps for one parameter before sharding: 16 with 16-bit gradients and Adam, 18 with fp32."""
    found = unsharded_bytes(plan)
    return found if isinstance(found, Unknown) else narrow(found)


@register(
    "memory.states_bytes", "number", "bytes", ("model.parameters", "sharding.stage", *DEGREES, "framework"), "zero"
)
def states_bytes(plan: Plan) -> FactValue:
    """Weights, gradients and optimizer states of one GPU."""
    found = _memory(plan, lambda each: each.states_bytes)
    return _states_alone(plan) if isinstance(found, Unknown) else found


@register(
    "memory.stage1_states_bytes",
    "number",
    "bytes",
    ("model.parameters", *DEGREES, "framework"),
    "megatron-distributed-optimizer",
)
def stage1_states_bytes(plan: Plan) -> FactValue:
    """The states of one GPU with the optimizer shared out over data parallelism."""
    changed = plan.but({"sharding.stage": 1})
    return Unknown(changed.reason) if isinstance(changed, Infeasible) else fact(changed, "memory.states_bytes")


@register(
    "memory.weights_only_bytes", "number", "bytes", ("model.parameters", "parallel.tensor", "parallel.pipeline"), "seed"
)
def weights_only_bytes(plan: Plan) -> FactValue:
    """The view that counts weights only: 2 bytes a parameter, nothing else."""
    held = fact(plan, "memory.parameters_held")
    return held if isinstance(held, Unknown) else 2 * lower(held)


@register("checkpointing.by_deepspeed", "flag", "", ("checkpointing.activations",), "deepspeed-checkpointing")
def by_deepspeed(plan: Plan) -> FactValue:
    """Whether the program speaks of DeepSpeed's function of recomputation, which reads the section of its config."""
    return bool(plan.collection("code.deepspeed_checkpoints"))


@register(
    "memory.activations_bytes",
    "number",
    "bytes",
    ("batch.micro", "data.sequence_length", "checkpointing.activations", "parallel.sequence"),
    "korthikanti",
)
def activations_bytes(plan: Plan) -> FactValue:
    """Activations kept for the backward pass on the most loaded GPU."""
    return _memory(plan, _activations)


def _activations(found: Memory) -> float:
    return found.parts.get("activations", 0.0) + found.parts.get("working", 0.0)


@register(
    "memory.kept_inputs_bytes",
    "number",
    "bytes",
    ("batch.micro", "data.sequence_length", "checkpointing.activations", "parallel.sequence"),
    "korthikanti",
)
def kept_inputs_bytes(plan: Plan) -> FactValue:
    """The same without what one layer takes while it is recomputed: the inputs of the layers, if all are."""
    return _memory(plan, lambda found: found.parts.get("activations", 0.0))


@register(
    "memory.sequence_parallel_activations_bytes",
    "number",
    "bytes",
    ("batch.micro", "data.sequence_length", "parallel.tensor"),
    "korthikanti",
)
def sequence_parallel_activations_bytes(plan: Plan) -> FactValue:
    """The same with sequence parallelism."""
    return _with(plan, {"parallel.sequence": True}, "memory.activations_bytes")


@register(
    "memory.sequence_parallel_saving_bytes",
    "number",
    "bytes",
    ("batch.micro", "data.sequence_length", "parallel.tensor"),
    "korthikanti",
)
def sequence_parallel_saving_bytes(plan: Plan) -> FactValue:
    """The activations that sequence parallelism saves, each completion of the plan against its own."""
    changed = plan.but({"parallel.sequence": True})
    if isinstance(changed, Infeasible):
        return Unknown(changed.reason)
    today, then = sizes(plan), sizes(changed)
    if isinstance(today, Unknown) or isinstance(then, Unknown):
        return today if isinstance(today, Unknown) else missing(changed, "batch.micro")
    pairs = zip(today.memories, then.memories, strict=True)
    return narrow(hull(_activations(each) - _activations(other) for each, other in pairs))


@register("memory.overflows_with_sequence_parallelism", "flag", "", SIZING, "korthikanti")
def overflows_with_sequence_parallelism(plan: Plan) -> FactValue:
    """Whether the plan would run out of memory with sequence parallelism too."""
    return _with(plan, {"parallel.sequence": True}, "memory.overflows")


@register(
    "memory.checkpointed_activations_bytes", "number", "bytes", ("batch.micro", "data.sequence_length"), "korthikanti"
)
def checkpointed_activations_bytes(plan: Plan) -> FactValue:
    """The same with every layer recomputed."""
    return _with(plan, _RECOMPUTED, "memory.activations_bytes")


@register("memory.gathered_bytes", "number", "bytes", ("sharding.units", "model.parameters"), "torch-fsdp")
def gathered_bytes(plan: Plan) -> FactValue:
    """Whole weights that FSDP or ZeRO-3 holds while it computes with them."""
    return _memory(plan, lambda each: each.parts.get("gathered", 0.0))


@register("memory.reference_bytes", "number", "bytes", ("model.reference_copies", *SIZING), "dpo")
def reference_bytes(plan: Plan) -> FactValue:
    """Models that answer beside the one that trains, as far as there certainly is one."""
    found = _memory(plan, lambda each: each.parts.get("reference", 0.0))
    if isinstance(found, Unknown):
        found = _reference_alone(plan)
    none = not isinstance(found, Unknown) and not lower(found)
    return Unknown("no model certainly lies beside the one that trains", "") if none else found


@register("memory.peak_bytes", "number", "bytes", SIZING, "zero")
def peak_bytes(plan: Plan) -> FactValue:
    """What one GPU needs at the peak, as nvidia-smi shows it: states, activations, buffers, allocator, CUDA context."""
    found = _memory(plan, lambda each: each.device_bytes)
    return _least(plan) if isinstance(found, Unknown) else found


@register("memory.overflows", "flag", "", SIZING, "zero")
def overflows(plan: Plan) -> FactValue:
    """Whether the plan needs more memory than the GPU has.

    True when even the low end does, false when the high end with the model's error on top does not.
    """
    needed, has = fact(plan, "memory.peak_bytes"), _available(plan)
    if isinstance(needed, Unknown) or has is None:
        return needed if isinstance(needed, Unknown) else missing(plan, "cluster.gpu")
    low, high = (needed.low, needed.high) if isinstance(needed, Interval) else (lower(needed), lower(needed))
    if low > has.high:
        return True
    whole = sizes(plan)
    if isinstance(whole, Unknown):
        return whole
    return (
        False
        if high * MEMORY_MARGIN <= has.low
        else Unknown("the settings that are assumed decide whether it fits", _how_assumed(whole.completed.assumed))
    )


@register("memory.fits_with_checkpointing", "flag", "", SIZING, "korthikanti")
def fits_with_checkpointing(plan: Plan) -> FactValue:
    """Whether recomputing every layer may make it fit."""
    needed = _with(plan, _RECOMPUTED, "memory.peak_bytes")
    return needed if isinstance(needed, Unknown) else _with(plan, _RECOMPUTED, "memory.overflows") is not True


def _memory(plan: Plan, read: Callable[[Memory], float]) -> FactValue:
    """A number of the memory over every completion of what the plan leaves open."""
    found = sizes(plan)
    return found if isinstance(found, Unknown) else narrow(hull(map(read, found.memories)))


def _states_alone(plan: Plan) -> FactValue:
    """Model states where the shape is unknown: a lower end that needs the number of parameters only."""
    held, each = fact(plan, "memory.parameters_held"), sharded_bytes(plan)
    if isinstance(held, Unknown) or isinstance(each, Unknown):
        return held if isinstance(held, Unknown) else each
    return lower(held) * each


def _least(plan: Plan) -> FactValue:
    """Model states and the models beside, where the shape is unknown."""
    states, reference = _states_alone(plan), _reference_alone(plan)
    if isinstance(states, Unknown) or isinstance(reference, Unknown):
        return states
    return lower(states) + lower(reference)


def _reference_alone(plan: Plan) -> FactValue:
    """The least that the models take which answer and do not train, where the shape is unknown."""
    held, each = fact(plan, "memory.parameters_held"), reference_share(plan)
    return held if isinstance(held, Unknown) else lower(held) * each


def _available(plan: Plan) -> Interval | None:
    found = plan.number("cluster.gpu_memory_gib")
    if found is not None:
        return point(found * 2**30)
    return _bounds("cluster.gpu_memory_gib", 2**30)


def _bounds(name: str, unit: float) -> Interval | None:
    low, high = term(name).pessimistic, term(name).optimistic
    return (
        Interval(float(low) * unit, float(high) * unit)
        if isinstance(low, (int, float)) and isinstance(high, (int, float))
        else None
    )


def _how_assumed(assumed: Sequence[str]) -> str:
    return " ".join(f"--set {name}=..." for name in assumed[:3])


def _with(plan: Plan, changes: Mapping[str, Plain], name: str) -> FactValue:
    changed = plan.but(changes)
    return Unknown(changed.reason) if isinstance(changed, Infeasible) else fact(changed, name)
