"""The findings of a run: the sentence, the marked places, what the mistake costs, and what to write."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from dtlint.record import NamedTuple
from dtlint.report.html.markup import Markup, element, figure, joined
from dtlint.report.html.parts import note, section
from dtlint.report.html.sources import Anchors, marked_line, place_link
from dtlint.report.words import counted, listed, related_label, remedy_line, step_time, stop_line, telling
from dtlint.rulebook.sentences import spell
from dtlint.source import Source, Span

if TYPE_CHECKING:
    from dtlint.rulebook.finding import Cost, Finding, Undecided

Numbered = Sequence[tuple[int, "Finding"]]
"""Findings with their places in the report."""


class Mark(NamedTuple):
    """A marked place and what it contributes."""

    span: Span
    label: str


def findings_section(findings: Numbered, undecided: Sequence[Undecided], names: Anchors, part: str) -> Markup:
    """The section; `part` tells the findings of one run from the same ones of another."""
    found = [_finding(number, each, names, part) for number, each in findings]
    return section("findings", "Findings", *(found or [note("nothing found")]), _not_decided(undecided))


def _not_decided(undecided: Sequence[Undecided]) -> Markup:
    """The rules that could not be decided, each with what would decide it."""
    if not undecided:
        return Markup("")
    items = [element("li", element("code", each.rule), ": ", _wanted(each)) for each in undecided]
    title = counted(len(undecided), "rule") + " not decided"
    return element("details", element("summary", title), element("ul", *items, class_="plain"))


def _wanted(entry: Undecided) -> str:
    return "needs " + ", ".join(map(telling, entry.needs)) if entry.needs else "the files tell too little"


def _finding(number: int, finding: Finding, names: Anchors, part: str) -> Markup:
    return element(
        "div",
        element("h4", element("b", finding.severity, class_="severity"), " ", finding.message),
        note(element("code", f"{finding.id} {finding.rule}"), ", confidence ", finding.confidence),
        *_frames(finding, names),
        element("dl", *_remarks(number, finding), class_="remarks"),
        class_=f"finding is-{finding.severity}",
        id=f"finding-{part}-{number}",
    )


def _remarks(number: int, finding: Finding) -> Iterable[Markup]:
    pairs: list[tuple[str, str]] = [
        ("cost", joined(_with_semicolons(_cost(f"findings.{number}.cost", finding.cost)))),
        ("formula", finding.formula),
        *(("help", remedy_line(remedy)) for remedy in finding.remedies),
        ("assumed", listed(finding.cost.assumed)),
        ("unknown", ", ".join(map(telling, finding.cost.needs))),
    ]
    for name, text in pairs:
        if text:
            yield element("div", element("dt", name), element("dd", text))


def _cost(path: str, cost: Cost) -> Iterable[str]:
    """What the mistake takes, each number with its place in the report."""
    if cost.share_of_step:
        yield figure(
            f"{path}.share_of_step", cost.share_of_step, f"{spell(cost.share_of_step, 'percent')} of each step"
        )
    if cost.seconds_per_step:
        shown = f"{step_time(cost.seconds_per_step)} per step"
        yield figure(f"{path}.seconds_per_step", cost.seconds_per_step, shown)
    if cost.gpu_hours_per_day:
        shown = f"{spell(cost.gpu_hours_per_day, 'count')} GPU-hours a day"
        yield figure(f"{path}.gpu_hours_per_day", cost.gpu_hours_per_day, shown)
    if cost.usd_per_day:
        yield figure(f"{path}.usd_per_day", cost.usd_per_day, f"${spell(cost.usd_per_day, 'count')} a day")
    if cost.memory_bytes:
        yield figure(f"{path}.memory_bytes", cost.memory_bytes, f"{spell(cost.memory_bytes, 'gb')} on one GPU")
    if cost.stops:
        yield stop_line(cost.stops)
    if cost.amount:
        shown = f"{spell(cost.amount.size, 'count')} {cost.amount.unit}"
        yield figure(f"{path}.amount", cost.amount.size, shown)


def _with_semicolons(parts: Iterable[str]) -> Iterable[str]:
    for index, part in enumerate(parts):
        yield from ("; ", part) if index else (part,)


def _marks(finding: Finding) -> list[Mark]:
    labels: dict[Span, list[str]] = {finding.span.original(): []}
    for related in finding.related:
        labels.setdefault(related.span.original(), []).append(related_label(related))
    return [Mark(span, "; ".join(dict.fromkeys(said))) for span, said in labels.items()]


def _frames(finding: Finding, names: Anchors) -> Iterable[Markup]:
    """The marked lines, file by file."""
    by_source: dict[Source, list[Mark]] = {}
    for mark in _marks(finding):
        if mark.span.source.text:
            by_source.setdefault(mark.span.source, []).append(mark)
    for source, marks in by_source.items():
        numbers = sorted({mark.span.line for mark in marks})
        lines = [_line(source, number, [mark for mark in marks if mark.span.line == number]) for number in numbers]
        head = place_link(marks[0].span, names, f"{source.path}:{marks[0].span.line}")
        yield element("div", note(head), element("ol", *lines, class_="code", tabindex=0))


def _line(source: Source, number: int, marks: Sequence[Mark]) -> Markup:
    labels = "; ".join(mark.label for mark in marks if mark.label)
    return element(
        "li",
        element("span", str(number), class_="number"),
        element("code", marked_line(source, number, [mark.span for mark in marks])),
        element("span", labels, class_="label") if labels else "",
    )
