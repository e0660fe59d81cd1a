"""The picture of a search: every plan that fits by step time and memory, the front that none beats in both, the best
and today's, as SVG inside a page.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from dtlint.record import NamedTuple
from dtlint.report.tune import named_offers, split_shown

if TYPE_CHECKING:
    from dtlint.cost import Estimate
    from dtlint.tune import Tuned

Point = tuple[float, float]
"""Seconds of a step and bytes of a GPU, at the middle."""

WIDTH, HEIGHT = 880, 420
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 20, 48
CELL = 5
"""Pixels of a cell: of plans that lie in one cell one is drawn."""

TICKS = 5
BEYOND = 1.6
"""How many times slower than the best of the offers and today's a plan may be to be drawn."""


class Frame(NamedTuple):
    """The seconds and bytes that lie at the edges of the drawing."""

    fastest: float
    slowest: float
    least: float
    most: float

    def x(self, seconds: float) -> float:
        """Pixels from the left."""
        return LEFT + (WIDTH - LEFT - RIGHT) * (seconds - self.fastest) / (self.slowest - self.fastest)

    def y(self, size: float) -> float:
        """Pixels from the top."""
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (size - self.least) / (self.most - self.least)


def picture(tuned: Tuned) -> str:
    """The whole picture; "" where no plan was ranked."""
    points = [(candidate.seconds, candidate.memory_bytes) for candidate in tuned.search.ranked]
    today = tuned.estimate
    if not points or today is None:
        return ""
    marked = [("today", split_shown(tuned.today), _point(today))]
    marked += [(name, split_shown(offer.plan), _point(offer.estimate)) for name, offer in named_offers(tuned)]
    frame = _frame(points, [point for _, _, point in marked], today.memory.available_bytes)
    drawn = [point for point in points if point[0] <= frame.slowest]
    parts = [
        *_axes(frame),
        *_limit(frame, today.memory.available_bytes),
        *(_dot(frame, point) for point in thinned(frame, drawn)),
        _front(frame, front(drawn)),
        *(_mark(frame, name, label, point) for name, label, point in marked),
    ]
    title = "Step time against memory of the most loaded GPU, at the middle of what is not known"
    view = f'viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}"'
    return f"<figure><svg {view}>{''.join(parts)}</svg><figcaption>{title}.</figcaption></figure>"


def front(points: Iterable[Point]) -> list[Point]:
    """The points that no other beats in both time and memory, the fastest first."""
    found: list[Point] = []
    for point in sorted(set(points)):
        if not found or point[1] < found[-1][1]:
            found.append(point)
    return found


def thinned(frame: Frame, points: Iterable[Point]) -> list[Point]:
    """One point of each cell of the drawing."""
    cells: dict[tuple[int, int], Point] = {}
    for point in points:
        cells.setdefault((int(frame.x(point[0]) / CELL), int(frame.y(point[1]) / CELL)), point)
    return list(cells.values())


def _point(found: Estimate) -> Point:
    return found.step_seconds, found.memory.device_bytes


def _frame(points: Sequence[Point], marked: Sequence[Point], available: float) -> Frame:
    times = [seconds for seconds, _ in (*points, *marked)]
    slowest = min(max(times), BEYOND * max(seconds for seconds, _ in marked))
    sizes = [size for _, size in (*points, *marked)]
    fastest = min(times)
    span = max(slowest - fastest, 0.05 * slowest)
    return Frame(fastest - 0.04 * span, slowest + 0.04 * span, 0.0, 1.08 * max(available, *sizes))


def _axes(frame: Frame) -> Iterable[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    yield f'<path class="axis" fill="none" d="M{LEFT} {TOP}V{bottom}H{right}"/>'
    for index in range(TICKS + 1):
        seconds = frame.fastest + (frame.slowest - frame.fastest) * index / TICKS
        size = frame.least + (frame.most - frame.least) * index / TICKS
        yield _label(frame.x(seconds), bottom + 18, f"{seconds:.3g} s", "middle")
        yield _label(LEFT - 8, frame.y(size) + 4, f"{size / 1e9:.0f} GB", "end")


def _limit(frame: Frame, available: float) -> Iterable[str]:
    height = frame.y(available)
    yield f'<path class="limit" stroke-dasharray="6 4" d="M{LEFT} {height:.1f}H{WIDTH - RIGHT}"/>'
    yield _label(WIDTH - RIGHT, height - 6, f"a GPU has {available / 1e9:.0f} GB", "end")


def _dot(frame: Frame, point: Point) -> str:
    return f'<circle class="dot" cx="{frame.x(point[0]):.1f}" cy="{frame.y(point[1]):.1f}" r="2"/>'


def _front(frame: Frame, points: Sequence[Point]) -> str:
    path = " ".join(f"{frame.x(seconds):.1f},{frame.y(size):.1f}" for seconds, size in points)
    return f'<polyline class="front" points="{path}"/>'


def _mark(frame: Frame, name: str, label: str, point: Point) -> str:
    x, y = frame.x(point[0]), frame.y(point[1])
    kind = "today" if name == "today" else "best"
    shown = f"{name}: {label}, {point[0]:.3g} s, {point[1] / 1e9:.0f} GB"
    return (
        f'<g class="{kind}"><title>{escape(shown)}</title><circle cx="{x:.1f}" cy="{y:.1f}" r="6"/>'
        f"{_label(x + 9, y - 7, name, 'start')}</g>"
    )


def _label(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
