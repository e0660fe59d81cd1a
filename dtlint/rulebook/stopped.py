"""Runs of which no step is made: they surely do not start, or nothing starts them. What they would waste in each step
is not told, for there is no step that it could be a share of. Who asks about a launch that fails for a reason that is
soon mended hears what it wastes then. Of a run that nobody asks about and that stops before anything of its plan
counts, nothing else is told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from dtlint.plan import Plan
from dtlint.rulebook.confidence import confidence
from dtlint.rulebook.finding import Finding
from dtlint.rulebook.hits import Hit
from dtlint.rulebook.rule import WASTES
from dtlint.runs.model import Run

FAILS = "launch-fails"

UNFIT = "the degrees do not fit the processes, and the launch fails"
FAILED = "the launch fails"
ABSENT = "the program is not in this repository, or not where the script starts it"
UNUSED = "no launch here takes the config"
HALTED = "the launch stops before anything of its plan counts"


def idle_runs(
    runs: Sequence[Run], asked: Collection[int], hits: Sequence[Hit], told: Sequence[Finding]
) -> dict[int, str]:
    """The runs of which no step is made, and why: configs that the launches beside them do not take; where nobody asks
    about it, a launch of a program that is not here; and launches that fail by errors among the findings `told`, those
    first that stop before their plan counts.
    """
    spare = {index: UNUSED for index, run in enumerate(runs) if run.spare}
    left = {index for index, run in enumerate(runs) if run.left_over and run.launch is not None}
    absent = dict.fromkeys(left - set(asked), ABSENT)
    return {**spare, **absent, **_failing(hits, asked, told)}


def _failing(hits: Iterable[Hit], asked: Collection[int], told: Sequence[Finding]) -> dict[int, str]:
    """The runs whose launch fails for certain, by errors that are neither ignored nor lowered by the team, nor hang on
    an assumption: those without a layout, and all that nobody asks about.
    """
    errors = {
        (each.id, each.span.path, each.span.start)
        for each in told
        if each.outcome == FAILS and each.severity == "error"
    }
    certain = [hit for hit in hits if cause_of(hit) in errors and _is_certain(hit)]
    stopped = {hit.run: FAILED for hit in certain if hit.run is not None and hit.run not in asked}
    unfit = {hit.run: UNFIT for hit in certain if hit.run is not None and not _has_layout(hit.scope.plan)}
    halted = {hit.run: HALTED for hit in certain if hit.run in stopped and hit.ready.rule.first}
    return {**stopped, **unfit, **halted}


def cause_of(hit: Hit) -> tuple[str, str, int]:
    """What hits of several runs have in common that are one finding: the rule and the place."""
    return hit.ready.rule.id, hit.anchor.span.path, hit.anchor.span.start


def _is_certain(hit: Hit) -> bool:
    return hit.outcome == FAILS and confidence(hit.ready, hit.scope) == "high"


def _has_layout(plan: Plan) -> bool:
    """Whether the processes may be cut into the groups that the degrees ask for: the data-parallel size is known, or
    hangs on what is not known.
    """
    needed = ("parallel.world_size", "parallel.tensor", "parallel.pipeline", "parallel.context")
    return plan.value("parallel.data") is not None or any(plan.value(name) is None for name in needed)


def is_moot(hit: Hit, idle: Mapping[int, str]) -> bool:
    """Whether a hit tells what a run wastes that there is not, or anything of the plan of one that stops before; what
    is wrong in a file that nothing starts stays, and so does what is wrong in code.
    """
    if hit.run is None or hit.run not in idle:
        return False
    if idle[hit.run] == HALTED:
        return not hit.ready.rule.first and not _is_of(hit, "code.")
    return hit.verdict.outcome == WASTES and (idle[hit.run] != UNUSED or not _is_of(hit, "config."))


def _is_of(hit: Hit, kind: str) -> bool:
    """Whether a hit tells of a member of collections of a kind: of code, or of keys as the file has them, whatever is
    run with it.
    """
    each = hit.ready.rule.each
    return each is not None and each.collection.startswith(kind)


def remarks(reasons: Iterable[str]) -> Iterator[str]:
    """What is said of the findings that are left out, given why each of them is."""
    for reason, count in Counter(reasons).items():
        yield f"{_counted(count, 'finding' if reason == HALTED else 'warning')} not told: {reason}"


def _counted(count: int, what: str) -> str:
    about = " about speed" if what == "warning" else ""
    return f"1 {what}{about} is" if count == 1 else f"{count} {what}s{about} are"
