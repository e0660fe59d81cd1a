"""The named facts of a plan: what follows from its settings and their cost; what `dtlint plan` prints and rules read.

Each fact is one documented function with its unit, the settings that it is made of, and the source of its formula. A
fact that rests on unknown or assumed settings is an interval, or unknown with the reason.
"""

from __future__ import annotations

from dtlint.facts import (
    elastic,
    exchange,
    host,
    launch,
    memory,
    network,
    pipeline,
    reduction,
    savings,
    schedule,
    shapes,
    step,
    topology,
)
from dtlint.facts.registry import FACTS, Fact, FactValue, fact, facts, facts_of

__all__ = [
    "FACTS",
    "Fact",
    "FactValue",
    "elastic",
    "exchange",
    "fact",
    "facts",
    "facts_of",
    "host",
    "launch",
    "memory",
    "network",
    "pipeline",
    "reduction",
    "savings",
    "schedule",
    "shapes",
    "step",
    "topology",
]
