"""Findings on speed whose whole cost is a few milliseconds of a step: nobody waits for those."""

from __future__ import annotations

from dtlint.rulebook.hits import Hit
from dtlint.rulebook.rule import WASTES
from dtlint.rulebook.toll import seconds_of

LEAST_SECONDS = 0.003
"""Seconds of a step that are worth a warning; a choice: below it a run of 100 000 steps loses five minutes at most."""


def as_noticed(hit: Hit) -> Hit:
    """A hit that only slows down a run as advice, where even the high end of what it takes is slight."""
    if hit.run is None or hit.outcome != WASTES:
        return hit
    seconds = seconds_of(hit.ready, hit.scope)
    return hit if seconds is None or seconds.high >= LEAST_SECONDS else hit._replace(certain="advice")
