"""The report for people: findings with their code, what they cost, what to write, and what was not decided."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from dtlint.report.frame import Mark, Paint, code_frame, place
from dtlint.report.terminal import printable, styled, wrap
from dtlint.report.words import (
    caveats,
    cost_line,
    counted,
    listed,
    plan_line,
    related_label,
    run_place,
    saving_line,
    setting_shown,
    step_time,
    telling,
)
from dtlint.value import Value

if TYPE_CHECKING:
    from dtlint.rulebook.check import Report
    from dtlint.rulebook.finding import Finding, Remedy, Summary, Undecided
    from dtlint.runs.model import Run
    from dtlint.source import Span

MOST_RUNS = 6
"""Runs that the summary names; a tree of many launches would otherwise bury its findings."""

MOST_REMEDIES = 4
MOST_ASSUMED = 4

PAINTS: Mapping[str, Paint] = {
    "error": partial(styled, fg="red", bold=True),
    "warning": partial(styled, fg="yellow", bold=True),
    "note": partial(styled, fg="cyan", bold=True),
}
DIM: Paint = partial(styled, dim=True)
RELATED: Paint = partial(styled, fg="blue")
BOLD: Paint = partial(styled, bold=True)


def report_text(report: Report, columns: int) -> str:
    """The whole report, its lines at most `columns` wide where words allow; with colours, for the output to strip.

    Empty where there was nothing to check.
    """
    if not (report.findings or report.runs):
        return ""
    blocks = ["\n".join(finding_lines(finding, report.runs, columns)) for finding in report.findings]
    return "\n\n".join([*blocks, "\n".join(summary_lines(report, columns))]) + "\n"


def report_concise(report: Report) -> str:
    """One line per finding, in the form that editors jump to."""
    return "".join(f"{_concise(finding)}\n" for finding in report.findings)


def undecided_text(undecided: Sequence[Undecided], columns: int) -> str:
    """Each rule that was not decided, with the settings that would decide it."""
    lines: list[str] = []
    for entry in undecided:
        needs = ", ".join(map(telling, entry.needs)) or "more than the files tell"
        lines.extend(wrap(f"{entry.rule} needs {needs}", "undecided: ", " " * 11, columns))
    return "".join(f"{line}\n" for line in lines)


def finding_lines(finding: Finding, runs: Sequence[Run], columns: int) -> list[str]:
    """Headline, code, and the lines of cost, remedies, assumptions and confidence."""
    paint = PAINTS[finding.severity]
    marks = _marks(finding, paint)
    gutter = " " * max(len(str(mark.span.line)) for mark in marks)
    lines = [*_headline(finding, paint, columns), *code_frame(marks, columns, DIM), DIM(f"{gutter} |")]
    for name, text in _remarks(finding, runs):
        lines.extend(_remark(name, text, gutter, columns))
    return lines


def summary_lines(report: Report, columns: int) -> list[str]:
    """What was read and found, what all remedies together bring, and what was not decided."""
    lines = [BOLD(_counts(report.findings))] if report.findings else []
    lines += _read(report, columns)
    if report.summary is not None:
        lines.extend(_remedied(report.summary, columns))
    return [*lines, *_not_decided(report.undecided, columns)]


def _headline(finding: Finding, paint: Paint, columns: int) -> list[str]:
    tag = f"{finding.severity}[{finding.id} {finding.rule}]"
    first, *rest = wrap(printable(finding.message), tag + " ", "    ", columns)
    return [paint(tag) + BOLD(first[len(tag) :]), *map(BOLD, rest)]


def _marks(finding: Finding, paint: Paint) -> list[Mark]:
    """The finding's place and those it rests on, each once with all that is said of it."""
    own = finding.span.original()
    labels: dict[Span, dict[str, None]] = {own: {}}
    for related in finding.related:
        span = related.span.original()
        labels.setdefault(span, {})[related.label if span == own else related_label(related)] = None
    others = [Mark(span, "; ".join(said), "-", RELATED) for span, said in labels.items() if span != own]
    return [Mark(own, "; ".join(labels[own]), "^", paint), *others]


def _remarks(finding: Finding, runs: Sequence[Run]) -> Iterable[tuple[str, str]]:
    """The lines below the code, each with its name."""
    cost = cost_line(finding.cost)
    if cost:
        yield "cost", cost
    if finding.formula:
        yield "formula", printable(finding.formula)
    for remedy in finding.remedies[:MOST_REMEDIES]:
        yield "help", _help(remedy if finding.cost.memory_bytes else _without_memory(remedy))
    if finding.cost.assumed:
        yield "assumed", _assumed(finding, runs)
    if finding.cost.needs:
        yield "unknown", f"{listed(finding.cost.needs)}; say it with {telling(finding.cost.needs[0])}"
    if len(finding.runs) > 1:
        yield "runs", f"the same in {len(finding.runs)} plans: {_branches(finding, runs)}"
    yield "confidence", f"{finding.confidence}; more: dtlint explain {finding.rule}"


def _help(remedy: Remedy) -> str:
    where = listed(tuple(place(edit.span.original()) for edit in remedy.edits[:3]))
    per = "token" if "batch.global" in remedy.set else "step"
    parts = [printable(remedy.text) + (f" (at {where})" if where else ""), saving_line(remedy.saves, per)]
    return "; ".join(part for part in (*parts, *caveats(remedy)) if part)


