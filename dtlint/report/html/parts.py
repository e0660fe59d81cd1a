"""What the sections of a page share: a section, a note, a bar, a legend, an unknown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dtlint.interval import Interval
from dtlint.record import NamedTuple
from dtlint.report.html.markup import Markup, element, figure, joined
from dtlint.report.words import step_time
from dtlint.rulebook.sentences import spell
from dtlint.value import Unknown

WIDTH = 1000.0
"""Units across a bar; it is stretched to the width of its column."""


class Piece(NamedTuple):
    """A stretch of a bar: from where, how wide (as shares of the whole), its class, and what it says."""

    start: float
    share: float
    kind: str
    title: str


def section(name: str, title: str, *content: str) -> Markup:
    """A section under a heading."""
    return element("section", element("h3", title), *content, class_=name)


def note(*text: str) -> Markup:
    """A sentence beside a picture."""
    return element("p", *text, class_="note")


def unknown(found: Unknown) -> Markup:
    """What is not known, why, and the option that would tell it."""
    how = (" ", element("code", found.how)) if found.how else ()
    return element("span", element("b", "unknown"), f": {found.reason}", *how, class_="unknown")


def bar(pieces: Iterable[Piece], label: str) -> Markup:
    """Pieces on one line, as a picture with a label for who does not see it."""
    return strip([_piece(piece) for piece in pieces if piece.share > 0], label)


def strip(drawn: Iterable[Markup], label: str) -> Markup:
    """A line of shapes, WIDTH wide and 10 high, as wide as the page."""
    return element(
        "svg",
        *drawn,
        class_="bar",
        viewBox=f"0 0 {WIDTH:g} 10",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
    )


def _piece(piece: Piece) -> Markup:
    return element(
        "g",
        element("title", piece.title),
        element("rect", x=piece.start * WIDTH, y=0, width=piece.share * WIDTH, height=10),
        class_=piece.kind,
    )


def hatches() -> Markup:
    """The patterns of what is open, hidden or idle."""
    patterns = [
        element(
            "pattern",
            element("rect", width=12, height=10, class_="hatch-ground"),
            element("path", d="M-3 13 L6 -3 M3 13 L12 -3 M9 13 L18 -3", class_=f"hatch hatch-{name}"),
            id=f"hatch-{name}",
            width=12,
            height=10,
            patternUnits="userSpaceOnUse",
        )
        for name in ("open", "hidden", "idle")
    ]
    return element("svg", element("defs", *patterns), width=0, height=0, aria_hidden="true", class_="patterns")


def legend(entries: Sequence[tuple[str, str]]) -> Markup:
    """What each colour means."""
    items = [element("li", element("i", class_=f"key {kind}", aria_hidden="true"), name) for kind, name in entries]
    return element("ul", *items, class_="legend")


def size(path: str, value: Interval) -> Markup:
    """An amount of memory."""
    return figure(path, value, spell(value, "gb" if value.high >= 1e7 else "bytes"))


def seconds(path: str, value: Interval) -> Markup:
    """A time of a step or of a part of it."""
    return figure(path, value, step_time(value))


def rows(name: str, lines: Iterable[Sequence[str]]) -> Markup:
    """Lines of a picture: label, bar, amount."""
    cells = [element("div", joined(element("div", each) for each in line), class_="row") for line in lines]
    return element("div", *cells, class_=f"rows {name}")
