"""Findings on forks: what a rule knows of a framework's releases, a fork may do otherwise."""

from __future__ import annotations

from dtlint.rulebook.hits import Around, Hit
from dtlint.runs.forks import FORKED, UNKNOWN, reads
from dtlint.runs.model import Run

_OF_FILES = UNKNOWN.partition(".")[0] + "."
"""How collections of what stands in files and command lines begin."""


def of_a_fork(hit: Hit, around: Around) -> str | None:
    """What is said of a hit of a rule about the releases whose program is a fork; None where it is none."""
    run = around.run(hit)
    if run is None or not hit.ready.rule.stock:
        return None
    fork = run.plan.dialect.fork
    return f"this program is a fork: {fork}" if fork and _is_of_the_fork(hit, run) else None


def _is_of_the_fork(hit: Hit, run: Run) -> bool:
    """Whether a hit is about what the fork reads; a config beside its command line is read by another package."""
    each, member = hit.ready.rule.each, hit.scope.member
    if each is None or member is None or not each.collection.startswith(_OF_FILES):
        return any(reading.layer == FORKED for reading in run.readings)
    own = (reading for reading in run.readings if reads(reading))
    return any(member.place == other.place for reading in own for other in reading.collections.get(each.collection, ()))
