"""Findings on speed whose whole cost is a few milliseconds of a step: nobody waits for those."""

from __future__ import annotations

from dtlint.rulebook.hits import Around, Hit
from dtlint.rulebook.toll import seconds_of

LEAST_SECONDS = 0.003
"""Seconds of a step that are worth a warning; a choice: below it a run of 100 000 steps loses five minutes at most."""


def of_no_weight(hit: Hit, around: Around) -> str | None:
    """Whether even the high end of what a hit takes of a step is slight; nothing is said of it."""
    seconds = seconds_of(hit.ready, hit.scope) if around.run(hit) is not None else None
    return None if seconds is None or seconds.high >= LEAST_SECONDS else ""
