"""Why a finding is told as advice alone: what leaves open whether its run makes the mistake, or what says that nobody
minds. Each doubt is asked in turn; what is left of the outcome is certain.
"""

from __future__ import annotations

from collections.abc import Callable

from dtlint.record import NamedTuple
from dtlint.rulebook.forked import of_a_fork
from dtlint.rulebook.hits import Around, Hit
from dtlint.rulebook.lesser import (
    of_a_single_process,
    of_a_sketch,
    of_a_trial,
    of_uncalled_code,
    of_what_a_call_stops,
    of_what_is_left_over,
    of_what_is_put_aside,
)
from dtlint.rulebook.machines import mended_by_machines
from dtlint.rulebook.reasons import with_a_reason
from dtlint.rulebook.rule import WASTES
from dtlint.rulebook.slight import of_no_weight
from dtlint.rulebook.unlaunched import resting_on_absence


class Doubt(NamedTuple):
    """A reason to tell a hit as advice. `said` gives None where it does not hold, else what is said of it behind the
    sentence ("" for nothing); `concerns` says of which hits it is asked.
    """

    said: Callable[[Hit, Around], str | None]
    concerns: Callable[[Hit, Around], bool]


def _any(_hit: Hit, _around: Around) -> bool:
    return True


def _waste(hit: Hit, _around: Around) -> bool:
    return hit.outcome == WASTES


def _unasked(hit: Hit, around: Around) -> bool:
    return hit.run not in around.asked


def _unasked_waste(hit: Hit, around: Around) -> bool:
    return _waste(hit, around) and _unasked(hit, around)


def _unnamed(hit: Hit, around: Around) -> bool:
    return hit.anchor.span.path not in around.named


DOUBTS = (
    Doubt(resting_on_absence, _any),
    Doubt(of_a_fork, _any),
    Doubt(of_a_trial, _waste),
    Doubt(of_a_single_process, _any),
    Doubt(mended_by_machines, _any),
    Doubt(with_a_reason, _waste),
    Doubt(of_what_a_call_stops, _any),
    Doubt(of_uncalled_code, _unnamed),
    Doubt(of_a_sketch, _unasked_waste),
    Doubt(of_what_is_put_aside, _unasked_waste),
    Doubt(of_no_weight, _unasked_waste),
    Doubt(of_what_is_left_over, _unasked),
)
"""The doubts in the order in which they are asked: the first that says something is what is read behind the finding."""


def as_certain(hit: Hit, around: Around) -> Hit:
    """A hit with the outcome that is certain, and what is said of the doubts."""
    for doubt in DOUBTS:
        said = doubt.said(hit, around) if doubt.concerns(hit, around) else None
        if said is not None:
            hit = hit._replace(certain="advice", remark=hit.remark or said)
    return hit
