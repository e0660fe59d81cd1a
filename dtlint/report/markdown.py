"""The report as Markdown, for a comment on a pull request or the summary of a CI job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dtlint.report.markdown_text import capped, code, escaped, table
from dtlint.report.words import (
    caveats,
    cost_line,
    counted,
    day_cost,
    lasting_cost,
    plan_line,
    related_label,
    run_place,
    saving_line,
    step_cost,
    telling,
)
from dtlint.rulebook.rule import WORST_FIRST

if TYPE_CHECKING:
    from dtlint.rulebook.check import Report
    from dtlint.rulebook.finding import Finding, Remedy

MARKER = "[//]: <> (dtlint-comment)"
"""Hidden first line by which a job finds its own earlier comment and replaces it."""

MOST_CHARACTERS = 65_536
"""Longest comment that GitHub takes."""

MOST_ROWS = 40
SIGNS = {"error": "\N{LARGE RED CIRCLE}", "warning": "\N{LARGE YELLOW CIRCLE}", "note": "\N{LARGE BLUE CIRCLE}"}


def report_markdown(report: Report) -> str:
    """A headline, a table of findings, and their details folded."""
    lines = [MARKER, *_head(report), *findings_table(report.findings), *details(report.findings), *_tail(report)]
    return "\n".join(capped(lines, MOST_CHARACTERS)) + "\n"


def findings_table(findings: Sequence[Finding]) -> list[str]:
    """A row per finding, the worst first; () where there is none."""
    if not findings:
        return []
    ranked = sorted(findings, key=lambda finding: WORST_FIRST.index(finding.severity))
    rows = [_row(finding) for finding in ranked[:MOST_ROWS]]
    more = [f"and {counted(len(ranked) - MOST_ROWS, 'more finding')}"] if len(ranked) > MOST_ROWS else []
    return ["", *table(("", "rule", "where", "what", "cost:", "per day:"), rows), *more]


def details(findings: Sequence[Finding]) -> Iterator[str]:
    """A folded block with what each finding rests on, costs and what helps."""
    if findings:
        yield from ("", "<details><summary>How the costs come about, and what to change</summary>", "")
        for finding in findings:
            yield from _block(finding)
        yield "</details>"


def _head(report: Report) -> Iterator[str]:
    if not report.runs and not report.findings:
        yield "### dtlint: nothing to check"
        return
    counts = [(kind, sum(finding.severity == kind for finding in report.findings)) for kind in WORST_FIRST]
    found = ", ".join(counted(number, kind) for kind, number in counts if number)
    yield f"### dtlint: {found or 'nothing found'}"
    for line in list(dict.fromkeys(f"{code(run_place(run))}: {escaped(plan_line(run.plan))}" for run in report.runs))[
        :6
    ]:
        yield f"- {line}"


def _row(finding: Finding) -> tuple[str, ...]:
    span, cost = finding.span.original(), finding.cost
    return (
        SIGNS[finding.severity],
        f"{finding.id} {finding.rule}",
        code(f"{span.path}:{span.line}"),
        escaped(finding.message),
        escaped(step_cost(cost) or lasting_cost(cost)),
        escaped(day_cost(cost)),
    )


def _block(finding: Finding) -> Iterator[str]:
    yield f"**{finding.id} {finding.rule}**: {escaped(finding.message)}"
    yield ""
    for related in finding.related:
        span = related.span.original()
        yield f"- {code(f'{span.path}:{span.line}')}: {escaped(related_label(related))}"
    cost = cost_line(finding.cost)
    if cost:
        yield f"- cost: {escaped(cost)}"
    if finding.formula:
        yield f"- formula: {escaped(finding.formula)}"
    for remedy in finding.remedies:
        yield f"- write: {_remedy(remedy)}"
    if finding.cost.assumed:
        names = ", ".join(map(code, finding.cost.assumed))
        yield f"- assumed: {names}; tell with {code(telling(finding.cost.assumed[0]))}"
    yield f"- confidence: {finding.confidence}; to silence it: {code(f'# dtlint: ignore[{finding.rule}] reason')}"
    yield ""


def _remedy(remedy: Remedy) -> str:
    per = "token" if "batch.global" in remedy.set else "step"
    parts = [escaped(remedy.text), escaped(saving_line(remedy.saves, per))]
    return "; ".join(filter(None, (*parts, *caveats(remedy))))


def _tail(report: Report) -> Iterator[str]:
    open_rules = len({entry.rule for entry in report.undecided})
    yield ""
    if open_rules:
        yield f"{counted(open_rules, 'rule')} not decided: `dtlint check --show-undecided` says what they need."
