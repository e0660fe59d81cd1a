"""The JSON report: a contract that tools read; within version 1 fields are only added."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from dtlint.interval import Interval
from dtlint.value import Origin, Plain, Unknown, Value

if TYPE_CHECKING:
    from dtlint.plan import Plan
    from dtlint.rulebook.check import Report
    from dtlint.rulebook.finding import Amount, Cost, Finding, Remedy, Saving, Stop, Summary, Undecided
    from dtlint.runs.model import Launch, Run
    from dtlint.source import Edit, Span

VERSION = 1

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"


def report_json(report: Report) -> str:
    """A check's findings, what was not decided, the summary and the runs."""
    return _text(
        {
            "version": VERSION,
            "findings": [finding_json(finding) for finding in report.findings],
            "undecided": [_undecided(entry) for entry in report.undecided],
            "summary": _summary(report.summary),
            "runs": [run_json(run) for run in report.runs],
        }
    )


def runs_json(runs: Sequence[Run]) -> str:
    """The plans alone, in the form in which a check reports them, with the figures of each."""
    return _text({"version": VERSION, "runs": [{**run_json(run), "estimate": estimate_json(run)} for run in runs]})


def estimate_json(run: Run) -> Json:
    """What the plan amounts to: where its groups lie, memory by stage, the parts of a step, throughput."""
    from dtlint.report.figures import figures_of
    from dtlint.report.figures_json import figures_json

    return figures_json(figures_of(run.plan))


def unknown_json(unknown: Unknown) -> Json:
    """Why something is unknown, and what would tell it."""
    return {"unknown": unknown.reason, "set": unknown.how}


def finding_json(finding: Finding) -> Mapping[str, Json]:
    """One finding."""
    return {
        "rule": finding.rule,
        "id": finding.id,
        "severity": finding.severity,
        "outcome": finding.outcome,
        "confidence": finding.confidence,
        "message": finding.message,
        "url": finding.url,
        **_place(finding.span),
        "related": [{**_place(related.span), "label": related.label} for related in finding.related],
        "cost": cost_json(finding.cost),
        "remedies": [_remedy(remedy) for remedy in finding.remedies],
        "runs": list(finding.runs),
        "formula": finding.formula or None,
    }


def run_json(run: Run) -> Mapping[str, Json]:
    """One run: how it is launched, its files, every setting with its origin, and the facts that follow."""
    return {
        "launch": None if run.launch is None else _launch(run.launch),
        "role": run.role,
        "branch": run.branch,
        "files": list(run.files),
        "settings": _settings(run.plan),
        "facts": _facts(run.plan),
        "assumptions": list(run.assumptions),
    }


def _text(document: Json) -> str:
    # Control characters and all that is not ASCII leave as escapes, so that a terminal shows them and does not obey.
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def _place(span: Span) -> dict[str, Json]:
    span = span.original()
    (line, column), (end_line, end_column) = span.source.position(span.start), span.source.position(span.end)
    return {"path": span.path, "line": line, "column": column, "end_line": end_line, "end_column": end_column}


def cost_json(cost: Cost) -> Json:
    """What a fault takes."""
    return {
        "share_of_step": range_json(cost.share_of_step),
        "seconds_per_step": range_json(cost.seconds_per_step),
        "memory_bytes": range_json(cost.memory_bytes),
        "gpu_hours_per_day": range_json(cost.gpu_hours_per_day),
        "usd_per_day": range_json(cost.usd_per_day),
        "stops": None if cost.stops is None else _stop(cost.stops),
        "amount": None if cost.amount is None else _amount(cost.amount),
        "needs": list(cost.needs),
        "assumed": list(cost.assumed),
    }


def _amount(amount: Amount) -> Json:
    return {"low": number_json(amount.size.low), "high": number_json(amount.size.high), "unit": amount.unit}


def _stop(stop: Stop) -> Json:
    return {
        "what": stop.what,
        "gpus": stop.gpus,
        "seconds": range_json(stop.seconds),
        "waiting_gpu_hours": stop.waiting,
    }


def _remedy(remedy: Remedy) -> Json:
    return {
        "set": {name: plain_json(value) for name, value in remedy.set.items()},
        "text": remedy.text,
        "saves": _saving(remedy.saves),
        "changes_training": remedy.changes_training,
        "raises": list(remedy.raises),
        "enough": remedy.enough,
        "edits": [_edit(edit) for edit in remedy.edits],
    }


def _saving(saving: Saving) -> Json:
    return {
        "share_of_step": range_json(saving.share_of_step),
        "seconds_per_step": range_json(saving.seconds_per_step),
        "memory_bytes": range_json(saving.memory_bytes),
    }


def _edit(edit: Edit) -> Json:
    return {**_place(edit.span), "text": edit.text}


def _undecided(entry: Undecided) -> Json:
    return {"rule": entry.rule, "runs": list(entry.runs), "needs": list(entry.needs)}


def _summary(summary: Summary | None) -> Json:
    if summary is None:
        return None
    return {"remedied": list(summary.remedied), "seconds_per_step": range_json(summary.seconds_per_step)}


def _launch(launch: Launch) -> Json:
    place = _place(launch.place)
    return {
        "path": place["path"],
        "line": place["line"],
        "argv": [word.text for word in launch.argv if not word.adds_none],
        "env": {name: word.text for name, word in launch.env.items()},
    }


def _settings(plan: Plan) -> Json:
    from dtlint.plan.vocabulary import vocabulary

    return {name: _setting(plan.get(name)) for name in vocabulary()}


def _setting(setting: Value | Unknown) -> Json:
    if isinstance(setting, Unknown):
        return unknown_json(setting)
    return {"value": plain_json(setting.value), **_origin(setting.origin)}


def _origin(origin: Origin) -> dict[str, Json]:
    span = None if origin.span is None else origin.span.original()
    return {
        "origin": origin.kind,
        "path": None if span is None else span.path,
        "line": None if span is None else span.line,
        **({"note": origin.note} if origin.note else {}),
        **({"from": list(origin.settings)} if origin.settings else {}),
    }


def _facts(plan: Plan) -> Json:
    from dtlint.facts import facts

    return {name: _fact(value) for name, value in facts(plan)}


def _fact(value: Plain | Interval | Unknown) -> Json:
    if isinstance(value, Unknown):
        return unknown_json(value)
    if isinstance(value, Interval):
        return range_json(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return range_json(Interval(value, value))
    return {"value": plain_json(value)}


def range_json(interval: Interval | None) -> Json:
    """Two bounds, null for what is not known."""
    if interval is None:
        return None
    return {"low": number_json(interval.low), "high": number_json(interval.high)}


def number_json(number: float) -> Json:
    """A number to six digits. JSON has no infinity: what has no bound is null."""
    if not math.isfinite(number):
        return None
    return int(number) if number == int(number) and abs(number) < 2**53 else float(f"{number:.6g}")


def plain_json(value: Plain) -> Json:
    """The value of a setting."""
    if isinstance(value, tuple):
        return [plain_json(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): plain_json(item) for key, item in value.items()}
    return number_json(value) if isinstance(value, float) else value
