"""What follows about parallel degrees and sharding."""

from __future__ import annotations

from math import lcm, prod
from typing import TYPE_CHECKING

from dtlint.plan.derived.registry import is_megatron, rule, same
from dtlint.value import Unknown, Value, derived

if TYPE_CHECKING:
    from dtlint.plan import Plan


def model_parallel_size(plan: Plan) -> int:
    """Ranks that hold one copy of the model: TP x PP x CP x Ulysses (unknown degrees count as 1)."""
    product = 1
    for axis in ("tensor", "pipeline", "context", "ulysses"):
        product *= plan.integer(f"parallel.{axis}") or 1
    return product


@rule("parallel.data")
def _data(plan: Plan) -> Value | Unknown | None:
    world = plan.integer("parallel.world_size")
    if world is None:
        return None
    for axis in ("tensor", "pipeline", "context"):
        if isinstance(missing := plan.get(f"parallel.{axis}"), Unknown):
            return missing
    product = model_parallel_size(plan)
    if world % product:
        return Unknown(f"{world} processes are no multiple of {product} (TP x PP x CP)")
    return derived(world // product, "parallel.world_size", "parallel.tensor", "parallel.pipeline", "parallel.context")


@rule("parallel.expert_tensor")
def _expert_tensor(plan: Plan) -> Value | None:
    return same(plan, "parallel.tensor") if is_megatron(plan) else None


@rule("sharding.group")
def _sharding_group(plan: Plan) -> Value | None:
    """Ranks that share a sequence out hold the same parameters, and share the states out too."""
    data, groups = plan.integer("parallel.data"), plan.integer("sharding.instances") or 1
    parts = {name: plan.integer(name) or 1 for name in ("parallel.context", "parallel.ulysses")}
    ranks = (data or 0) * prod(parts.values())
    if data is None or ranks % groups:
        return None
    split = [name for name, size in parts.items() if size > 1 or name == "parallel.context"]
    inputs = ("parallel.data", *split, *(("sharding.instances",) if groups > 1 else ()))
    return derived(ranks // groups, *inputs)


@rule("sharding.reshard_after_forward")
def _reshard(plan: Plan) -> Value | None:
    return derived(False, "sharding.stage") if _parameters_stay_whole(plan) else None


@rule("sharding.units")
def _units(plan: Plan) -> Value | None:
    return derived("wrapped", "sharding.stage") if _parameters_stay_whole(plan) else None


def _parameters_stay_whole(plan: Plan) -> bool:
    """Below stage 3 nothing is gathered, but for FSDP, whose shards of stage 2 are gathered for the whole step."""
    stage = plan.integer("sharding.stage")
    return stage is not None and (stage < 2 or (stage == 2 and plan.word("framework") != "fsdp"))


def smallest_world(plan: Plan) -> int:
    """The smallest world that the degrees allow: PP x lcm(TP x CP, EP x ETP)."""
    pipeline = plan.integer("parallel.pipeline") or 1
    dense = model_parallel_size(plan) // pipeline
    expert = (plan.integer("parallel.expert") or 1) * (plan.integer("parallel.expert_tensor") or 1)
    return pipeline * (lcm(dense, expert) if plan.integer("parallel.expert") not in (None, 1) else dense)
