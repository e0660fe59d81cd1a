"""Facts about what crosses the network: tokens, keys and values, sharded parameters; and a copy of these in a node."""

from __future__ import annotations

from collections.abc import Callable

from dtlint.catalog import gpu
from dtlint.cost import Point, estimate, sizes
from dtlint.cost.data_parallel import too_large_to_prefetch
from dtlint.cost.traffic import sent_bytes
from dtlint.facts.registry import (
    DEGREES,
    SIZING,
    TIMING,
    FactValue,
    fact,
    lower,
    missing,
    number_of,
    over_completions,
    register,
    uncounted,
)
from dtlint.plan import Infeasible, Plan
from dtlint.value import Unknown

HALF_PRECISION = 2
"""Bytes of a gathered 16-bit weight."""
SLOW_COMPUTE = 0.4
"""Share of a GPU's peak that training sustains where it is slow (docs/accuracy.md), which hides the most."""
TERA, GIGABIT = 1e12, 1.25e8
"""FLOPs of a TFLOP, and bytes of a Gbit."""

_GROUP = ("model.parameters", "cluster.nvlink_domain", "parallel.tensor", "parallel.pipeline")


@register("step.exposed_expert_seconds", "number", "s", TIMING, "cost model")
def exposed_expert_seconds(plan: Plan) -> FactValue:
    """Seconds of a step that wait for tokens on their way to and from experts."""
    return over_completions(plan, lambda each: each.step.expert)


@register("step.exposed_expert_share", "number", "share of a step", TIMING, "cost model")
def exposed_expert_share(plan: Plan) -> FactValue:
    """The same as a share of the step."""
    return over_completions(plan, lambda each: each.step.expert / each.step_seconds)


@register("step.exposed_context_seconds", "number", "s", TIMING, "cost model")
def exposed_context_seconds(plan: Plan) -> FactValue:
    """Seconds of a step that wait for keys and values of other context-parallel ranks."""
    return over_completions(plan, lambda each: each.step.context)


@register("step.exposed_context_share", "number", "share of a step", TIMING, "cost model")
def exposed_context_share(plan: Plan) -> FactValue:
    """The same as a share of the step."""
    return over_completions(plan, lambda each: each.step.context / each.step_seconds)


@register("step.usual_exposed_expert_share", "number", "share of a step", TIMING, "cost model")
def usual_exposed_expert_share(plan: Plan) -> FactValue:
    """The share of a step that waits for tokens where what is not told is as it usually is, the network as the GPU's
    nodes mostly have it.
    """
    return _usual(plan, lambda each: each.step.expert / each.step_seconds)


@register("step.usual_exposed_context_share", "number", "share of a step", TIMING, "cost model")
def usual_exposed_context_share(plan: Plan) -> FactValue:
    """The share of a step that waits for keys and values then."""
    return _usual(plan, lambda each: each.step.context / each.step_seconds)


def _usual(plan: Plan, read: Callable[[Point], float]) -> FactValue:
    found = estimate(plan)
    return found if isinstance(found, Unknown) else read(found.middle)


@register("communication.shard_step_bytes", "number", "bytes", SIZING, "zero")
def shard_step_bytes(plan: Plan) -> FactValue:
    """What one rank sends in a step to gather sharded parameters and scatter gradients."""
    found = uncounted(plan) or sizes(plan)
    return found if isinstance(found, Unknown) else sent_bytes(found.completed.typical).get("data", 0.0)


@register("communication.shard_micro_bytes", "number", "bytes", SIZING, "zero")
def shard_micro_bytes(plan: Plan) -> FactValue:
    """The same for one micro-batch: at stage 3 two gathers and a scatter of all weights."""
    found, count = fact(plan, "communication.shard_step_bytes"), plan.integer("schedule.microbatches")
    if isinstance(found, Unknown) or not count:
        return found if isinstance(found, Unknown) else missing(plan, "schedule.microbatches")
    return lower(found) / count


