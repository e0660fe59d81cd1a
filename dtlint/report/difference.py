"""A change of plans for people and bots: text, JSON, and the Markdown of a comment that is kept up to date."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dtlint.facts import FACTS
from dtlint.interval import Interval
from dtlint.report.json import Json, finding_json, plain_json, range_json, run_json
from dtlint.report.markdown import MARKER, MOST_CHARACTERS, details, findings_table
from dtlint.report.markdown_text import capped, code, escaped, table
from dtlint.report.terminal import printable, wrap
from dtlint.report.words import counted, fact_shown, plan_line, run_place, value_shown
from dtlint.rulebook.sentences import spell

if TYPE_CHECKING:
    from dtlint.difference import Difference, FigureChange, RunChange, SettingChange
    from dtlint.rulebook.finding import Finding
    from dtlint.value import Plain

NAMES = {
    "step.seconds": "step",
    "memory.peak_bytes": "memory of a GPU",
    "pipeline.bubble": "pipeline idle",
    "step.exposed_share": "exposed communication",
    "step.tokens_per_second_per_gpu": "throughput of a GPU",
    "run.gpu_hours": "GPU-hours of the run",
    "run.usd": "price of the run",
}
UNKNOWN = "?"


def difference_text(difference: Difference, columns: int) -> str:
    """What changed, "" for nothing."""
    if difference.is_empty:
        return ""
    blocks = ["\n".join(_run_lines(change, columns)) for change in difference.runs]
    findings = [line for said, found in _findings(difference) for line in wrap(found, f"{said}: ", "    ", columns)]
    return "\n\n".join(filter(None, [*blocks, "\n".join(findings)])) + "\n"


def difference_json(difference: Difference) -> str:
    """What changed, with the fields of the JSON report for runs and findings."""
    document: Json = {
        "version": 1,
        "runs": [_run_json(change) for change in difference.runs],
        "new": [finding_json(finding) for finding in difference.new],
        "gone": [finding_json(finding) for finding in difference.gone],
        "changed": [{"before": finding_json(one), "after": finding_json(other)} for one, other in difference.changed],
    }
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def difference_markdown(difference: Difference) -> str:
    """The comment on a pull request: the headline, each run before and after, new findings; "" for no change."""
    if difference.is_empty:
        return ""
    worse = (*difference.new, *(after for _, after in difference.changed))
    lines = [MARKER, f"### dtlint: {_headline(difference)}"]
    for change in difference.runs:
        lines += _run_table(change)
    lines += findings_table(worse)
    lines += ["", *(f"- gone: {finding.id} {finding.rule} in {_file(finding)}" for finding in difference.gone)]
    lines += [*details(worse), "", "Updated at each push."]
    return "\n".join(capped(lines, MOST_CHARACTERS)) + "\n"


def _headline(difference: Difference) -> str:
    """One sentence: the dearest change, and how many findings come and go."""
    known = [change for change in difference.runs if change.slower is not None and not _is_nothing(change.slower)]
    dearest = max(known, key=lambda change: change.slower.middle if change.slower else 0.0, default=None)
    parts = [_slower(dearest.slower) if dearest is not None and dearest.slower is not None else ""]
    parts += [counted(len(difference.new), "new finding")] if difference.new else []
    parts += [f"{counted(len(difference.gone), 'finding')} gone"] if difference.gone else []
    return "; ".join(filter(None, parts)) or f"{counted(len(difference.runs), 'plan')} changed"


def _is_nothing(share: Interval) -> bool:
    return max(abs(share.low), abs(share.high)) < 0.005


def _slower(share: Interval) -> str:
    if share.high <= 0:
        return f"a token takes {spell(Interval(-share.high, -share.low), 'percent')} less time"
    if share.low >= 0:
        return f"a token takes {spell(share, 'percent')} more time"
    return f"a token takes {spell(-share.low, 'percent')} less to {spell(share.high, 'percent')} more time"


def _run_lines(change: RunChange, columns: int) -> Iterator[str]:
    yield from wrap(_run_title(change), "", "    ", columns)
    rows = [*map(_setting_row, change.settings), *map(_figure_row, change.figures)]
    names = max((len(name) for name, _, _ in rows), default=0)
    if change.before is not None and change.after is not None:
        for name, before, after in rows:
            yield f"  {name:<{names}}  {before} -> {after}"
    if change.slower is not None and not _is_nothing(change.slower):
        yield f"  {_slower(change.slower)}"


def _run_title(change: RunChange) -> str:
    run = change.after or change.before
    assert run is not None
    before, after = (plan_line(each.plan) if each else "" for each in (change.before, change.after))
    if not before:
        return f"{run_place(run)}: new: {after}"
    if not after:
        return f"{run_place(run)}: gone: {before}"
    return f"{run_place(run)}: {before}" + (f" -> {after}" if after != before else "")


def _setting_row(change: SettingChange) -> tuple[str, str, str]:
    return change.name, _shown(change.before), _shown(change.after)


def _figure_row(change: FigureChange) -> tuple[str, str, str]:
    unit = FACTS[change.name].unit
    before, after = (UNKNOWN if each is None else fact_shown(unit, each) for each in (change.before, change.after))
    return NAMES[change.name], before, after


def _shown(value: Plain) -> str:
    return UNKNOWN if value is None else value_shown(value)


def _findings(difference: Difference) -> Iterator[tuple[str, str]]:
    for finding in difference.new:
        yield "new", _sentence(finding)
    for one, other in difference.changed:
        yield "changed", f"{_sentence(other)} (was: {printable(one.message)})"
    for finding in difference.gone:
        yield "gone", _sentence(finding)


def _sentence(finding: Finding) -> str:
    span = finding.span.original()
    place = printable(f"{span.path}:{span.line}")
    return f"{finding.severity}[{finding.id} {finding.rule}] {place} {printable(finding.message)}"


def _run_table(change: RunChange) -> list[str]:
    run = change.after or change.before
    assert run is not None
    rows = [*map(_setting_row, change.settings), *map(_figure_row, change.figures)]
    if change.before is None or change.after is None:
        return ["", f"{code(run_place(run))}: {escaped(_run_title(change).partition(': ')[2])}"]
    shown = [(escaped(name), escaped(before), f"**{escaped(after)}**") for name, before, after in rows]
    return ["", *table((code(run_place(run)), "before:", "after:"), shown)]


def _file(finding: Finding) -> str:
    return code(finding.span.original().path)


def _run_json(change: RunChange) -> Json:
    return {
        "before": None if change.before is None else run_json(change.before),
        "after": None if change.after is None else run_json(change.after),
        "settings": [
            {"name": each.name, "before": plain_json(each.before), "after": plain_json(each.after)}
            for each in change.settings
        ],
        "figures": [
            {"name": each.name, "before": range_json(each.before), "after": range_json(each.after)}
            for each in change.figures
        ],
        "slower": range_json(change.slower),
    }
