"""The lines of files that the page speaks of, each with a name that settings and findings link to.

Only these lines are shown: a page is sent around, and the lines beside them may hold what is nobody's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from dtlint.report.html.markup import Markup, element, joined
from dtlint.report.html.parts import note
from dtlint.source import Source, Span
from dtlint.value import Origin, Value

if TYPE_CHECKING:
    from dtlint.rulebook.finding import Finding
    from dtlint.runs.model import Run

MOST_LINES = 1000
"""Lines that are shown of all files together."""

LONGEST = 300
"""Characters that are shown of a line."""

Anchors = Mapping[tuple[str, int], str]
"""The name of each line that is shown, by path and number."""


def shown_lines(runs: Iterable[Run], findings: Iterable[Finding]) -> Mapping[Source, list[int]]:
    """The lines that settings and findings come from, by file, in order."""
    lines: dict[Source, set[int]] = {}
    for span in _spans(runs, findings):
        place = span.original()
        if place.source.text and sum(map(len, lines.values())) < MOST_LINES:
            lines.setdefault(place.source, set()).add(place.line)
    return {source: sorted(numbers) for source, numbers in lines.items()}


def anchors(lines: Mapping[Source, list[int]]) -> Anchors:
    """A name for each line."""
    return {
        (source.path, number): f"file-{index}-{number}"
        for index, (source, numbers) in enumerate(lines.items())
        for number in numbers
    }


def sources_section(lines: Mapping[Source, list[int]], names: Anchors) -> Markup:
    """The section."""
    listings = [
        element("div", element("h3", source.path), _listing(source, numbers, names), class_="file")
        for source, numbers in lines.items()
    ]
    if not listings:
        return Markup("")
    told = note("Only the lines that settings and findings come from are part of this page.")
    return element("article", element("h2", "Lines of the files"), told, *listings, class_="files")


def place_link(span: Span, names: Anchors, text: str) -> Markup:
    """A link to a line, or the text alone where the line is not shown."""
    place = span.original()
    name = names.get((place.path, place.line))
    return element("span", text) if name is None else element("a", text, href=f"#{name}")


def marked_line(source: Source, number: int, spans: Iterable[Span]) -> Markup:
    """A line with its marked stretches."""
    text, start = source.line_text(number)[:LONGEST], source.line_start(number)
    parts: list[str] = []
    position = 0
    for span in sorted(spans, key=lambda each: each.start):
        low, high = max(position, span.start - start), min(len(text), span.end - start)
        if low < high:
            parts += [text[position:low], element("mark", text[low:high])]
            position = high
    cut = "\N{HORIZONTAL ELLIPSIS}" if len(source.line_text(number)) > LONGEST else ""
    return joined((*parts, text[position:], cut))


def _spans(runs: Iterable[Run], findings: Iterable[Finding]) -> Iterable[Span]:
    for finding in findings:
        yield finding.span
        yield from (related.span for related in finding.related)
    for run in runs:
        if run.launch is not None:
            yield run.launch.place
        for found in run.plan.settings.values():
            if isinstance(found, Value):
                yield from _places(found.origin)


def _places(origin: Origin) -> Iterable[Span]:
    if origin.span is not None:
        yield origin.span


def _listing(source: Source, numbers: list[int], names: Anchors) -> Markup:
    lines = []
    before = numbers[0] - 1
    for number in numbers:
        if number > before + 1:
            lines.append(element("li", "\N{MIDLINE HORIZONTAL ELLIPSIS}", class_="gap", aria_hidden="true"))
        code = element("code", marked_line(source, number, ()))
        lines.append(element("li", element("span", str(number), class_="number"), code, id=names[source.path, number]))
        before = number
    return element("ol", *lines, class_="code", tabindex=0)