@register(
    "communication.hiding_tokens",
    "number",
    "tokens",
    ("cluster.gpu", "cluster.internode_gbit_per_s", "sharding.group", *DEGREES, "cluster.nvlink_domain"),
    "zero",
)
def hiding_tokens(plan: Plan) -> FactValue:
    """Tokens of a GPU's micro-batch that last as long to compute as the network of a node takes for sharded parameters.

    6 FLOPs a parameter and token stand against 6 bytes a parameter, two gathers and a scatter, of which the share of
    the other nodes enters each node: the number of parameters cancels out.
    """
    name, gbit = plan.word("cluster.gpu"), plan.number("cluster.internode_gbit_per_s")
    found, nodes = gpu(name) if name is not None else None, fact(plan, "topology.shard_nodes")
    if found is None or found.bf16_tflops is None or not gbit:
        return missing(plan, "cluster.internode_gbit_per_s" if found is not None else "cluster.gpu")
    if isinstance(nodes, Unknown):
        return nodes
    entering = (lower(nodes) - 1) / lower(nodes)
    return found.bf16_tflops * TERA * SLOW_COMPUTE * entering / (gbit * GIGABIT)


@register("communication.fetched_ahead", "flag", "", ("framework", "model.layers", "parallel.tensor"), "cost model")
def fetched_ahead(plan: Plan) -> FactValue:
    """Whether prefetching gathers each weight ahead of its use; the bucket of ZeRO-3 has no room for large ones."""
    found = sizes(plan)
    return found if isinstance(found, Unknown) else not too_large_to_prefetch(found.completed.typical)


@register("memory.node_copy_bytes", "number", "bytes", _GROUP, "zeropp")
def node_copy_bytes(plan: Plan) -> FactValue:
    """What a second copy of the weights, shared out over the GPUs of one node, takes on each of them."""
    held, domain = fact(plan, "memory.parameters_held"), plan.integer("cluster.nvlink_domain")
    if isinstance(held, Unknown) or not domain:
        return held if isinstance(held, Unknown) else missing(plan, "cluster.nvlink_domain")
    return HALF_PRECISION * lower(held) / domain


@register("memory.near_states_bytes", "number", "bytes", (*_GROUP, "sharding.group", "framework"), "zeropp")
def near_states_bytes(plan: Plan) -> FactValue:
    """States of a GPU where parameters are gathered inside the node: shared out there, or over all ranks beside
    DeepSpeed's copy of the weights.
    """
    domain, group = plan.integer("cluster.nvlink_domain"), plan.integer("sharding.group")
    whole, held = fact(plan, "memory.bytes_per_parameter"), fact(plan, "memory.parameters_held")
    copy = fact(plan, "memory.node_copy_bytes") if plan.word("framework") == "deepspeed" else 0.0
    unknown = next((found for found in (whole, held, copy) if isinstance(found, Unknown)), None)
    if unknown is not None or not domain or not group:
        return unknown or missing(plan, "sharding.group" if domain else "cluster.nvlink_domain")
    ranks = group if plan.word("framework") == "deepspeed" else domain
    return lower(copy) + lower(whole) * lower(held) / ranks


@register("memory.node_copy_fits", "flag", "", (*SIZING, "cluster.nvlink_domain"), "zeropp")
def node_copy_fits(plan: Plan) -> FactValue:
    """Whether that copy may fit beside what the plan needs today, with communication buckets made small."""
    copy, needed = fact(plan, "memory.node_copy_bytes"), fact(plan, "memory.peak_bytes")
    buckets, available = fact(plan, "memory.buckets_bytes"), number_of(plan.get("cluster.gpu_memory_gib"))
    unknown = next((found for found in (copy, needed, available) if isinstance(found, Unknown)), None)
    if unknown is not None:
        return unknown
    return lower(copy) + lower(needed) - lower(buckets) <= lower(available) * 2**30


@register("sharding.fits_in_node", "flag", "", (*SIZING, "cluster.nvlink_domain"), "torch-fsdp")
def fits_in_node(plan: Plan) -> FactValue:
    """Whether states that are shared out over the GPUs of one node only, with a replica in each, certainly fit."""
    domain = plan.integer("cluster.nvlink_domain")
    if not domain:
        return missing(plan, "cluster.nvlink_domain")
    changed = plan.but({"sharding.group": domain})
    if isinstance(changed, Infeasible):
        return False
    overflows = fact(changed, "memory.overflows")
    return overflows if isinstance(overflows, Unknown) else not overflows
