"""The head of a plan's part of the page: what it is, and what it costs, in one line of figures."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from dtlint.interval import Interval
from dtlint.report.figures import Amount, Figures
from dtlint.report.html.markup import Markup, element, figure, joined
from dtlint.report.html.parts import seconds, size, unknown
from dtlint.report.words import listed, plan_line, run_place
from dtlint.rulebook.sentences import spell
from dtlint.value import Unknown

if TYPE_CHECKING:
    from dtlint.runs.model import Run


def headline(run: Run, figures: Figures) -> Markup:
    """Place, plan and figures of a run."""
    role = "" if run.role == "train" else f" ({run.role})"
    branch = f" if {run.branch}" if run.branch else ""
    cards = [element("div", element("dt", name), element("dd", value)) for name, value in _cards(figures)]
    return element(
        "header",
        element("h2", f"{run_place(run)}{role}{branch}"),
        element("p", plan_line(run.plan), class_="plan"),
        element("dl", *cards, class_="cards"),
        *([element("p", f"read from {listed(run.files)}", class_="note")] if run.files else []),
        *(element("p", f"assumed: {sentence}", class_="note") for sentence in run.assumptions),
    )


def _cards(figures: Figures) -> Iterable[tuple[str, Markup]]:
    step, found = figures.step, figures.throughput
    if isinstance(step, Unknown) or isinstance(found, Unknown):
        yield "cost", unknown(next(each for each in (step, found) if isinstance(each, Unknown)))
        return
    yield "one step", seconds("estimate.step.seconds", step.seconds)
    path = "estimate.throughput"
    yield "tokens per second and GPU", _spelled(f"{path}.tokens_per_second_per_gpu", found.tokens_per_second_per_gpu)
    yield "model FLOP utilisation", figure(f"{path}.mfu", found.mfu, spell(found.mfu, "percent"))
    yield "GPU-hours a day", _spelled(f"{path}.gpu_hours_per_day", found.gpu_hours_per_day)
    yield "money a day", _money(f"{path}.usd_per_day", found.usd_per_day)
    if not isinstance(figures.stages, Unknown):
        worst = max(figures.stages, key=lambda stage: stage.device.high)
        yield "most loaded GPU", _memory(f"estimate.stages.{worst.stage}.device_bytes", worst.device, figures.available)


def _memory(path: str, needed: Interval, available: Amount) -> Markup:
    if isinstance(available, Unknown):
        return size(path, needed)
    return joined((size(path, needed), " of ", size("estimate.available_bytes", available)))


def _spelled(path: str, value: Interval) -> Markup:
    return figure(path, value, spell(value, "count"))


def _money(path: str, value: Amount) -> Markup:
    if isinstance(value, Unknown):
        return element("span", element("b", "unknown"), ": ", element("code", value.how), class_="unknown")
    return figure(path, value, f"${spell(value, 'count')}")
