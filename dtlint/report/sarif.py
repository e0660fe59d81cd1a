"""The report as SARIF 2.1.0, in the form that GitHub's code scanning shows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from dtlint import __version__
from dtlint.report.fingerprints import fingerprints, line_fingerprints
from dtlint.report.json import Json, cost_json
from dtlint.report.places import repository_path, token
from dtlint.report.terminal import printable
from dtlint.report.words import cost_line, related_label, remedy_line
from dtlint.rulebook.rule import SEVERITIES

if TYPE_CHECKING:
    from dtlint.rulebook.check import Report
    from dtlint.rulebook.finding import Finding, Related, Remedy
    from dtlint.rulebook.rule import Rule
    from dtlint.source import Edit, Span

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
MOST_CHARACTERS = 1024
"""Longest description of a rule that GitHub takes."""

PROBLEM = {"error": "error", "warning": "warning", "note": "recommendation"}
"""GitHub's words for severities."""


def report_sarif(report: Report) -> str:
    """Findings with places, edits, fingerprints, and the rules that they are about."""
    names = list(dict.fromkeys(finding.rule for finding in report.findings))
    rules = {rule.name: rule for rule in report.rules}
    driver = {
        "name": "dtlint",
        "semanticVersion": __version__,
        "rules": [_rule(rules[name]) for name in names if name in rules],
    }
    run = {
        "tool": {"driver": driver},
        "automationDetails": {"id": "dtlint/"},
        "columnKind": "unicodeCodePoints",
        "results": list(_results(report, [name for name in names if name in rules])),
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, allow_nan=False) + "\n"


def _results(report: Report, indexed: Sequence[str]) -> Iterator[Json]:
    own = fingerprints(report.findings, report.runs)
    lines = line_fingerprints(report.findings)
    for finding, name, line in zip(report.findings, own, lines, strict=True):
        index = {"ruleIndex": indexed.index(finding.rule)} if finding.rule in indexed else {}
        fixes = [_fix(remedy) for remedy in finding.remedies if remedy.edits]
        yield {
            "ruleId": finding.id,
            **index,
            "level": finding.severity,
            "message": {"text": _message(finding)},
            "locations": [{"physicalLocation": _location(finding.span)}],
            "relatedLocations": [_related(number, each) for number, each in enumerate(finding.related, 1)],
            "partialFingerprints": {"primaryLocationLineHash": line, "dtlint/v1": name},
            **({"fixes": fixes} if fixes else {}),
            "properties": {
                "dtlint/confidence": finding.confidence,
                "dtlint/outcome": finding.outcome,
                "dtlint/cost": cost_json(finding.cost),
            },
        }


def _message(finding: Finding) -> str:
    """A sentence that stands alone, then the cost, the places it rests on as links, and what to write."""
    cost = cost_line(finding.cost)
    links = ", ".join(f"[{_plain(related_label(each))}]({number})" for number, each in enumerate(finding.related, 1))
    help_text = "; or ".join(_plain(remedy_line(remedy)) for remedy in finding.remedies)
    parts = [
        _plain(finding.message),
        f"Cost: {_plain(cost)}" if cost else "",
        f"From: {links}" if links else "",
        f"Write: {help_text}" if help_text else "",
    ]
    return ". ".join(filter(None, parts)) + "."


def _plain(text: str) -> str:
    """Text in which brackets make no link."""
    return printable(text).replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")


def _rule(rule: Rule) -> Json:
    severity = min((SEVERITIES[verdict.outcome] for verdict in rule.verdicts), default="note", key=list(PROBLEM).index)
    return {
        "id": rule.id,
        "name": rule.name,
        "shortDescription": {"text": _short(rule.summary)},
        "fullDescription": {"text": _short(rule.why or rule.summary)},
        "help": {"text": _help(rule, ""), "markdown": _help(rule, "**")},
        "defaultConfiguration": {"level": severity},
        "properties": {
            "tags": ["distributed-training", rule.family],
            "precision": "high",
            "problem.severity": PROBLEM[severity],
        },
    }


def _short(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - 3] + "..."


def _help(rule: Rule, strong: str) -> str:
    parts = [
        ("Why", rule.why),
        ("Fine when", rule.fine_when),
        ("To silence it", f"# dtlint: ignore[{rule.name}] reason"),
    ]
    return "\n\n".join(f"{strong}{title}{strong}: {text}" for title, text in parts if text)


def _location(span: Span) -> dict[str, Json]:
    shown = token(span)
    return {
        "artifactLocation": _artifact(span.original()),
        "region": {**_region(shown), "snippet": {"text": shown.text}},
    }


def _artifact(span: Span) -> Json:
    return {"uri": quote(repository_path(span))}


def _related(number: int, related: Related) -> Json:
    return {
        "id": number,
        "message": {"text": _plain(related_label(related))},
        "physicalLocation": _location(related.span),
    }


def _region(span: Span) -> dict[str, Json]:
    (line, column), (end_line, end_column) = span.source.position(span.start), span.source.position(span.end)
    return {"startLine": line, "startColumn": column, "endLine": end_line, "endColumn": end_column}


def _fix(remedy: Remedy) -> Json:
    by_file: dict[str, list[Edit]] = {}
    for edit in remedy.edits:
        by_file.setdefault(edit.span.original().path, []).append(edit)
    changes = [_change(edits) for edits in by_file.values()]
    return {"description": {"text": remedy_line(remedy)}, "artifactChanges": changes}


def _change(edits: Iterable[Edit]) -> Mapping[str, Json]:
    spans = [(edit.span.original(), edit.text) for edit in edits]
    replacements: list[Json] = [
        {"deletedRegion": _region(span), "insertedContent": {"text": text}} for span, text in spans
    ]
    return {"artifactLocation": _artifact(spans[0][0]), "replacements": replacements}
