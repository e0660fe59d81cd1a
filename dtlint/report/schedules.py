"""A pipeline's schedule in words and rows of letters: what pages and terminals draw of it."""

from __future__ import annotations

from functools import lru_cache

from dtlint.cost.pipeline import work_per_microbatch
from dtlint.cost.timeline import timeline
from dtlint.record import NamedTuple
from dtlint.report.figures import PipelineFigures

FOLD = "~"
"""Stands in a row for the time that is not drawn."""

FEWEST_DRAWN = 12
"""Micro-batches that are drawn at least; and two for each stage, so that the middle is the steady state."""

MOST_STAGES = 64
MOST_PASSES = 50_000
"""Stages, and passes of all of them together, up to which a timeline is drawn at all."""

NAMES = {
    "gpipe": "GPipe",
    "1f1b": "1F1B",
    "interleaved": "interleaved 1F1B",
    "zb1p": "zero bubble (ZB1P)",
    "zbv": "zero bubble (ZBV)",
    "dualpipe": "DualPipe",
}


class Drawn(NamedTuple):
    """The rows of a timeline as drawn, and what is left out of them."""

    rows: tuple[str, ...]
    left_out: str


def formula(found: PipelineFigures) -> str:
    """The formula of the schedule with the numbers of the plan."""
    idle, work = found.stages - 1, work_per_microbatch(found.schedule, found.chunks)
    factor = "" if work == 1 else f"{work:g} x "
    return f"(P-1)/({factor}M+P-1) = {idle}/({factor}{found.microbatches}+{idle})"


@lru_cache(maxsize=256)
def folded(
    schedule: str, stages: int, microbatches: int, chunks: int, units: int = 300, rows: int = 16
) -> Drawn | None:
    """The timeline with its middle folded where it is longer than `units` of time or has more than `rows` stages.

    None where it is not drawn.
    """
    if stages > MOST_STAGES or (schedule == "interleaved" and microbatches % stages):
        return None
    shown = min(microbatches, stages * -(-max(FEWEST_DRAWN, 2 * stages) // stages))
    lines = timeline(schedule, stages, shown, chunks) if stages * shown * chunks <= MOST_PASSES else None
    if lines is None:
        return None
    half, cut = rows // 2, shown < microbatches or len(lines[0]) > units
    kept = lines if len(lines) <= rows else (*lines[:half], *lines[-half:])
    left_out = ["the middle is left out"] if cut else []
    left_out += [f"{len(lines) - len(kept)} stages between are left out"] if len(kept) < len(lines) else []
    said = "; ".join(["time runs from left to right", *left_out])
    return Drawn(tuple(_without_middle(row, units) for row in kept) if cut else kept, said)


def _without_middle(row: str, units: int) -> str:
    fold = FOLD * max(1, units // 80)
    half = (min(len(row), units) - len(fold)) // 2
    return row[:half] + fold + row[len(row) - half :]


def row_names(stages: int, shown: int) -> list[str]:
    """The numbers of the stages that are drawn."""
    numbers = range(stages) if shown == stages else [*range(shown // 2), *range(stages - shown // 2, stages)]
    return [str(number) for number in numbers]
