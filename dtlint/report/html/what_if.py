"""What each remedy would bring: the step and the memory today and then, as the rules price them on the whole plan."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from dtlint.interval import Interval
from dtlint.report.figures import Figures
from dtlint.report.html.findings import Numbered
from dtlint.report.html.markup import Markup, element, figure
from dtlint.report.html.parts import note, seconds, section, size
from dtlint.report.words import caveats, listed, step_time
from dtlint.rulebook.sentences import spell
from dtlint.value import Unknown

if TYPE_CHECKING:
    from dtlint.rulebook.finding import Remedy, Summary

COLUMNS = ("change", "step today", "then", "saves", "memory of a GPU today", "then", "besides")


def what_if_section(findings: Numbered, figures: Figures, summary: Summary | None, run: int) -> Markup:
    """The section; nothing where no remedy is known."""
    lines = [
        element("tr", *_cells(f"findings.{number}.remedies.{index}", f"#finding-{run}-{number}", remedy, figures))
        for number, finding in findings
        for index, remedy in enumerate(finding.remedies)
    ]
    if not lines:
        return Markup("")
    head = element("tr", *(element("th", title, scope="col") for title in COLUMNS))
    table = element("table", element("thead", head), element("tbody", *lines))
    return section(
        "what-if",
        "What if",
        note("Each change alone, priced on the whole plan; savings do not add up."),
        element("div", table, class_="wide", tabindex=0, role="group", aria_label="what each remedy brings"),
        _together(summary),
    )


def _cells(path: str, link: str, remedy: Remedy, figures: Figures) -> Iterable[Markup]:
    saves = remedy.saves
    then = f"{path}.saves"
    yield element("th", element("a", remedy.text, href=link), scope="row")
    yield _cell(_today(figures) if saves.seconds_per_step else None)
    yield _cell(seconds(f"{then}.seconds_per_step", saves.seconds_per_step) if saves.seconds_per_step else None)
    yield _cell(_share(f"{then}.share_of_step", saves.share_of_step, "batch.global" in remedy.set))
    yield _cell(element("span", spell(saves.memory_before, "gb")) if saves.memory_before else None)
    yield _cell(size(f"{then}.memory_bytes", saves.memory_bytes) if saves.memory_bytes else None)
    yield _cell(element("span", "; ".join(caveats(remedy)) or "the same training"))


def _today(figures: Figures) -> Markup | None:
    step = figures.step
    return None if isinstance(step, Unknown) else seconds("estimate.step.seconds", step.seconds)


def _share(path: str, share: Interval | None, batch_changes: bool) -> Markup | None:
    """The share of today's time that is saved: for a token where a step is no longer the same work."""
    if share is None:
        return None
    low, high = (f"{100 * bound:.0f}%" for bound in share)
    shown = low if low == high else f"{low} to {high}"
    return figure(path, share, f"{shown} a token" if batch_changes else shown)


def _cell(content: Markup | None) -> Markup:
    return element("td", content if content is not None else "not priced")


def _together(summary: Summary | None) -> Markup:
    if summary is None or not summary.remedied or summary.seconds_per_step is None:
        return Markup("")
    then = figure("summary.seconds_per_step", summary.seconds_per_step, step_time(summary.seconds_per_step))
    return note(
        "All that leave the training as it is, one after the other: ", then, f" a step with {listed(summary.remedied)}."
    )
