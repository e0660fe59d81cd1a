"""Facts about the pipeline: its bubble, and whether fewer stages would do."""

from __future__ import annotations

from collections.abc import Sequence

from dtlint.cost import Estimate, Memory, estimate, sizes
from dtlint.cost.pipeline import bubble
from dtlint.facts.memory import MEMORY_MARGIN
from dtlint.facts.registry import SIZING, FactValue, lower, missing, register
from dtlint.interval import Interval, hull, point
from dtlint.plan import Infeasible, Plan
from dtlint.value import Unknown


@register(
    "pipeline.bubble",
    "number",
    "share of a step",
    ("parallel.pipeline", "schedule.microbatches", "parallel.virtual_pipeline", "schedule.kind"),
    "gpipe",
)
def pipeline_bubble(plan: Plan) -> FactValue:
    """The share of a step that a pipeline stage idles: (P-1)/(vM+P-1), by the schedule in use."""
    stages, count = plan.integer("parallel.pipeline"), plan.integer("schedule.microbatches")
    if stages == 1:
        return 0.0
    if stages is None or count is None:
        return missing(plan, "parallel.pipeline", "schedule.microbatches")
    return bubble(stages, count, plan.integer("parallel.virtual_pipeline") or 1, plan.word("schedule.kind") or "1f1b")


@register("pipeline.fewer_stages", "number", "stages", (*SIZING, "batch.global"), "seed")
def fewer_stages(plan: Plan) -> FactValue:
    """The number of stages, at most today's, with which the model certainly fits and the step is fastest."""
    best = _fewer(plan)
    return best if isinstance(best, Unknown) else best[0]


@register("pipeline.fewer_stages_saving", "number", "share of a step", (*SIZING, "batch.global"), "seed")
def fewer_stages_saving(plan: Plan) -> FactValue:
    """What the step saves with that number of stages, at the same global batch."""
    best = _fewer(plan)
    return best if isinstance(best, Unknown) else best[1]


def _fewer(plan: Plan) -> tuple[int, FactValue] | Unknown:
    stages = plan.integer("parallel.pipeline")
    today = estimate(plan)
    if isinstance(today, Unknown) or stages is None:
        return (
            today
            if isinstance(today, Unknown)
            else Unknown("the number of stages is unknown", "--set parallel.pipeline=N")
        )
    best: tuple[int, FactValue] = (stages, 0.0)
    for fewer in (count for count in range(1, stages) if stages % count == 0):
        saved = _saving(plan, plan.but({"parallel.pipeline": fewer}))
        if isinstance(saved, Interval) and saved.low > lower(best[1]):
            best = (fewer, saved)
    return best


def _saving(today: Plan, changed: Plan | Infeasible) -> Interval | None:
    """The share of today's step that a changed plan saves, None where it may not fit."""
    if isinstance(changed, Infeasible):
        return None
    sized = sizes(changed)
    if isinstance(sized, Unknown) or not _surely_fits(sized.memories):
        return None
    before, after = estimate(today), estimate(changed)
    return None if isinstance(before, Unknown) or isinstance(after, Unknown) else saved_share(before, after)


def _surely_fits(memories: Sequence[Memory]) -> bool:
    """Whether even the largest need, with the model's error on top, is less than the smallest GPU has."""
    needed = max(each.device_bytes for each in memories)
    return needed * MEMORY_MARGIN <= min(each.available_bytes for each in memories)


def saved_share(before: Estimate, after: Estimate) -> Interval:
    """(today - changed) / today over the completions of both plans, which complete the same settings alike."""
    pairs = zip(before.completions, after.completions, strict=False)
    if len(before.completions) != len(after.completions):
        return point((before.step_seconds - after.step_seconds) / before.step_seconds)
    return hull((one.step_seconds - other.step_seconds) / one.step_seconds for one, other in pairs)
