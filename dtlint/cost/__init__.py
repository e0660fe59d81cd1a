"""The cost model: memory of a GPU and time of a step, from a plan's settings alone."""

from __future__ import annotations

from dtlint.cost.estimate import Estimate, Point, estimate, sizes
from dtlint.cost.memory import Memory
from dtlint.cost.pipeline import bubble, microbatches_for_bubble
from dtlint.cost.step import Step

__all__ = ["Estimate", "Memory", "Point", "Step", "bubble", "estimate", "microbatches_for_bubble", "sizes"]
