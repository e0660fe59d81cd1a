"""Every setting with its value and where that came from, linked to the line; and what is unknown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from dtlint.report.figures import Figures
from dtlint.report.html.markup import Markup, element, embedded
from dtlint.report.html.parts import note, section, unknown
from dtlint.report.html.sources import Anchors, place_link
from dtlint.report.json import plain_json
from dtlint.report.terminal import printable
from dtlint.report.words import bounds_shown, origin_shown, telling, value_shown
from dtlint.value import Unknown, Value

if TYPE_CHECKING:
    from dtlint.plan import Plan

LONGEST = 200
"""Characters that are shown of a value."""


def settings_section(plan: Plan, names: Anchors) -> Markup:
    """The section: what files say first, then what follows, then what is taken by default."""
    from dtlint.plan.vocabulary import vocabulary

    known = [(name, found) for name in vocabulary() if isinstance(found := plan.get(name), Value)]
    written = [each for each in known if each[1].origin.kind in ("written", "given")]
    other = [each for each in known if each not in written]
    return section(
        "settings",
        "Settings",
        _table("written or given", written, plan, names),
        _folded(f"{len(other)} that follow or are taken by default", _table("derived", other, plan, names)),
    )


def unknown_section(plan: Plan, figures: Figures) -> Markup:
    """What is not known: first what the estimate had to bound, then what stands in files, then the rest."""
    from dtlint.plan.vocabulary import vocabulary

    found = [(name, value) for name in vocabulary() if isinstance(value := plan.get(name), Unknown)]
    urgent = [(name, value) for name, value in found if name in figures.assumed or value.origin is not None]
    rest = [each for each in found if each not in urgent]
    if not found:
        return Markup("")
    return section(
        "unknowns",
        "Unknown",
        note("Each is told by its option; the figures are ranges for want of the first ones."),
        _unknowns(urgent, figures),
        _folded(f"{len(rest)} more are told by no file", _unknowns(rest, figures)) if rest else "",
    )


def _unknowns(found: Iterable[tuple[str, Unknown]], figures: Figures) -> Markup:
    items = [element("li", element("code", name), " ", _why(name, value, figures)) for name, value in found]
    return element("ul", *items, class_="plain") if items else Markup("")


def _why(name: str, value: Unknown, figures: Figures) -> Markup:
    if name in figures.assumed:
        taken = f"{bounds_shown(name)} in the estimate"
        return unknown(Unknown(taken, telling(name)))
    return unknown(value)


def _folded(title: str, content: Markup) -> Markup:
    return element("details", element("summary", title), content)


def _table(caption: str, known: Iterable[tuple[str, Value]], plan: Plan, names: Anchors) -> Markup:
    lines = [element("tr", *_cells(name, found, plan, names)) for name, found in known]
    if not lines:
        return Markup("")
    head = element("tr", *(element("th", title, scope="col") for title in ("setting", "value", "where from")))
    return element(
        "table",
        element("caption", caption),
        element("thead", head),
        element("tbody", *lines),
    )


def _cells(name: str, found: Value, plan: Plan, names: Anchors) -> Iterable[Markup]:
    shown = value_shown(found.value)
    text = shown if len(shown) <= LONGEST else shown[:LONGEST] + "\N{HORIZONTAL ELLIPSIS}"
    value = element("data", text, data_of=f"settings.{name}.value", value=embedded(plain_json(found.value)))
    yield element("th", name, scope="row")
    yield element("td", value)
    yield element("td", *_origin(found, plan, names))


def _origin(found: Value, plan: Plan, names: Anchors) -> Iterable[str]:
    """Where it came from; the place as a link to its line."""
    text, span = origin_shown(found.origin, plan), found.origin.span
    if span is None:
        yield text
        return
    place = span.original()
    head = printable(f"{place.path}:{place.line}")
    yield place_link(span, names, head)
    yield text.removeprefix(head)
