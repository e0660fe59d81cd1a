"""Where reports go: standard output, files, the summary of a CI job."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from dtlint.report.terminal import colour_wanted, terminal_width, unstyled
from dtlint.request import Destination
from dtlint.streams import put, put_end, put_file

if TYPE_CHECKING:
    from dtlint.rulebook.check import Report

MACHINE_FORMATS = ("json", "sarif", "github", "gitlab", "rdjson", "junit", "markdown")
"""Formats whose module in dtlint.report is named as they are, with a function `report_FORMAT`."""


def write_report(report: Report, destination: Destination, show_undecided: bool) -> None:
    """Put a report where it goes; GitHub's form also into the job's summary."""
    write(_rendered(report, destination.format, show_undecided), destination.file)
    if destination.format == "github":
        _add_step_summary(report)


def write(text: str, file: Path | None) -> None:
    """Put a report on standard output or into a file, without colours where none are wanted."""
    if file is None:
        put(text if colour_wanted(sys.stdout) else unstyled(text))
        return
    put_file(file, unstyled(text))


def _rendered(report: Report, form: str, show_undecided: bool) -> str:
    if form in MACHINE_FORMATS:
        rendered: str = getattr(import_module(f"dtlint.report.{form}"), f"report_{form}")(report)
        return rendered
    from dtlint.report.text import report_concise, report_text, undecided_text

    text = report_concise(report) if form == "concise" else report_text(report, terminal_width())
    return text + undecided_text(report.undecided, terminal_width()) if show_undecided else text


def _add_step_summary(report: Report) -> None:
    """The report as Markdown at the end of the file that GitHub shows as the job's summary, where there is one."""
    file = os.environ.get("GITHUB_STEP_SUMMARY")
    if not file:
        return
    from dtlint.report.markdown import report_markdown

    put_end(Path(file), report_markdown(report))
