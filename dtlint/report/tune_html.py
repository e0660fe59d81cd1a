"""What a search over plans found, as one HTML page without anything from elsewhere: a picture of step time against
memory, the best plans beside today's, and what changes where.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from dtlint.interval import Interval
from dtlint.report.html.document import document
from dtlint.report.html.markup import Markup, escape
from dtlint.report.tune import (
    cautions,
    counts_line,
    free_shown,
    gain_shown,
    left_out,
    named_offers,
    place_shown,
    remarks,
    split_shown,
)
from dtlint.report.tune_picture import picture
from dtlint.report.words import plan_line, run_place, step_time, unknown_shown, value_shown
from dtlint.rulebook.sentences import spell

if TYPE_CHECKING:
    from dtlint.cost import Estimate
    from dtlint.runs.model import Run
    from dtlint.tune import Change, Offer, Tuned

STYLE = """
:root { color-scheme: light dark; --line: #8884; --dot: #7a8794; --best: #0a7d4f; --today: #c2410c; --limit: #b91c1c; }
@media (prefers-color-scheme: dark) { :root { --best: #34d399; --today: #fb923c; --limit: #f87171; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; } h3 { font-size: 1rem; margin-bottom: 0.2rem; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: 0.25rem 0.6rem; text-align: left; vertical-align: top; }
th { font-weight: 600; border-bottom: 1px solid var(--line); } tr.today td { color: var(--today); }
td.number { text-align: right; white-space: nowrap; } code { font: 0.9em ui-monospace, monospace; }
.scroll { overflow-x: auto; } svg { width: 100%; height: auto; }
svg text { font: 12px system-ui, sans-serif; fill: currentColor; }
.dot { fill: var(--dot); opacity: 0.45; } .front { fill: none; stroke: var(--best); } .limit { stroke: var(--limit); }
.best { fill: var(--best); } .today { fill: var(--today); }
.axis { stroke: currentColor; } .caution { color: var(--limit); }
"""


def tuned_html(pairs: Sequence[tuple[Run, Tuned]]) -> str:
    """The page of every run's search."""
    sections = "".join(f"<section>{''.join(_section(run, tuned))}</section>" for run, tuned in pairs)
    body = sections or "<p>No plan was read that can be searched.</p>"
    return document("dtlint tune", STYLE, Markup(body))


def _section(run: Run, tuned: Tuned) -> Iterable[str]:
    yield f"<h1>{escape(run_place(run))}</h1><p>{escape(plan_line(tuned.today))}</p>"
    if tuned.needs:
        needs = "".join(f"<li>{escape(unknown_shown(need))}</li>" for need in tuned.needs)
        yield f"<p>Not ranked: memory and time cannot be told apart without</p><ul>{needs}</ul>"
        return
    yield f"<p>{escape(counts_line(tuned))}.</p>"
    yield picture(tuned)
    yield _table(tuned)
    for name, offer in named_offers(tuned):
        yield from _offer(name, offer, tuned)
    notes = "".join(f"<li>{escape(sentence)}</li>" for sentence in (*left_out(tuned), *remarks(tuned)))
    yield f"<h2>What was left out and taken as given</h2><ul>{notes}</ul>"


def _table(tuned: Tuned) -> str:
    head = "".join(f"<th>{title}</th>" for title in ("", "typically", "step", "GPU memory", "free", "plan"))
    today = tuned.estimate
    rows = [] if today is None else [_row("today", today, split_shown(tuned.today), "today")]
    rows += [_row(name, offer.estimate, split_shown(offer.plan), "") for name, offer in named_offers(tuned)]
    return f'<div class="scroll"><table><tr>{head}</tr>{"".join(rows)}</table></div>'


def _row(name: str, found: Estimate, plan: str, kind: str) -> str:
    numbers = (
        step_time(Interval(found.step_seconds, found.step_seconds)),
        step_time(Interval(found.low.step_seconds, found.high.step_seconds)),
        spell(Interval(found.low.memory.device_bytes, found.high.memory.device_bytes), "gb"),
        free_shown(found),
    )
    cells = "".join(f'<td class="number">{escape(number)}</td>' for number in numbers)
    return f'<tr class="{kind}"><td>{escape(name)}</td>{cells}<td>{escape(plan)}</td></tr>'


def _offer(name: str, offer: Offer, tuned: Tuned) -> Iterable[str]:
    yield f"<h3>{escape(name)}. {escape(split_shown(offer.plan))}: {escape(gain_shown(offer, tuned))}</h3>"
    if offer.changes:
        head = "<tr><th>where</th><th>setting</th><th>today</th><th>then</th></tr>"
        rows = "".join(map(_change, offer.changes))
        yield f'<div class="scroll"><table>{head}{rows}</table></div>'
    else:
        yield "<p>Today's plan as it is.</p>"
    yield from (f'<p class="caution">{escape(sentence)}</p>' for sentence in cautions(offer))


def _change(change: Change) -> str:
    old = f"<code>{escape(change.old)}</code>" if change.old else f"not written, {escape(value_shown(change.before))}"
    cells = (escape(place_shown(change)), escape(change.setting), old, f"<code>{escape(change.new)}</code>")
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
