"""Findings as an editor shows them: diagnostics with their related places, and remedies as quick fixes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lsprotocol.types import (
    CodeAction,
    CodeActionKind,
    CodeDescription,
    Diagnostic,
    DiagnosticRelatedInformation,
    DiagnosticSeverity,
    Range,
    TextEdit,
    WorkspaceEdit,
)
from pygls.workspace import PositionCodec

from dtlint.lsp.places import location_of, range_of, uri_of
from dtlint.report.terminal import printable
from dtlint.report.words import finding_lines, related_label, saving_line
from dtlint.rulebook.finding import Finding, Remedy
from dtlint.source import Edit

SEVERITIES = {
    "error": DiagnosticSeverity.Error,
    "warning": DiagnosticSeverity.Warning,
    "note": DiagnosticSeverity.Information,
}


def diagnostics_of(findings: Iterable[Finding], codec: PositionCodec) -> dict[str, list[Diagnostic]]:
    """The diagnostics of each document, by URI."""
    found: dict[str, list[Diagnostic]] = {}
    for finding in findings:
        place = location_of(finding.span, codec)
        if place is not None:
            found.setdefault(place.uri, []).append(diagnostic_of(finding, place.range, codec))
    return found


def diagnostic_of(finding: Finding, where: Range, codec: PositionCodec) -> Diagnostic:
    """One finding: its sentence, cost and remedies, with the places that it rests on."""
    return Diagnostic(
        range=where,
        severity=SEVERITIES[finding.severity],
        code=finding.rule,
        code_description=CodeDescription(finding.url) if finding.url else None,
        source="dtlint",
        message="\n".join(finding_lines(finding)),
        related_information=list(_related(finding, codec)),
    )


def actions_of(findings: Sequence[Finding], uri: str, where: Range, codec: PositionCodec) -> list[CodeAction]:
    """The quick fixes of the findings that the range touches: every remedy that can be written."""
    touched = [finding for finding in findings if _touches(finding, uri, where, codec)]
    return [action for finding in touched for action in _actions(finding, codec)]


def _actions(finding: Finding, codec: PositionCodec) -> Iterator[CodeAction]:
    place = location_of(finding.span, codec)
    shown = [] if place is None else [diagnostic_of(finding, place.range, codec)]
    for remedy in finding.remedies:
        edit = _workspace_edit(remedy.edits, codec)
        if edit is not None:
            yield CodeAction(title=_title(remedy), kind=CodeActionKind.QuickFix, diagnostics=shown, edit=edit)


def _title(remedy: Remedy) -> str:
    saves = saving_line(remedy.saves, "token" if remedy.changes_training else "step")
    parts = [remedy.text, saves, "changes the training" if remedy.changes_training else ""]
    return "dtlint: " + printable("; ".join(filter(None, parts)))


def _workspace_edit(edits: Sequence[Edit], codec: PositionCodec) -> WorkspaceEdit | None:
    """The edits by document; None where one of them lies in no file."""
    changes: dict[str, list[TextEdit]] = {}
    for edit in edits:
        here = edit.span.original()
        if here.source.file is None:
            return None
        changes.setdefault(uri_of(here.source.file), []).append(TextEdit(range_of(here, codec), edit.text))
    return WorkspaceEdit(changes=changes) if changes else None


def _related(finding: Finding, codec: PositionCodec) -> Iterator[DiagnosticRelatedInformation]:
    for related in finding.related:
        place = location_of(related.span, codec)
        if place is not None:
            yield DiagnosticRelatedInformation(place, printable(related_label(related)))


def _touches(finding: Finding, uri: str, where: Range, codec: PositionCodec) -> bool:
    place = location_of(finding.span, codec)
    return place is not None and place.uri == uri and place.range.start <= where.end and where.start <= place.range.end
