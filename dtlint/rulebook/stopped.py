"""Runs that surely do not start and whose degrees no number of replicas completes, and configs that nothing starts:
what they would waste in each step is not told, for there is no step that it could be a share of.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from dtlint.plan import Plan
from dtlint.rulebook.confidence import confidence
from dtlint.rulebook.finding import Finding
from dtlint.rulebook.hits import Hit
from dtlint.runs.model import Run

FAILS = "launch-fails"
WASTES = "slower"


def stopped_runs(hits: Iterable[Hit], told: Sequence[Finding]) -> frozenset[int]:
    """The runs without a layout whose launch fails for certain, by errors among the findings `told`: they are neither
    ignored nor lowered by the team, nor do they hang on an assumption.
    """
    errors = {
        (each.id, each.span.path, each.span.start)
        for each in told
        if each.outcome == FAILS and each.severity == "error"
    }
    failing = (hit for hit in hits if cause_of(hit) in errors)
    certain = (hit for hit in failing if _is_certain(hit) and not _has_layout(hit.scope.plan))
    return frozenset(hit.run for hit in certain if hit.run is not None)


def cause_of(hit: Hit) -> tuple[str, str, int]:
    """What hits of several runs have in common that are one finding: the rule and the place."""
    return hit.ready.rule.id, hit.anchor.span.path, hit.anchor.span.start


def _is_certain(hit: Hit) -> bool:
    return hit.verdict.outcome == FAILS and confidence(hit.ready, hit.scope) == "high"


def _has_layout(plan: Plan) -> bool:
    """Whether the processes may be cut into the groups that the degrees ask for: the data-parallel size is known, or
    hangs on what is not known.
    """
    needed = ("parallel.world_size", "parallel.tensor", "parallel.pipeline", "parallel.context")
    return plan.value("parallel.data") is not None or any(plan.value(name) is None for name in needed)


def spare_runs(runs: Iterable[Run]) -> frozenset[int]:
    """The configs that the launches beside them do not take."""
    return frozenset(index for index, run in enumerate(runs) if run.spare)


def is_moot(hit: Hit, stopped: Collection[int], spare: Collection[int]) -> bool:
    """Whether a hit tells what a run wastes that there is not; what is wrong in a file that nothing starts stays."""
    if hit.verdict.outcome != WASTES:
        return False
    return hit.run in stopped or (hit.run in spare and not _is_of_the_file(hit))


def _is_of_the_file(hit: Hit) -> bool:
    """Whether a hit tells of a key as the file has it, whatever is run with it."""
    each = hit.ready.rule.each
    return each is not None and each.collection.startswith("config.")


def remarks(failing: int, unused: int) -> Iterator[str]:
    """What is said of the findings that are left out: of launches that fail, and of configs that nothing starts."""
    if failing:
        yield f"{_warnings(failing)} not told: the degrees do not fit the processes, and the launch fails"
    if unused:
        yield f"{_warnings(unused)} not told: no launch here takes the config"


def _warnings(count: int) -> str:
    return "1 warning about speed is" if count == 1 else f"{count} warnings about speed are"
