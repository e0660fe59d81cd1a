"""The report as JUnit XML, which every CI server shows as tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from dtlint.report.terminal import printable
from dtlint.report.words import finding_lines

if TYPE_CHECKING:
    from dtlint.rulebook.check import Report
    from dtlint.rulebook.finding import Finding


def report_junit(report: Report) -> str:
    """A suite per file with a failed case per finding; where nothing is found one case that passed."""
    by_file: dict[str, list[Finding]] = {}
    for finding in report.findings:
        by_file.setdefault(finding.span.original().path, []).append(finding)
    suites = [_suite(path, findings) for path, findings in by_file.items()] or [_passed()]
    count = len(report.findings)
    head = f'<testsuites name="dtlint" tests="{max(count, 1)}" failures="{count}" errors="0">'
    return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', head, *suites, "</testsuites>"]) + "\n"


def _suite(path: str, findings: Sequence[Finding]) -> str:
    count = len(findings)
    head = f'  <testsuite name={_attribute(path)} tests="{count}" failures="{count}" errors="0">'
    return "\n".join([head, *map(_case, findings), "  </testsuite>"])


def _case(finding: Finding) -> str:
    span = finding.span.original()
    name, place = f"dtlint.{finding.id}", f"{span.path}:{span.line}:{span.column}"
    head = f"    <testcase name={_attribute(f'{name} {finding.rule}')} classname={_attribute(span.path)}>"
    text = "\n".join(map(printable, (place, *finding_lines(finding))))
    failure = f"      <failure type={_attribute(finding.severity)} message={_attribute(finding.message)}>"
    return f"{head}\n{failure}{escape(text)}</failure>\n    </testcase>"


def _passed() -> str:
    return (
        '  <testsuite name="dtlint" tests="1" failures="0" errors="0">\n'
        '    <testcase name="dtlint" classname="dtlint"/>\n'
        "  </testsuite>"
    )


def _attribute(text: str) -> str:
    return quoteattr(printable(text))
