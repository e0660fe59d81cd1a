"""The report as reviewdog's diagnostics, whose suggestions become one-click changes in a pull request."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from dtlint.report.places import byte_column, token
from dtlint.report.terminal import printable
from dtlint.report.words import finding_lines, related_label
from dtlint.rulebook.fixable import is_safe

if TYPE_CHECKING:
    from dtlint.report.json import Json
    from dtlint.rulebook.check import Report
    from dtlint.rulebook.finding import Finding
    from dtlint.source import Edit, Span

SEVERITY = {"error": "ERROR", "warning": "WARNING", "note": "INFO"}


def report_rdjson(report: Report) -> str:
    """Diagnostics with places in bytes of UTF-8."""
    diagnostics = [_diagnostic(finding) for finding in report.findings]
    document = {"source": {"name": "dtlint", "url": "https://github.com/dtlint/dtlint"}, "diagnostics": diagnostics}
    return json.dumps(document, indent=2) + "\n"


def _diagnostic(finding: Finding) -> Json:
    return {
        "message": "\n".join(finding_lines(finding)),
        "location": _location(token(finding.span)),
        "severity": SEVERITY[finding.severity],
        "code": {"value": f"{finding.id} {finding.rule}"},
        "suggestions": _suggestions(finding),
        "related_locations": [
            {"message": printable(related_label(related)), "location": _location(token(related.span))}
            for related in finding.related
        ],
    }


def _suggestions(finding: Finding) -> list[Json]:
    """Edits of the first remedy that keeps training as it is, if all of it is one edit: half a remedy is none."""
    for remedy in finding.remedies:
        if is_safe(remedy) and not remedy.raises and len(remedy.edits) == 1:
            return [_suggestion(edit) for edit in remedy.edits if edit.span.original().path == finding.span.path]
    return []


def _suggestion(edit: Edit) -> Json:
    return {"range": _range(edit.span.original()), "text": edit.text}


def _location(span: Span) -> Json:
    return {"path": span.path, "range": _range(span)}


def _range(span: Span) -> Json:
    return {"start": _position(span, span.start), "end": _position(span, span.end)}


def _position(span: Span, offset: int) -> Json:
    return {"line": span.source.position(offset)[0], "column": byte_column(span, offset)}
