"""The pipeline's timeline: what each stage does when, the bubble shaded; sliders over micro-batches and stages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from dtlint.cost.pipeline import bubble
from dtlint.cost.timeline import IDLE
from dtlint.interval import point
from dtlint.report.figures import Figures, PipelineFigures
from dtlint.report.html.markup import Markup, element, figure, joined
from dtlint.report.html.parts import WIDTH, legend, note, rows, section, strip, unknown
from dtlint.report.json import Json, number_json
from dtlint.report.schedules import FOLD, NAMES, Drawn, folded, formula, row_names
from dtlint.rulebook.sentences import spell
from dtlint.value import Unknown

if TYPE_CHECKING:
    from dtlint.plan import Plan

MOST_STOPS = 9

KINDS = {"F": "forward", "B": "backward", "W": "weight-gradient", IDLE: "idle", FOLD: "fold"}


def pipeline_section(figures: Figures, plan: Plan, run: int) -> Markup:
    """The section; nothing for a plan without stages."""
    found = figures.pipeline
    if found is None:
        return Markup("")
    if isinstance(found, Unknown):
        return section("pipeline", "Pipeline", note(unknown(found)))
    share = figure("estimate.pipeline.bubble", point(found.bubble), spell(found.bubble, "percent"))
    said = f"{NAMES.get(found.schedule, found.schedule)}, {found.stages} stages, {found.microbatches} micro-batches: "
    return section(
        "pipeline",
        "Pipeline",
        element("p", said, "each stage idles ", share, " of a step, ", formula(found), class_="note idle-now"),
        _sliders(found, stops(found, plan), run),
        legend([("pass-F", "forward"), ("pass-B", "backward"), *_weight_gradients(found), ("pass-idle", "bubble")]),
        element("div", timeline_drawn(found, found.stages, found.microbatches), class_="timeline"),
    )


def _weight_gradients(found: PipelineFigures) -> list[tuple[str, str]]:
    return [("pass-W", "weight gradients")] if found.schedule == "zb1p" else []


def timeline_drawn(found: PipelineFigures, stages: int, microbatches: int) -> Markup:
    """The rows as bars, or why they are not drawn."""
    drawn = folded(found.schedule, stages, microbatches, found.chunks)
    if drawn is None:
        return note(f"the order of {NAMES.get(found.schedule, found.schedule)} with these numbers is not drawn")
    names = row_names(stages, len(drawn.rows))
    lines = [(name, row_picture(row, f"stage {name}"), "") for name, row in zip(names, drawn.rows, strict=True)]
    return joined((rows("passes", lines), note(drawn.left_out)))


def row_picture(row: str, label: str) -> Markup:
    """One stage's row as stretches of colour."""
    idle = f"{label}: idle in {row.count(IDLE)} of {len(row) - row.count(FOLD)} drawn units"
    return strip(row_rectangles(row, 0.0, 0.0, WIDTH, 10.0), idle)


def row_rectangles(row: str, left: float, top: float, width: float, height: float) -> Iterable[Markup]:
    """The stretches of a row within a rectangle; small letters are every second micro-batch."""
    each, position = width / len(row), 0
    for letter, stretch in groupby(row):
        length = len(list(stretch))
        kind = f"pass-{KINDS[letter]}" if letter in (IDLE, FOLD) else f"pass-{letter}"
        yield element("rect", x=left + position * each, y=top, width=length * each, height=height, class_=kind)
        position += length


def stops(found: PipelineFigures, plan: Plan) -> tuple[list[int], list[int]]:
    """The micro-batches and the stages among which the sliders choose: today's, halves and multiples; stages that
    divide the layers."""
    layers = plan.integer("model.layers")
    counts = {found.microbatches * 2**power for power in range(4)} | {found.stages * 2**power for power in range(4)}
    counts |= {found.microbatches // 2**power for power in (1, 2)}
    degrees = {found.stages * 2**power for power in range(3)} | {found.stages // 2**power for power in (1, 2)}
    fitting = {degree for degree in degrees if degree > 1 and not (layers and layers % degree)} | {found.stages}
    return _nearest(counts, found.microbatches), _nearest(fitting, found.stages)


def _nearest(numbers: Iterable[int], today: int) -> list[int]:
    """At most MOST_STOPS positive numbers, today's among them."""
    ratio = sorted((number for number in numbers if number > 0), key=lambda each: max(each / today, today / each))
    return sorted(ratio[:MOST_STOPS])


def _sliders(found: PipelineFigures, chosen: tuple[list[int], list[int]], run: int) -> Markup:
    counts, degrees = chosen
    return element(
        "div",
        _slider(f"microbatches-{run}", "micro-batches M", counts, found.microbatches),
        _slider(f"stages-{run}", "stages P", degrees, found.stages),
        class_="sliders",
        hidden=True,
    )


def _slider(name: str, title: str, numbers: Sequence[int], today: int) -> Markup:
    if len(numbers) < 2:
        return Markup("")
    return element(
        "label",
        f"{title} ",
        element("output", str(today), for_=name),
        element("input", type="range", id=name, min=0, max=len(numbers) - 1, value=numbers.index(today)),
    )


def stops_json(figures: Figures, plan: Plan) -> Json:
    """What the sliders show: for each number of stages and of micro-batches the idle share by the formula and the
    rows."""
    found = figures.pipeline
    if found is None or isinstance(found, Unknown):
        return None
    counts, degrees = stops(found, plan)
    shown = [folded(found.schedule, degree, count, found.chunks) for degree in degrees for count in counts]
    pictures = list(dict.fromkeys(each for each in shown if each is not None))
    return {
        "schedule": NAMES.get(found.schedule, found.schedule),
        "microbatches": counts,
        "stages": degrees,
        "pictures": [{"rows": list(each.rows), "left_out": each.left_out} for each in pictures],
        "at": [[_stop(found, degree, count, pictures) for count in counts] for degree in degrees],
    }


def _stop(found: PipelineFigures, stages: int, microbatches: int, pictures: Sequence[Drawn]) -> Json:
    drawn = folded(found.schedule, stages, microbatches, found.chunks)
    share = bubble(stages, microbatches, found.chunks, found.schedule)
    return {
        "idle": number_json(share),
        "shown": spell(share, "percent"),
        "formula": formula(found._replace(stages=stages, microbatches=microbatches)),
        "picture": None if drawn is None else pictures.index(drawn),
        "names": [] if drawn is None else row_names(stages, len(drawn.rows)),
    }
