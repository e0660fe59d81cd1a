"""The step as a waterfall: compute, exposed communication by axis, bubble, optimizer; what is hidden is hatched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dtlint.cost import Step
from dtlint.interval import point
from dtlint.record import NamedTuple
from dtlint.report.figures import Figures
from dtlint.report.html.markup import Markup, element, joined
from dtlint.report.html.parts import Piece, bar, legend, note, rows, seconds, section, unknown
from dtlint.report.words import step_time
from dtlint.value import Unknown

PARTS: Mapping[str, str] = {
    "compute": "compute",
    "reference": "reference model",
    "tensor": "waiting for TP",
    "context": "waiting for CP",
    "expert": "waiting for EP",
    "transfer": "waiting for PP",
    "bubble": "bubble",
    "data": "waiting for DP",
    "optimizer": "optimizer",
    "offload": "offload",
}


def step_section(figures: Figures) -> Markup:
    """The section: one waterfall, or one for each end where something that decides is open."""
    step = figures.step
    if isinstance(step, Unknown):
        return section("step", "One optimizer step", note(unknown(step)))
    whole = step.seconds.high
    head = joined(("a step takes ", seconds("estimate.step.seconds", step.seconds)))
    key = legend([("step-hidden", "hidden beside compute"), ("step-bubble", "idle")])
    if step.fastest == step.slowest:
        drawn = [_waterfall(step.fastest, "fastest", whole)]
    else:
        drawn = [
            element("h4", "at best"),
            _waterfall(step.fastest, "fastest", whole),
            element("h4", "at worst"),
            _waterfall(step.slowest, "slowest", whole),
            note(_opening(figures.assumed)),
        ]
    return section("step", "One optimizer step", note(head), key, *drawn)


def _opening(assumed: Sequence[str]) -> Markup:
    """Which settings open the range between best and worst."""
    told = (element("code", f"--set {name}=...") for name in assumed)
    return joined(("what is not told opens the range: ", *(part for each in told for part in (each, " "))))


def _waterfall(step: Step, end: str, whole: float) -> Markup:
    return rows("waterfall", [_line(part, f"estimate.step.{end}", whole) for part in parts(step)])


class Part(NamedTuple):
    """A part of the step: its name in the report, where it begins, how long it takes, and whether compute hides it."""

    name: str
    start: float
    seconds: float
    hidden: bool

    @property
    def title(self) -> str:
        """What people call it."""
        return PARTS[self.name].replace("waiting for", "hidden") if self.hidden else PARTS[self.name]


def parts(step: Step) -> Iterable[Part]:
    """The parts one after the other; hidden communication runs beside compute, which begins the step."""
    start = 0.0
    for name in PARTS:
        taken, hidden = getattr(step, name), step.hidden.get(name, 0.0)
        if taken > 0:
            yield Part(name, start, taken, False)
        if hidden > 0:
            yield Part(name, 0.0, hidden, True)
        start += taken


def piece(part: Part, whole: float) -> Piece:
    """A part as a stretch of a bar that is `whole` seconds long."""
    text = f"{part.title}: {step_time(point(part.seconds))}"
    kind = "step-hidden" if part.hidden else f"step-part step-{part.name}"
    return Piece(part.start / whole, min(1.0, max(part.seconds / whole, 0.002)), kind, text)


def _line(part: Part, path: str, whole: float) -> Sequence[str]:
    drawn = piece(part, whole)
    told = f"{path}.hidden.{part.name}" if part.hidden else f"{path}.{part.name}"
    return part.title, bar([drawn], drawn.title), seconds(told, point(part.seconds))
