"""What a search has to be told before it can rank plans by memory and time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtlint.cost import estimate
from dtlint.value import Unknown

if TYPE_CHECKING:
    from dtlint.plan import Plan

ESSENTIAL = (
    "framework",
    "cluster.gpu",
    "cluster.gpus_per_node",
    "parallel.world_size",
    "parallel.tensor",
    "parallel.pipeline",
    "model.layers",
    "model.hidden",
    "model.heads",
    "data.sequence_length",
    "batch.global",
    "batch.micro",
    "sharding.stage",
)
"""Settings without which plans cannot be compared: their bounds lie so far apart that any order would be a guess."""


def needs(plan: Plan) -> tuple[Unknown, ...]:
    """What is not known and has to be, each with why and how to tell it; () where plans can be ranked."""
    found = [plan.get(name) for name in ESSENTIAL]
    unknown = tuple(dict.fromkeys(each for each in found if isinstance(each, Unknown)))
    if unknown:
        return unknown
    cost = estimate(plan)
    return (cost,) if isinstance(cost, Unknown) else ()
