"""Bytes per parameter of a plan whose shape is unknown: enough to say how large the states are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtlint.cost.formats import frozen_bytes, is_counted, precision_of
from dtlint.cost.job import OPTIMIZER, style_of, unknown_optimizer
from dtlint.cost.memory import HALF_PRECISION
from dtlint.cost.states import StateBytes, offloads_gradients, state_bytes
from dtlint.interval import Interval, hull
from dtlint.plan.vocabulary import term
from dtlint.value import Plain, Unknown, Value

if TYPE_CHECKING:
    from dtlint.plan import Plan

PRECISION = ("precision.compute", "precision.gradients", "precision.reduce", "precision.master", "optimizer.name")


FORMATS = ("bf16", "fp16", "fp32")
"""What weights may be computed with where no file tells it."""


def unsharded_bytes(plan: Plan) -> Interval | Unknown:
    """What the framework keeps for one parameter before sharding: weights, gradients and optimizer; of one that does
    not train its weight. From the one to the other where it is not known which part of the model trains.
    """
    if not _is_partly_trained(plan):
        return _trained_bytes(plan)
    frozen = hull(frozen_bytes({"precision.frozen": each}) for each in _frozen_formats(plan))
    if plan.value("model.lora_rank") is not None:
        return frozen
    trained = _trained_bytes(plan)
    return trained if isinstance(trained, Unknown) else hull((*frozen, *trained))


def _trained_bytes(plan: Plan) -> Interval | Unknown:
    """The stage counts even so: without ZeRO DeepSpeed's bf16 is another optimizer's."""
    compute, stage = plan.word("precision.compute"), plan.integer("sharding.stage")
    style = 1 if stage is None else stage
    found = [_trained(plan, style, 1, each) for each in ((compute,) if compute else FORMATS)]
    unknown = next((each for each in found if isinstance(each, Unknown)), None)
    return unknown or hull(each.resident for each in found if isinstance(each, StateBytes))


def _frozen_formats(plan: Plan) -> tuple[str, ...]:
    """What a weight that does not train may be stored in: as compute, unless a file says that it may be another."""
    told = plan.word("precision.frozen")
    if told is not None:
        return (told,)
    bounds = term("precision.frozen").optimistic, term("precision.frozen").pessimistic
    return tuple(map(str, bounds)) if "precision.frozen" in plan.settings else FORMATS


def sharded_bytes(plan: Plan) -> float | Unknown:
    """The same on one rank at the plan's ZeRO stage; offloaded states are not counted."""
    stage, ranks = plan.integer("sharding.stage"), plan.integer("sharding.group")
    if stage is None or ranks is None:
        return plan.get("sharding.stage") if stage is None else plan.get("sharding.group")  # type: ignore[return-value]
    copy = _second_copy(plan, stage, ranks)
    found = _states(plan, stage, (plan.integer("parallel.data") or ranks) if copy else ranks)
    if isinstance(found, Unknown):
        return found
    weights = 0.0 if _offloaded(plan, "sharding.offload_parameters") else found.weights + copy
    if not _offloaded(plan, "sharding.offload_optimizer"):
        return weights + found.gradients + found.optimizer
    follow = offloads_gradients(style_of(plan.word("framework") or "", stage), stage)
    return weights + (0.0 if follow else found.gradients)


def reference_share(plan: Plan) -> float:
    """The least bytes that one rank keeps for a parameter in models that answer and do not train."""
    origin = plan.get("model.reference_copies")
    if isinstance(origin, Unknown) or origin.origin.kind == "assumed":
        return 0.0
    stage, ranks = plan.integer("sharding.stage") or 0, plan.integer("sharding.group") or 1
    shared = stage >= 3 and _offloaded(plan, "sharding.offload_parameters")
    each = min(frozen_bytes({"precision.frozen": name}) for name in _frozen_formats(plan))
    return 0.0 if shared else (plan.integer("model.reference_copies") or 0) * each / (ranks if stage >= 3 else 1)


HOST_GRADIENT_BYTES = 4.0
"""An optimizer on the host gets its gradients there in fp32 (DeepSpeed zero/stage_1_and_2.py; FSDP's own are fp32)."""


def hosted_bytes(plan: Plan) -> float | Unknown:
    """What one rank keeps in main memory for one parameter: offloaded optimizer, its gradients, offloaded weights."""
    stage, ranks = plan.integer("sharding.stage"), plan.integer("sharding.group")
    if stage is None or ranks is None:
        return plan.get("sharding.stage") if stage is None else plan.get("sharding.group")  # type: ignore[return-value]
    found = _states(plan, stage, ranks)
    if isinstance(found, Unknown):
        return found
    weights = found.weights if plan.word("sharding.offload_parameters") == "cpu" else 0.0
    if plan.word("sharding.offload_optimizer") != "cpu":
        return weights
    return weights + found.optimizer + HOST_GRADIENT_BYTES / (ranks if stage else 1)


def _second_copy(plan: Plan, stage: int, ranks: int) -> float:
    """Bytes per parameter of DeepSpeed's second copy of the weights in a smaller group (hpZ)."""
    small = stage == 3 and plan.word("framework") == "deepspeed" and ranks < (plan.integer("parallel.data") or ranks)
    return HALF_PRECISION / ranks if small else 0.0


def _states(plan: Plan, stage: int, ranks: int) -> StateBytes | Unknown:
    """The least that one rank keeps for a parameter."""
    framework = plan.get("framework")
    if isinstance(framework, Unknown):
        return framework
    if _is_partly_trained(plan):
        frozen = min(frozen_bytes({"precision.frozen": each}) for each in _frozen_formats(plan))
        return StateBytes(frozen / (ranks if stage >= 3 else 1), 0.0, 0.0, 0.0)
    return _trained(plan, stage, ranks, plan.word("precision.compute") or "bf16")


def _trained(plan: Plan, stage: int, ranks: int, compute: str) -> StateBytes | Unknown:
    framework = plan.get("framework")
    if isinstance(framework, Unknown):
        return framework
    if not is_counted(plan.word(OPTIMIZER) or "adam"):
        return unknown_optimizer(plan)
    values: dict[str, Plain] = {**{name: plan.value(name) for name in PRECISION}, "precision.compute": compute}
    known = {name: value for name, value in values.items() if value is not None}
    style = style_of(str(framework.value), stage)
    return state_bytes(style, precision_of(known, style), stage, ranks)


def _is_partly_trained(plan: Plan) -> bool:
    """Whether adapters or an unknown part of the model train; what they take is not counted."""
    found = plan.get("model.lora_rank")
    return bool(found.value) if isinstance(found, Value) else "model.lora_rank" in plan.settings


def _offloaded(plan: Plan, name: str) -> bool:
    return plan.word(name) in ("cpu", "nvme")
