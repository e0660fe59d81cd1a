"""The language server: what it answers when files are opened, changed, hovered over and mended."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from dtlint import __version__
from dtlint.lsp.checking import Texts, check_file, is_relevant
from dtlint.lsp.diagnostics import actions_of, diagnostics_of
from dtlint.lsp.hovering import hover_text, sources_of
from dtlint.lsp.places import file_of, offset_of, uri_of
from dtlint.request import Reading, Refusal
from dtlint.rulebook.check import Report

PATIENCE_SECONDS = 0.2
"""How long the text has to stand before it is checked: a check takes about as long as this."""


class Server(LanguageServer):
    """A server with the last report of each open document, and the documents that each report speaks of."""

    def __init__(self, reading: Reading) -> None:
        super().__init__("dtlint", __version__)
        self.reading = reading
        self.reports: dict[str, Report] = {}
        self.published: dict[str, dict[str, list[types.Diagnostic]]] = {}
        self.complaint = ""

    def texts(self) -> Texts:
        """What the open documents hold, saved or not."""
        documents = self.workspace.text_documents.values()
        found = ((file_of(document.uri), document.source) for document in documents)
        return {file: text for file, text in found if file is not None}

    def check(self, uri: str) -> None:
        """Check a document and publish what is found, in it and in what it starts."""
        file = file_of(uri)
        text = self.texts().get(file) if file is not None else None
        if file is None or text is None or not is_relevant(file, text):
            self.forget(uri)
            return
        report = self._report(file)
        if report is not None:
            self.reports[uri] = report
            self._publish(uri, diagnostics_of(report.findings, self.workspace.position_codec))

    def reading_from(self, uri: str) -> list[str]:
        """The open documents whose runs are read from a document too."""
        file = file_of(uri)
        return [each for each, report in self.reports.items() if file is not None and sources_of(report.runs, file)]

    def forget(self, uri: str) -> None:
        """Take back what was published for a document."""
        self.reports.pop(uri, None)
        self._publish(uri, {})
        self.published.pop(uri, None)

    def _report(self, file: Path) -> Report | None:
        """The check; None where config or rules cannot be used, which is said once."""
        try:
            return check_file(file, self.texts(), self.reading)
        except Refusal as error:
            self._complain(str(error))
            return None

    def _complain(self, sentence: str) -> None:
        if sentence != self.complaint:
            self.complaint = sentence
            shown = types.ShowMessageParams(types.MessageType.Warning, f"dtlint: {sentence}")
            self.window_show_message(shown)

    def _publish(self, uri: str, found: dict[str, list[types.Diagnostic]]) -> None:
        """Publish for every document that this check speaks of, or spoke of before, what all checks say of it."""
        file = file_of(uri)
        own = (uri_of(file),) if file is not None else ()
        concerned = dict.fromkeys((*own, *self.published.get(uri, {}), *found))
        self.published[uri] = found
        for each in concerned:
            shown: list[types.Diagnostic] = []
            for diagnostics in self.published.values():
                shown += [new for new in diagnostics.get(each, []) if new not in shown]
            self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(self._named(each), shown))

    def _named(self, uri: str) -> str:
        """The URI by which the editor knows a file."""
        open_files = ((each, file_of(each)) for each in self.workspace.text_documents)
        return next((each for each, file in open_files if file is not None and uri_of(file) == uri), uri)


def make_server(reading: Reading) -> Server:
    """A server that answers; `reading` has what the user states beside the files."""
    server = Server(reading)

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def opened(ls: Server, params: types.DidOpenTextDocumentParams) -> None:
        ls.check(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def saved(ls: Server, params: types.DidSaveTextDocumentParams) -> None:
        for uri in list(ls.workspace.text_documents):
            ls.check(uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    async def changed(ls: Server, params: types.DidChangeTextDocumentParams) -> None:
        uri = params.text_document.uri
        await asyncio.sleep(PATIENCE_SECONDS)
        document = ls.workspace.text_documents.get(uri)
        if document is not None and document.version == params.text_document.version:
            for each in dict.fromkeys((uri, *ls.reading_from(uri))):
                ls.check(each)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(ls: Server, params: types.DidCloseTextDocumentParams) -> None:
        ls.forget(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(ls: Server, params: types.HoverParams) -> types.Hover | None:
        return hover_at(ls, params.text_document.uri, params.position)

    @server.feature(
        types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix])
    )
    def actions(ls: Server, params: types.CodeActionParams) -> list[types.CodeAction]:
        file = file_of(params.text_document.uri)
        findings = [finding for report in ls.reports.values() for finding in report.findings]
        codec = ls.workspace.position_codec
        found = actions_of(findings, uri_of(file), params.range, codec) if file is not None else []
        return [action for index, action in enumerate(found) if action not in found[:index]]

    return server


def hover_at(server: Server, uri: str, position: types.Position) -> types.Hover | None:
    """The settings under the cursor, as every open document's runs have them; None where there are none."""
    file, codec = file_of(uri), server.workspace.position_codec
    if file is None:
        return None
    runs = [run for report in server.reports.values() for run in report.runs]
    sources = sources_of(runs, file)
    offset = offset_of(sources[0], position, codec) if sources else None
    text = hover_text(runs, file, offset) if offset is not None else ""
    return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text)) if text else None


def serve(reading: Reading) -> int:
    """Speak the protocol over standard input and output until the editor ends it.

    The server closes what it speaks over, so that it gets copies.
    """
    with os.fdopen(os.dup(sys.stdin.fileno()), "rb") as stdin, os.fdopen(os.dup(sys.stdout.fileno()), "wb") as stdout:
        make_server(reading).start_io(stdin, stdout)
    return 0