def _without_memory(remedy: Remedy) -> Remedy:
    return remedy._replace(saves=remedy.saves._replace(memory_bytes=None))


def _assumed(finding: Finding, runs: Sequence[Run]) -> str:
    """What was assumed, the unknown with the bounds that were taken first: they make the ranges."""
    plan = runs[finding.runs[0]].plan if finding.runs else None
    names = finding.cost.assumed
    if plan is not None:
        names = tuple(sorted(names, key=lambda name: isinstance(plan.get(name), Value)))
    shown = [name if plan is None else setting_shown(plan, name) for name in names[:MOST_ASSUMED]]
    if len(names) > len(shown):
        shown.append(f"{len(names) - len(shown)} more")
    return f"{listed(shown)}; say it with {telling(names[0])}"


def _branches(finding: Finding, runs: Sequence[Run]) -> str:
    places = dict.fromkeys(runs[index].branch or run_place(runs[index]) for index in finding.runs)
    shown = list(places)[:MOST_REMEDIES]
    return ", ".join(map(printable, shown)) + (", ..." if len(places) > len(shown) else "")


def _remark(name: str, text: str, gutter: str, columns: int) -> list[str]:
    head = f"{gutter} = {name}: "
    first, *rest = wrap(text, head, " " * len(head), columns)
    return [DIM(f"{gutter} = ") + BOLD(f"{name}:") + first[len(head) - 1 :], *rest]


def _concise(finding: Finding) -> str:
    head = f"{place(finding.span.original())}: {PAINTS[finding.severity](finding.severity)}"
    cost = cost_line(finding.cost)
    return f"{head}[{finding.id} {finding.rule}] {printable(finding.message)}" + (f" ({cost})" if cost else "")


def _counts(findings: Sequence[Finding]) -> str:
    parts = [(kind, sum(finding.severity == kind for finding in findings)) for kind in PAINTS]
    kinds = ", ".join(counted(number, kind) for kind, number in parts if number)
    return f"{counted(len(findings), 'finding')}: {kinds}{_fixable(findings)}"


def _fixable(findings: Sequence[Finding]) -> str:
    """How many findings a flag would try to mend, "" for none."""
    from dtlint.rulebook.fixable import candidates

    safe, every = ({id(each.finding) for each in candidates(findings, unsafe)} for unsafe in (False, True))
    flags = (("--fix", safe), ("--fix --unsafe-fixes", every - safe))
    return "".join(f"; {flag} can mend {len(mended)}" for flag, mended in flags if mended)


def _read(report: Report, columns: int) -> Iterable[str]:
    """The plans that were read; where nothing was found, that they are clean or how much was not decided."""
    if not report.runs:
        yield "no launch and no training config was read"
    lead, end = _reading_words(report)
    lines = list(dict.fromkeys(_run_line(run, end) for run in report.runs))
    for line in lines[:MOST_RUNS]:
        yield from wrap(line, lead, " " * 4, columns)
    if len(lines) > MOST_RUNS:
        yield f"read {len(lines) - MOST_RUNS} more plans"


def _reading_words(report: Report) -> tuple[str, str]:
    """What stands before and after each plan that was read."""
    if report.findings:
        return "read ", ""
    rules, open_rules = len(report.rules), len({entry.rule for entry in report.undecided})
    if not open_rules:
        return "clean: ", f"; {counted(rules, 'rule')} found nothing"
    return "nothing found: ", f"; {counted(rules, 'rule')}, {open_rules} of them not decided"


def _run_line(run: Run, end: str) -> str:
    if run.role == "other":
        return f"{run_place(run)}: not judged, the program does not train"
    branch = f" (if {printable(run.branch)})" if run.branch else ""
    return f"{run_place(run)}{branch}: {plan_line(run.plan)}{end}"


def _remedied(summary: Summary, columns: int) -> Iterable[str]:
    if not summary.remedied or summary.seconds_per_step is None:
        return
    then = step_time(summary.seconds_per_step)
    change = f"{step_time(summary.today)} -> {then}" if summary.today else then
    text = f"{change} per step with {', then '.join(map(printable, summary.remedied))}; same training"
    yield from wrap(text, "all remedied: ", " " * 4, columns)


def _not_decided(undecided: Sequence[Undecided], columns: int) -> Iterable[str]:
    """The undecided rules by the settings that they wait for, those that most wait for first."""
    waiting: dict[tuple[str, ...], list[str]] = {}
    for entry in undecided:
        waiting.setdefault(entry.needs, []).append(entry.rule)
    for needs, rules in sorted(waiting.items(), key=lambda item: -len(item[1])):
        names = list(dict.fromkeys(rules))
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        yield from wrap(f"{shown}; {_wanted(needs)}", "not decided: ", " " * 4, columns)


def _wanted(needs: tuple[str, ...]) -> str:
    if not needs:
        return "the files tell too little"
    return "needs " + ", ".join(map(telling, needs[:3])) + (f" and {len(needs) - 3} more" if len(needs) > 3 else "")
