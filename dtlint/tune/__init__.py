"""Searches other plans for the same training on the same machines: what can be varied, what may stand together, what
fits, what is fastest.
"""

from __future__ import annotations

from dtlint.tune.axes import Axis, Wishes, axes_of
from dtlint.tune.needs import needs
from dtlint.tune.offers import Change, Offer, Tuned, tune
from dtlint.tune.search import Candidate, Search, search

__all__ = ["Axis", "Candidate", "Change", "Offer", "Search", "Tuned", "Wishes", "axes_of", "needs", "search", "tune"]
