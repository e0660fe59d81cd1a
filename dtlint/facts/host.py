"""Facts about the main memory of one machine: what loading and offloading need of it."""

from __future__ import annotations

from dtlint.cost.sizing import hosted_bytes
from dtlint.facts.registry import FactValue, fact, first_unknown, lower, missing, register
from dtlint.plan import Plan
from dtlint.value import Unknown


@register(
    "host.copies",
    "number",
    "copies",
    ("loading.whole_copies", "launch.processes_per_node"),
    "transformers-fsdp-loading",
)
def copies(plan: Plan) -> FactValue:
    """Whole checkpoints that one machine holds in main memory while the model is loaded."""
    which, processes = plan.word("loading.whole_copies"), plan.integer("launch.processes_per_node")
    if which is None:
        return missing(plan, "loading.whole_copies")
    if which == "all":
        return processes if processes is not None else missing(plan, "launch.processes_per_node")
    return 1 if which == "first" else 0


@register(
    "host.offloaded_bytes",
    "number",
    "bytes",
    ("model.parameters", "sharding.stage", "sharding.offload_optimizer", "sharding.offload_parameters"),
    "deepspeed-memory",
)
def offloaded_bytes(plan: Plan) -> FactValue:
    """What offloading keeps in the main memory of one machine: 16N / machines for an optimizer with its gradients.

    A lower end: buffers, pinned copies and what the program itself holds come on top (DeepSpeed's own estimate takes
    half as much again).
    """
    held, each, processes = (
        fact(plan, "memory.parameters_held"),
        hosted_bytes(plan),
        plan.integer("launch.processes_per_node"),
    )
    unknown = next((found for found in (held, each) if isinstance(found, Unknown)), None)
    if unknown is not None or processes is None:
        return unknown or first_unknown(plan, "launch.processes_per_node") or missing(plan, "launch.processes_per_node")
    return lower(held) * lower(each) * processes
