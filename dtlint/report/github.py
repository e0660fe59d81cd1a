"""The report as workflow commands, which GitHub shows beside the changed lines of a pull request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dtlint.report.places import repository_path, token
from dtlint.report.terminal import printable
from dtlint.report.words import counted, finding_lines
from dtlint.rulebook.rule import WORST_FIRST

if TYPE_CHECKING:
    from dtlint.rulebook.check import Report
    from dtlint.rulebook.finding import Finding

MOST_ANNOTATIONS = 10
"""Annotations of one step that GitHub shows."""

COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def report_github(report: Report) -> str:
    """One command per finding, the worst and dearest first; past the number that is shown, one that counts the rest."""
    ranked = sorted(report.findings, key=_rank)
    shown = ranked if len(ranked) <= MOST_ANNOTATIONS else ranked[: MOST_ANNOTATIONS - 1]
    return "".join(f"{line}\n" for line in [*map(_command, shown), *_rest(ranked[len(shown) :])])


def _rank(finding: Finding) -> tuple[int, float]:
    share = finding.cost.share_of_step
    return WORST_FIRST.index(finding.severity), -(share.middle if share is not None else 0.0)


def _command(finding: Finding) -> str:
    span = token(finding.span)
    path = printable(repository_path(span))
    place = {"title": f"dtlint {finding.id} {finding.rule}", "file": path, "line": span.line}
    columns = {"col": span.column, "endLine": span.end_line, "endColumn": span.end_column}
    properties = ",".join(f"{name}={_property(str(value))}" for name, value in {**place, **columns}.items())
    text = "\n".join(map(printable, finding_lines(finding)))
    return f"::{COMMANDS[finding.severity]} {properties}::{_data(f'{path}:{span.line}: {text}')}"


def _rest(findings: Sequence[Finding]) -> list[str]:
    if not findings:
        return []
    return [f"::notice title=dtlint::{counted(len(findings), 'more finding')}; the step summary has all of them"]


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
