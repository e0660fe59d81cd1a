"""Facts about what crosses the network: tokens, keys and values, sharded parameters; and a copy of these in a node."""

from __future__ import annotations

from dtlint.cost import sizes
from dtlint.cost.traffic import sent_bytes
from dtlint.facts.registry import (
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


@register("memory.node_copy_bytes", "number", "bytes", _GROUP, "zeropp")
def node_copy_bytes(plan: Plan) -> FactValue:
    """What a second copy of the weights, shared out over the GPUs of one node, takes on each of them."""
    held, domain = fact(plan, "memory.parameters_held"), plan.integer("cluster.nvlink_domain")
    if isinstance(held, Unknown) or not domain:
        return held if isinstance(held, Unknown) else missing(plan, "cluster.nvlink_domain")
    return HALF_PRECISION * lower(held) / domain


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
