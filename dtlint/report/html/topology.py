"""The map of the machines: NVLink domains as boxes, GPUs as cells, one group of each axis lit, its links."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dtlint.interval import Interval
from dtlint.record import NamedTuple
from dtlint.report.figures import Axis, Figures, Topology
from dtlint.report.html.markup import Markup, element, figure, joined
from dtlint.report.html.parts import legend, note, seconds, section, unknown
from dtlint.report.json import Json
from dtlint.report.words import counted
from dtlint.rulebook.sentences import spell
from dtlint.value import Unknown

MOST_CELLS = 384
"""GPUs that are drawn; of more the first and the last boxes, the rest as a count."""

MOST_IN_BOX = 96
CELL = 12
GAP = 3

COLUMNS = ((4, 4), (8, 4), (36, 6), (10**9, 12))
"""Up to how many GPUs a box has how many columns."""


class Box(NamedTuple):
    """An NVLink domain that is drawn: its number, its first rank, and how many GPUs it has."""

    number: int
    first: int
    gpus: int


def topology_section(figures: Figures, run: int) -> Markup:
    """The section."""
    found = figures.topology
    if isinstance(found, Unknown):
        return section("topology", "Machines and groups", note(unknown(found)))
    return section(
        "topology",
        "Machines and groups",
        note(_said(found)),
        legend([(f"axis-{axis.axis}", f"{axis.name} {axis.ranks}") for axis in found.axes]),
        _chooser(found, run),
        element("div", *_boxes(found), class_="boxes"),
        element("p", joined(lit_words(found, 0)), class_="lit", aria_live="polite"),
        element("div", *map(_link, [found] * len(found.axes), found.axes), class_="links"),
    )


def boxes(found: Topology) -> tuple[list[Box], int]:
    """The boxes that are drawn, and after how many of them the others are folded (all: none is)."""
    count = -(-found.world // found.domain)
    most = max(2, MOST_CELLS // min(found.domain, MOST_IN_BOX))
    numbers = list(range(count)) if count <= most else [*range(most - most // 4), *range(count - most // 4, count)]
    drawn = [_box(found, number) for number in numbers]
    return drawn, len(drawn) if count <= most else most - most // 4


def _box(found: Topology, number: int) -> Box:
    first = number * found.domain
    return Box(number, first, min(found.domain, found.world - first))


def lit_words(found: Topology, rank: int) -> Iterable[str]:
    """The groups of a rank in words."""
    yield f"GPU {rank} ({found.box} {rank // found.domain}): "
    yield "; ".join(f"{axis.name} with {_listed(axis.members(rank))}" for axis in found.axes) or "no group"


def _listed(ranks: range) -> str:
    if ranks.step == 1:
        return f"{ranks[0]}-{ranks[-1]}"
    shown = ", ".join(map(str, ranks[:3]))
    return shown if len(ranks) <= 3 else f"{shown} ... {ranks[-1]}"


def _said(found: Topology) -> str:
    count = -(-found.world // found.domain)
    return f"{counted(found.world, 'GPU')} in {counted(count, found.box)} of {found.domain}"


def _chooser(found: Topology, run: int) -> Markup:
    name = f"rank-{run}"
    return element(
        "label",
        "light the groups of GPU ",
        element("input", type="number", id=name, min=0, max=found.world - 1, value=0),
        class_="chooser",
        hidden=True,
    )


def _boxes(found: Topology) -> Iterable[Markup]:
    drawn, cut = boxes(found)
    count = -(-found.world // found.domain)
    for index, box in enumerate(drawn):
        if index == cut:
            hidden = count - len(drawn)
            yield element(
                "div", f"{counted(hidden, 'more ' + found.box)} with {hidden * found.domain:,} GPUs", class_="more"
            )
        yield _drawn_box(found, box)


def _drawn_box(found: Topology, box: Box) -> Markup:
    shown = min(box.gpus, MOST_IN_BOX)
    columns = next(columns for most, columns in COLUMNS if found.domain <= most)
    lines = -(-shown // columns)
    width, height = (number * (CELL + GAP) + GAP for number in (columns, lines))
    picture = element(
        "svg",
        *cells(found, box, 0.0, 0.0),
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        role="img",
        aria_label=f"{found.box} {box.number}: GPUs {box.first} to {box.first + box.gpus - 1}",
        data_first=box.first,
    )
    more = f" (+{box.gpus - shown:,})" if box.gpus > shown else ""
    return element("figure", picture, element("figcaption", f"{found.box.split()[0]} {box.number}{more}"), class_="box")


def cells(found: Topology, box: Box, left: float, top: float) -> Iterable[Markup]:
    """The GPUs of a box, the groups of rank 0 lit."""
    columns = next(columns for most, columns in COLUMNS if found.domain <= most)
    for index in range(min(box.gpus, MOST_IN_BOX)):
        line, column = divmod(index, columns)
        x, y = (GAP + number * (CELL + GAP) for number in (column, line))
        yield element(
            "rect", x=left + x, y=top + y, width=CELL, height=CELL, rx=2, class_=_lit(found, box.first + index)
        )


def _lit(found: Topology, rank: int) -> str | None:
    if rank == 0:
        return "self"
    kinds = [f"axis-{axis.axis}" for axis in found.axes if rank in axis.members(0)]
    return " ".join(kinds) or None


def _link(found: Topology, axis: Axis) -> Markup:
    """One axis: where its groups lie, what crosses which links how fast, how long the step waits."""
    path = f"estimate.topology.axes.{axis.axis}"
    return element(
        "div",
        element("h4", f"{axis.name} {axis.ranks}, {found.where(axis)}"),
        link_picture(axis, f"{axis.name}: {found.where(axis)}"),
        element("p", *_traffic(axis, path)),
        class_=f"link link-{axis.axis}",
    )


def _traffic(axis: Axis, path: str) -> Iterable[str]:
    if isinstance(axis.sent, Unknown):
        yield unknown(axis.sent)
        return
    yield figure(f"{path}.sent_bytes", axis.sent, spell(axis.sent, "bytes"))
    yield " a step from each GPU"
    yield from ("; bandwidth ", unknown(axis.rate)) if isinstance(axis.rate, Unknown) else _rate(path, axis.rate)
    if isinstance(axis.exposed, Interval):
        yield "; the step waits " if axis.exposed.high > 0 else "; the step does not wait"
        yield seconds(f"{path}.exposed_seconds", axis.exposed) if axis.exposed.high > 0 else ""
    if isinstance(axis.hidden, Interval) and axis.hidden.high > 0:
        yield ", "
        yield seconds(f"{path}.hidden_seconds", axis.hidden)
        yield " hidden"


def _rate(path: str, rate: Interval) -> Iterable[str]:
    yield " at "
    shown = spell(Interval(rate.low / 1e9, rate.high / 1e9), "count")
    yield figure(f"{path}.bytes_per_second", rate, f"{shown} GB/s")


def link_picture(axis: Axis, label: str) -> Markup:
    """The group's boxes in a row with its GPUs as dots, and a line where it goes from one to the next."""
    count, dots = min(axis.domains, 6), min(axis.inside, 8)
    width, pitch = 14 + 8 * dots, 44 + 8 * dots
    drawn: list[Markup] = []
    if axis.domains > count:
        drawn.append(
            element("line", x1=count * pitch - 30, y1=13, x2=count * pitch, y2=13, class_=f"wire cut wire-{axis.axis}")
        )
    if axis.domains > 1:
        drawn.append(element("line", x1=4, y1=13, x2=count * pitch - 30, y2=13, class_=f"wire wire-{axis.axis}"))
    for index in range(count):
        drawn.append(element("rect", x=index * pitch + 1, y=2, width=width, height=22, rx=4, class_="frame"))
        drawn.extend(_dots(axis, index * pitch + 7, dots))
    whole = count * pitch
    return element("svg", *drawn, viewBox=f"0 0 {whole} 26", width=whole, height=26, role="img", aria_label=label)


def _dots(axis: Axis, left: float, count: int) -> Sequence[Markup]:
    return [
        element("circle", cx=left + 4 + index * 8, cy=13, r=3, class_=f"axis-{axis.axis}") for index in range(count)
    ]


def topology_json(figures: Figures) -> Json:
    """What the page needs to light groups: strides and sizes."""
    found = figures.topology
    if isinstance(found, Unknown):
        return None
    axes: list[Json] = [{"axis": a.axis, "name": a.name, "ranks": a.ranks, "stride": a.stride} for a in found.axes]
    return {"world": found.world, "domain": found.domain, "box": found.box, "axes": axes}
