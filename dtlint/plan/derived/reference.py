"""How many whole models lie beside the one that trains: the reference that a loss compares with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtlint.plan.derived.registry import rule
from dtlint.release import older, releases
from dtlint.value import Unknown, Value, assumed, default, derived

if TYPE_CHECKING:
    from dtlint.plan import Plan

_HOW = "--set model.reference_copies=N"
_KEPT_SINCE = "0.29"
"""The release of TRL from which on the reference model stays though it has answered beforehand
(trainer/dpo_trainer.py of 0.28.0 and 0.29.0)."""


@rule("model.reference_copies")
def _copies(plan: Plan) -> Value | Unknown | None:
    if plan.setting("model.reference_copies") is not None:
        return None  # what is written and not known is not worked out
    kept = plan.get("model.reference")
    if isinstance(kept, Unknown):
        return default(0, "every framework") if plan.setting("model.reference") is None else kept
    if kept.value == "further":
        return assumed(2, "the further model is taken as large as the one that trains", _HOW)
    if kept.value in ("none", "copy"):
        return derived(int(kept.value == "copy"), "model.reference")
    return _without_adapters(plan) if kept.value == "adapters-off" else _by_weight(plan)


def _by_weight(plan: Plan) -> Value | Unknown:
    weight = plan.get("model.reference_weight")
    if isinstance(weight, Unknown):
        return weight
    return _without_adapters(plan) if weight.value else derived(0, "model.reference_weight")


def _without_adapters(plan: Plan) -> Value | Unknown:
    """The model without its adapters answers for the reference, so that there is a copy only where none train."""
    rank = plan.get("model.lora_rank")
    if isinstance(rank, Unknown):
        return rank
    if rank.value:
        return derived(0, "model.reference", "model.lora_rank")
    return _beforehand(plan) if plan.flag("model.reference_precomputed") else derived(1, "model.reference")


def _beforehand(plan: Plan) -> Value | Unknown:
    """No copy is made where its answers are there before training begins, in releases of TRL that do without."""
    used, since = releases(plan.word("version.trl") or ""), releases(_KEPT_SINCE)
    before = older(used, since) if used is not None and since is not None else None
    if before is None:
        return Unknown(f"TRL keeps the reference model from {_KEPT_SINCE} on", "--set version.trl=...")
    return derived(0 if before else 1, "model.reference_precomputed", "version.trl")
