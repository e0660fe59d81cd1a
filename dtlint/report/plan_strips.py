"""Pictures of a plan in plain characters: the groups on the machines, and what each pipeline stage does when."""

from __future__ import annotations

from collections.abc import Iterable

from dtlint.report.figures import Axis, Figures, Topology
from dtlint.report.schedules import NAMES, folded, formula, row_names
from dtlint.report.terminal import wrap
from dtlint.report.words import counted, unknown_shown
from dtlint.rulebook.sentences import spell
from dtlint.value import Unknown

INDENT = "  "

MOST_ROWS = 8
"""Stages of a timeline that are drawn."""

WIDEST_BOX = 16
"""Characters of a box; beyond that one stands for several GPUs."""


def topology_strip(figures: Figures, columns: int) -> Iterable[str]:
    """The NVLink domains as boxes, a line for each axis with the group of GPU 0 marked."""
    found = figures.topology
    if isinstance(found, Unknown):
        yield from wrap(unknown_shown(found), INDENT + "unknown: ", INDENT * 2, columns)
        return
    count = -(-found.world // found.domain)
    each = next(each for each in range(-(-found.domain // WIDEST_BOX), found.domain + 1) if found.domain % each == 0)
    scale = f", a character for {each}" if each > 1 else ""
    said = f"{counted(found.world, 'GPU')} in {counted(count, found.box)} of {found.domain}{scale}"
    marked = "; # is the group of GPU 0" if found.axes else ""
    yield from wrap(said + marked, INDENT, INDENT * 2, columns)
    for axis in found.axes:
        head = f"{INDENT}{axis.name + ' ' + str(axis.ranks):<12}"
        yield head + _boxes(found, axis, each, columns - len(head))


def _boxes(found: Topology, axis: Axis, each: int, room: int) -> str:
    """As many boxes as fit, and how many more there are."""
    count, members = -(-found.world // found.domain), axis.members(0)
    width = 2 + -(-found.domain // each)
    fitting = room // width if count * width <= room else max(1, (room - len(f" +{count}")) // width)
    shown = min(count, fitting)
    text = "".join(_box(found, members, number, each) for number in range(shown))
    return text + (f" +{count - shown}" if count > shown else "")


def _box(found: Topology, members: range, number: int, each: int) -> str:
    first, end = number * found.domain, min(found.world, (number + 1) * found.domain)
    starts = range(first, end, each)
    return "[" + "".join("#" if _meets(members, start, min(end, start + each)) else "." for start in starts) + "]"


def _meets(members: range, start: int, end: int) -> bool:
    return any(rank in members for rank in range(start, end))


def pipeline_strip(figures: Figures, columns: int) -> Iterable[str]:
    """What each stage does in each unit of time."""
    found = figures.pipeline
    if found is None:
        return
    if isinstance(found, Unknown):
        yield from wrap(unknown_shown(found), INDENT + "unknown: ", INDENT * 2, columns)
        return
    name, share = NAMES.get(found.schedule, found.schedule), spell(found.bubble, "percent")
    yield from wrap(f"{name}: each stage idles {share} of a step, {formula(found)}", INDENT, INDENT * 2, columns)
    drawn = folded(found.schedule, found.stages, found.microbatches, found.chunks, columns - 6, MOST_ROWS)
    if drawn is None:
        return
    for number, row in zip(row_names(found.stages, len(drawn.rows)), drawn.rows, strict=True):
        yield f"{INDENT}{number:>3} {row}"
    yield from wrap(f"F forward, B backward, . idle; {drawn.left_out}", INDENT, INDENT * 2, columns)
