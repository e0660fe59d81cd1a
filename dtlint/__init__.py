"""dtlint: which documented mistakes the plan of a distributed training run makes, where, and what they cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dtlint.api import check as check
    from dtlint.api import estimate as estimate
    from dtlint.plan import Plan as Plan

__version__ = "0.1.0"
__all__ = ["Plan", "__version__", "check", "estimate"]

_HOMES = {"Plan": "dtlint.plan", "check": "dtlint.api", "estimate": "dtlint.api"}


def __getattr__(name: str) -> object:
    """The public names, imported when first asked for: most commands need only some."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'dtlint' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(home), name)
