"""What follows from stated settings, a module per topic.

Each function answers for one setting from others, or returns None. A setting that is derived in both directions (the
batch triple, the launch's counts) asks for the other side only as stated, so that no derivation hangs on itself.
"""

from __future__ import annotations

from dtlint.plan.derived import batch, degrees, machines, model, reference
from dtlint.plan.derived.registry import RULES

__all__ = ["RULES", "batch", "degrees", "machines", "model", "reference"]
