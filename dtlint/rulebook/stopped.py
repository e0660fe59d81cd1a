"""Runs that surely do not start: what they would waste in each step is not told, for there is no step."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from dtlint.rulebook.confidence import confidence
from dtlint.rulebook.finding import Finding
from dtlint.rulebook.hits import Hit

FAILS = "launch-fails"
WASTES = "slower"


def stopped_runs(hits: Iterable[Hit], told: Sequence[Finding]) -> frozenset[int]:
    """The runs whose launch fails for certain, by errors among the findings `told`: neither ignored nor lowered by the
    team, nor hanging on an assumption.
    """
    errors = {
        (each.id, each.span.path, each.span.start)
        for each in told
        if each.outcome == FAILS and each.severity == "error"
    }
    failing = (hit for hit in hits if cause_of(hit) in errors)
    return frozenset(hit.run for hit in failing if hit.run is not None and _is_certain(hit))


def cause_of(hit: Hit) -> tuple[str, str, int]:
    """What hits of several runs have in common that are one finding: the rule and the place."""
    return hit.ready.rule.id, hit.anchor.span.path, hit.anchor.span.start


def _is_certain(hit: Hit) -> bool:
    return hit.verdict.outcome == FAILS and confidence(hit.ready, hit.scope) == "high"


def is_moot(hit: Hit, stopped: Collection[int]) -> bool:
    """Whether a hit tells what a run wastes that does not start."""
    return hit.verdict.outcome == WASTES and hit.run in stopped


def remark(count: int) -> Iterator[str]:
    """What is said of the findings that are left out."""
    if count:
        what = "1 warning about speed is" if count == 1 else f"{count} warnings about speed are"
        yield f"{what} not told: the launch fails before its first step"
