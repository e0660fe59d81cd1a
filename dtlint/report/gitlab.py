"""The report as a GitLab code quality artifact."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from dtlint.report.fingerprints import fingerprints
from dtlint.report.places import repository_path, token
from dtlint.report.terminal import printable
from dtlint.report.words import cost_line, remedy_line

if TYPE_CHECKING:
    from dtlint.report.json import Json
    from dtlint.rulebook.check import Report
    from dtlint.rulebook.finding import Finding

SEVERITY = {"error": "major", "warning": "minor", "note": "info"}


def report_gitlab(report: Report) -> str:
    """A list with an entry per finding, empty where there is none."""
    names = fingerprints(report.findings, report.runs)
    entries = [_entry(finding, name) for finding, name in zip(report.findings, names, strict=True)]
    return json.dumps(entries, indent=2) + "\n"


def _entry(finding: Finding, fingerprint: str) -> Json:
    span = token(finding.span)
    return {
        "description": _description(finding),
        "check_name": finding.rule,
        "fingerprint": fingerprint,
        "severity": SEVERITY[finding.severity],
        "location": {"path": repository_path(span), "lines": {"begin": span.line}},
    }


def _description(finding: Finding) -> str:
    """All that GitLab shows of a finding: its rule, the sentence, the cost, the first remedy."""
    cost = cost_line(finding.cost)
    remedy = f"; write {remedy_line(finding.remedies[0])}" if finding.remedies else ""
    return f"{finding.id} {printable(finding.message)}" + (f" ({cost})" if cost else "") + remedy
