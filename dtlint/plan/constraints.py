"""What a plan must satisfy before it can start: whole divisions, and combinations that frameworks refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dtlint.value import Unknown

if TYPE_CHECKING:
    from dtlint.plan import Infeasible, Plan

Constraint = Callable[["Plan"], "str | None"]
CONSTRAINTS: list[tuple[str, Constraint]] = []
DEEPSPEED_PIPELINES = ("deepspeed", "megatron-deepspeed", "gpt-neox")
"""Frameworks whose pipeline is DeepSpeed's (deepspeedai/DeepSpeed 0.19.6 runtime/pipe)."""

UNEVEN_PIPELINES = (*DEEPSPEED_PIPELINES, "torchtitan", "nanotron")
"""Frameworks whose stages may have unequal numbers of layers: DeepSpeed's PipelineModule._partition_layers, torchtitan
v0.2.2 distributed/pipeline_parallel.py generate_llm_fqn_per_model_part, nanotron 2411b02 models/base.py build_model."""


COMPRESSING_OPTIMIZERS = frozenset(("onebitadam", "onebitlamb", "zerooneadam"))
"""DeepSpeed's optimizers that exchange in few bits themselves; none goes with ZeRO (DeepSpeed 0.19.6 runtime/engine.py
_configure_basic_optimizer, runtime/fp16/onebit)."""


def violations(plan: Plan) -> list[Infeasible]:
    """Each constraint that this plan breaks; unknown settings break none."""
    from dtlint.plan import Infeasible

    found = ((setting, constraint(plan)) for setting, constraint in CONSTRAINTS)
    return [Infeasible(setting, reason) for setting, reason in found if reason is not None]


def _constraint(setting: str) -> Callable[[Constraint], Constraint]:
    def register(constraint: Constraint) -> Constraint:
        CONSTRAINTS.append((setting, constraint))
        return constraint

    return register


@_constraint("parallel.data")
def _world(plan: Plan) -> str | None:
    from dtlint.plan.derived.degrees import model_parallel_size

    world, product = plan.integer("parallel.world_size"), model_parallel_size(plan)
    if world is None:
        return None
    data = plan.integer("parallel.data")
    if data is not None and data * product != world:
        return f"DP {data} x {product} is not {world} processes"
    return f"{world} processes are no multiple of {product}" if world % product else None


@_constraint("parallel.expert")
def _experts(plan: Plan) -> str | None:
    world, expert = plan.integer("parallel.world_size"), plan.integer("parallel.expert") or 1
    product = expert * (plan.integer("parallel.expert_tensor") or 1) * (plan.integer("parallel.pipeline") or 1)
    if expert == 1 or world is None or world % product == 0:
        return None
    return f"{world} processes are no multiple of EP x ETP x PP = {product}"


@_constraint("model.heads")
def _heads(plan: Plan) -> str | None:
    return _indivisible(plan, "model.heads", "parallel.tensor", "attention heads") or _indivisible(
        plan, "model.heads", "parallel.ulysses", "attention heads"
    )


@_constraint("model.layers")
def _layers(plan: Plan) -> str | None:
    layers, stages = plan.integer("model.layers"), plan.integer("parallel.pipeline") or 1
    chunks = stages * (plan.integer("parallel.virtual_pipeline") or 1)
    uneven = plan.word("framework") in UNEVEN_PIPELINES
    if layers is None or stages == 1 or uneven or layers % chunks == 0:
        return None
    if plan.setting("parallel.stage_layers") is not None:
        return None
    return f"{layers} layers do not divide into {chunks} pipeline chunks"


@_constraint("batch.global")
def _batch(plan: Plan) -> str | None:
    from dtlint.plan.derived import RULES

    found = RULES["batch.accumulation"](plan)
    broken = isinstance(found, Unknown) and "no multiple" in found.reason
    return found.reason if broken and isinstance(found, Unknown) else None


@_constraint("schedule.microbatches")
def _interleaved(plan: Plan) -> str | None:
    stages, count = plan.integer("parallel.pipeline") or 1, plan.integer("schedule.microbatches")
    if plan.word("schedule.kind") != "interleaved" or count is None or count >= stages:
        return None
    return f"the interleaved schedule needs at least {stages} micro-batches, not {count}"


@_constraint("schedule.group")
def _left_over(plan: Plan) -> str | None:
    stages, count, size = (
        plan.integer("parallel.pipeline"),
        plan.integer("schedule.microbatches"),
        plan.integer("schedule.group"),
    )
    if plan.word("schedule.kind") != "interleaved" or not stages or not count or not size:
        return None
    left = count % size
    return f"{left} of {count} micro-batches are left over by groups of {size}" if 0 < left < stages else None


@_constraint("sharding.stage")
def _sharding(plan: Plan) -> str | None:
    stage, stages = plan.integer("sharding.stage") or 0, plan.integer("parallel.pipeline") or 1
    engine = stages > 1 or plan.flag("parallel.pipeline_engine") is True
    if stage < 2 or not engine or plan.word("framework") not in DEEPSPEED_PIPELINES:
        return None
    return f"ZeRO stage {stage} does not go with a pipeline"


@_constraint("sharding.stage")
def _compressed(plan: Plan) -> str | None:
    name = plan.word("optimizer.name") or ""
    if not plan.integer("sharding.stage") or name.lower() not in COMPRESSING_OPTIMIZERS:
        return None
    return f"{name} does not go with ZeRO"


@_constraint("data.sequence_length")
def _sequence(plan: Plan) -> str | None:
    if plan.flag("parallel.sequence"):
        return _indivisible(plan, "data.sequence_length", "parallel.tensor", "tokens a sample")
    return None


def _indivisible(plan: Plan, whole: str, part: str, noun: str) -> str | None:
    total, degree = plan.integer(whole), plan.integer(part)
    if total is None or not degree or total % degree == 0:
        return None
    return f"{total} {noun} do not divide by {degree}"
