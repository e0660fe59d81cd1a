"""Bytes per parameter of a plan whose shape is unknown: enough to say how large the states are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtlint.cost.job import precision_of, style_of
from dtlint.cost.states import StateBytes, state_bytes
from dtlint.value import Plain, Unknown

if TYPE_CHECKING:
    from dtlint.plan import Plan

PRECISION = ("precision.compute", "precision.gradients", "precision.reduce", "precision.master", "optimizer.name")


def unsharded_bytes(plan: Plan) -> float | Unknown:
    """What the framework keeps for one parameter before sharding: weights, gradients and optimizer."""
    found = _states(plan, 0, 1)
    return found if isinstance(found, Unknown) else found.resident


def sharded_bytes(plan: Plan) -> float | Unknown:
    """The same on one rank at the plan's ZeRO stage; offloaded states are not counted."""
    stage, ranks = plan.integer("sharding.stage"), plan.integer("sharding.group")
    if stage is None or ranks is None:
        return plan.get("sharding.stage") if stage is None else plan.get("sharding.group")  # type: ignore[return-value]
    found = _states(plan, stage, ranks)
    if isinstance(found, Unknown):
        return found
    weights = 0.0 if _offloaded(plan, "sharding.offload_parameters") else found.weights
    return weights + found.gradients + (0.0 if _offloaded(plan, "sharding.offload_optimizer") else found.optimizer)


def _states(plan: Plan, stage: int, ranks: int) -> StateBytes | Unknown:
    framework = plan.get("framework")
    if isinstance(framework, Unknown):
        return framework
    values: dict[str, Plain] = {name: plan.value(name) for name in PRECISION}
    known = {name: value for name, value in values.items() if value is not None}
    style = style_of(str(framework.value), stage)
    return state_bytes(style, precision_of(known, style), stage, ranks)


def _offloaded(plan: Plan, name: str) -> bool:
    return plan.word(name) in ("cpu", "nvme")
