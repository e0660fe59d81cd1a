"""Draws docs/plan.svg, the README's picture, with the pieces of the plan's page (`--check`: is it current?)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from dtlint.api import options_of
from dtlint.plan import parse
from dtlint.report.figures import Figures, figures_of
from dtlint.report.html.document import plan_style
from dtlint.report.html.markup import Markup, element
from dtlint.report.html.memory import PARTS, pieces
from dtlint.report.html.parts import Piece, hatches
from dtlint.report.html.pipeline import row_rectangles
from dtlint.report.html.step import parts, piece
from dtlint.report.html.topology import boxes, cells
from dtlint.report.schedules import folded, formula
from dtlint.report.words import plan_line, step_time
from dtlint.rulebook.sentences import spell
from dtlint.runs import read_runs
from dtlint.value import Unknown

ROOT = Path(__file__).parents[1]
FILE = ROOT / "docs" / "plan.svg"
FIXTURE = Path("fixtures/half-idle-pipeline")
STATED = {"cluster.gpu": "H100-SXM-80GB", "cluster.internode_gbit_per_s": "3200", "cluster.usd_per_gpu_hour": "2.5"}

WIDTH, LEFT, BAR, RIGHT = 880, 150, 610, 20
LINE = 22
STYLE = """
text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; fill: var(--ink); }
.title { font-size: 16px; font-weight: 600; }
.head { font-size: 14px; font-weight: 600; }
.faint { fill: var(--faint); font-size: 12px; }
.amount { text-anchor: end; }
.ground { fill: var(--ground); }
"""


def picture() -> str:
    """The picture as text."""
    options = options_of({name: parse(name, value) for name, value in STATED.items()})
    plan = read_runs([FIXTURE], options).runs[0].plan
    figures = figures_of(plan)
    drawn: list[Markup] = []
    top = 30.0
    drawn.append(_text(RIGHT, top, plan_line(plan), "title"))
    drawn.append(_text(RIGHT, top + 20, _headline(figures), "faint"))
    top += 48
    for section in (_topology, _memory, _pipeline, _step):
        lines, top = section(figures, top)
        drawn.extend(lines)
    ground = element("rect", x=0, y=0, width=WIDTH, height=top, rx=8, class_="ground")
    style = element("style", Markup(escape_style(plan_style() + STYLE)))
    return _svg(top, [style, hatches(), ground, *drawn])


def escape_style(text: str) -> str:
    """CSS inside of XML."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _svg(height: float, content: Sequence[Markup]) -> str:
    head = element("title", "The plan of fixtures/half-idle-pipeline, drawn by dtlint plan --format html")
    whole = element("svg", head, *content, xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {WIDTH} {height:g}")
    return f"{whole}\n"


def _headline(figures: Figures) -> str:
    step, found = figures.step, figures.throughput
    assert not isinstance(step, Unknown) and not isinstance(found, Unknown)
    assert not isinstance(found.usd_per_day, Unknown)
    return (
        f"{step_time(step.seconds)} a step, model FLOP utilisation {spell(found.mfu, 'percent')}, "
        f"{spell(found.gpu_hours_per_day, 'count')} GPU-hours and ${spell(found.usd_per_day, 'count')} a day"
    )


def _topology(figures: Figures, top: float) -> tuple[list[Markup], float]:
    found = figures.topology
    assert not isinstance(found, Unknown)
    drawn = [_text(RIGHT, top, "Machines and groups", "head")]
    left = float(RIGHT)
    for axis in found.axes:
        said = f"{axis.name} {axis.ranks} {found.where(axis)}"
        drawn.append(element("rect", x=left + 170, y=top - 10, width=11, height=11, rx=2, class_=f"axis-{axis.axis}"))
        drawn.append(_text(left + 187, top, said, "faint"))
        left += 180
    for index, box in enumerate(boxes(found)[0]):
        x = RIGHT + index * 76.0
        frame = element("rect", x=x, y=top + 12, width=68, height=38, rx=5, class_="frame")
        drawn += [frame, *cells(found, box, x + 2, top + 14)]
        drawn.append(_text(x + 14, top + 65, f"{found.box} {box.number}", "faint"))
    return drawn, top + 100


def _memory(figures: Figures, top: float) -> tuple[list[Markup], float]:
    stages, available = figures.stages, figures.available
    assert not isinstance(stages, Unknown) and not isinstance(available, Unknown)
    whole = max(available.high, *(stage.device.high for stage in stages))
    drawn = [_text(RIGHT, top, "Memory of a GPU", "head")]
    left = RIGHT + 170.0
    for name in ("weights", "gradients", "optimizer", "activations"):
        drawn.append(element("rect", x=left, y=top - 10, width=11, height=11, rx=2, class_=f"part-{name}"))
        drawn.append(_text(left + 17, top, PARTS[name], "faint"))
        left += 32 + 7 * len(PARTS[name])
    for index, stage in enumerate(stages):
        y = top + 12 + index * LINE
        amount = spell(stage.device, "gb")
        drawn += _bar(f"stage {stage.stage}", pieces(stage, available, whole), amount, y)
    end = top + 12 + len(stages) * LINE
    drawn.append(
        _text(LEFT + available.high / whole * BAR - 90, end + 12, f"a GPU ends at {spell(available, 'gb')}", "faint")
    )
    return drawn, end + 44


def _pipeline(figures: Figures, top: float) -> tuple[list[Markup], float]:
    found = figures.pipeline
    assert found is not None and not isinstance(found, Unknown)
    rows = folded(found.schedule, found.stages, found.microbatches, found.chunks)
    assert rows is not None
    said = f"each stage idles {spell(found.bubble, 'percent')} of a step: {formula(found)}"
    drawn = [_text(RIGHT, top, "Pipeline", "head"), _text(RIGHT + 170, top, said, "faint")]
    for index, row in enumerate(rows.rows):
        y = top + 12 + index * 17
        drawn.append(_text(RIGHT, y + 12, f"stage {index}", "faint"))
        drawn += [
            _over_free(LEFT, y, WIDTH - RIGHT - LEFT, 14),
            *row_rectangles(row, LEFT, y, WIDTH - RIGHT - LEFT, 14),
        ]
    return drawn, top + 12 + len(rows.rows) * 17 + 30


def _step(figures: Figures, top: float) -> tuple[list[Markup], float]:
    found = figures.step
    assert not isinstance(found, Unknown)
    drawn = [_text(RIGHT, top, "One optimizer step", "head")]
    lines = list(parts(found.fastest))
    for index, part in enumerate(lines):
        drawn += _bar(
            part.title,
            [piece(part, found.seconds.high)],
            piece(part, 1.0).title.partition(": ")[2],
            top + 12 + index * LINE,
        )
    return drawn, top + 12 + len(lines) * LINE + 16


def _bar(name: str, stretches: Iterable[Piece], amount: str, top: float) -> list[Markup]:
    drawn = [_text(RIGHT, top + 13, name, ""), _over_free(LEFT, top, BAR, 16)]
    for each in stretches:
        if each.share > 0:
            shape = element("rect", x=LEFT + each.start * BAR, y=top, width=each.share * BAR, height=16)
            drawn.append(element("g", shape, class_=each.kind))
    return [*drawn, _text(WIDTH - RIGHT, top + 13, amount, "amount")]


def _over_free(left: float, top: float, width: float, height: float) -> Markup:
    return element("rect", x=left, y=top, width=width, height=height, class_="part-free")


def _text(left: float, top: float, text: str, kind: str) -> Markup:
    return element("text", text, x=left, y=top, class_=kind or None)


def main() -> int:
    """Write the picture, or with --check say whether it is current."""
    os.chdir(ROOT)
    if "--check" in sys.argv[1:]:
        current = FILE.read_text(encoding="utf-8") == picture()
        print("current" if current else f"{FILE.name} is not current: run scripts/make_picture.py")
        return int(not current)
    FILE.write_text(picture(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
