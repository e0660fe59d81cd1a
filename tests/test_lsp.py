"""`dtlint lsp`: a session of an editor with the server, over standard input and output."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any

import pytest

from dtlint.cli import run

FIXTURE = Path(__file__).parents[1] / "fixtures" / "half-idle-pipeline"
SECONDS = 60
"""How long a test waits for an answer."""

Message = dict[str, Any]


class Editor:
    """The client's side of a session."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-c", "from dtlint.cli import main; main(['lsp'])"]
        self.server = subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.received: Queue[Message] = Queue()
        self.notices: list[Message] = []
        self.sent = 0
        Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        stream = self.server.stdout
        assert stream is not None
        while head := stream.readline():
            size = int(head.partition(b":")[2]) if head.lower().startswith(b"content-length") else 0
            while stream.readline().strip():
                pass
            self.received.put(json.loads(stream.read(size)))

    def notify(self, method: str, **params: object) -> None:
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def ask(self, method: str, **params: object) -> Any:
        """The result of a request."""
        self.sent += 1
        self._send({"jsonrpc": "2.0", "id": self.sent, "method": method, "params": params})
        while (message := self.received.get(timeout=SECONDS)).get("id") != self.sent:
            self.notices.append(message)
        assert "error" not in message, message
        return message["result"]

    def diagnostics(self, uri: str) -> list[Message]:
        """The next diagnostics of a document."""
        while True:
            message = self.notices.pop(0) if self.notices else self.received.get(timeout=SECONDS)
            params = message.get("params", {})
            if message.get("method") == "textDocument/publishDiagnostics" and params["uri"] == uri:
                return list(params["diagnostics"])

    def open(self, file: Path) -> list[Message]:
        item = {"uri": file.as_uri(), "languageId": "shellscript", "version": 1, "text": file.read_text()}
        self.notify("textDocument/didOpen", textDocument=item)
        return self.diagnostics(file.as_uri())

    def change(self, file: Path, version: int, text: str) -> list[Message]:
        document = {"uri": file.as_uri(), "version": version}
        self.notify("textDocument/didChange", textDocument=document, contentChanges=[{"text": text}])
        return self.diagnostics(file.as_uri())

    def leave(self) -> int:
        """Shut the server down; its exit status."""
        assert self.ask("shutdown") is None
        self.notify("exit")
        return self.server.wait(timeout=SECONDS)

    def _send(self, message: Message) -> None:
        data = json.dumps(message).encode()
        assert self.server.stdin is not None
        self.server.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(data), data))
        self.server.stdin.flush()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(FIXTURE, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture
def editor(folder: Path) -> Iterator[Editor]:
    found = Editor(folder)
    found.ask("initialize", processId=None, rootUri=folder.as_uri(), capabilities={})
    found.notify("initialized")
    yield found
    if found.server.poll() is None:
        found.server.kill()
    found.server.wait()
    for stream in (found.server.stdin, found.server.stdout):
        assert stream is not None
        stream.close()


def at(text: str, word: str, nth: int = 0) -> Message:
    """The position of a word in a text."""
    offset = -1
    for _ in range(nth + 1):
        offset = text.index(word, offset + 1)
    line = text.count("\n", 0, offset)
    return {"line": line, "character": offset - (text.rfind("\n", 0, offset) + 1)}


def bubble_of(diagnostics: list[Message]) -> Message:
    return next(each for each in diagnostics if each["code"] == "pipeline-bubble")


def test_a_session(editor: Editor, folder: Path) -> None:
    script = folder / "launch.sh"
    text = script.read_text()

    bubble = bubble_of(editor.open(script))
    assert bubble["source"] == "dtlint" and bubble["severity"] == 2
    assert bubble["range"] == {"start": {"line": 5, "character": 3}, "end": {"line": 5, "character": 4}}
    assert bubble["message"].startswith("pipeline idles 47% of each step: 8 micro-batches for 8 stages")
    places = [(each["location"]["uri"], each["message"]) for each in bubble["relatedInformation"]]
    assert ((folder / "ds_config.json").as_uri(), "accumulation 8") in places

    document = {"uri": script.as_uri()}
    hover = editor.ask("textDocument/hover", textDocument=document, position=at(text, "PP=8"))
    assert hover is None or "parallel.pipeline" not in hover["contents"]["value"]
    value = {"line": 5, "character": 3}
    shown = editor.ask("textDocument/hover", textDocument=document, position=value)["contents"]["value"]
    assert "**parallel.pipeline** = `8`" in shown and "launch.sh:6 through" in shown

    actions = editor.ask(
        "textDocument/codeAction", textDocument=document, range=bubble["range"], context={"diagnostics": [bubble]}
    )
    mend = next(action for action in actions if action["title"].startswith("dtlint: --global-batch-size 64"))
    assert mend["kind"] == "quickfix" and "changes the training" in mend["title"]
    changes = mend["edit"]["changes"]
    assert set(changes) == {script.as_uri(), (folder / "ds_config.json").as_uri()}
    assert {edit["newText"] for edit in changes[script.as_uri()]} == {"64"}

    fewer = text.replace("\nPP=8", "\nPP=1")
    assert all(each["code"] != "pipeline-bubble" for each in editor.change(script, 2, fewer))
    assert (
        "**parallel.pipeline** = `1`"
        in (editor.ask("textDocument/hover", textDocument=document, position=value)["contents"]["value"])
    )
    assert bubble_of(editor.change(script, 3, text))

    editor.notify("textDocument/didClose", textDocument=document)
    assert editor.diagnostics(script.as_uri()) == []
    assert editor.leave() == 0


def test_an_unsaved_config_counts_for_the_script_that_names_it(editor: Editor, folder: Path) -> None:
    script, config = folder / "launch.sh", folder / "ds_config.json"
    assert bubble_of(editor.open(script))
    editor.open(config)
    shorter = config.read_text().replace('"gradient_accumulation_steps": 8', '"gradient_accumulation_steps": 4')
    shorter = shorter.replace('"train_batch_size": 8', '"train_batch_size": 4')
    document = {"uri": config.as_uri(), "version": 2}
    editor.notify("textDocument/didChange", textDocument=document, contentChanges=[{"text": shorter}])
    said = [each["message"].splitlines()[0] for each in editor.diagnostics(script.as_uri())]
    while not any("4 micro-batches for 8 stages" in each for each in said):
        said = [each["message"].splitlines()[0] for each in editor.diagnostics(script.as_uri())]


def test_a_broken_file_that_is_no_training_config_is_left_alone(editor: Editor, folder: Path) -> None:
    settings = folder / "tsconfig.json"
    settings.write_text('{"compilerOptions": {,}}')
    assert editor.open(settings) == []


def test_without_the_extra_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "dtlint.lsp.server", raising=False)
    monkeypatch.setitem(sys.modules, "pygls.lsp.server", None)
    assert run(["lsp"]) == 2
    assert "pip install 'dtlint[lsp]'" in capsys.readouterr().err


def test_columns_count_utf16_units(editor: Editor, folder: Path) -> None:
    """A character outside the basic plane takes two units before the place of a finding."""
    script = folder / "launch.sh"
    text = script.read_text().replace("\nPP=8", '\nNOTE="\N{ROCKET}"; PP=8')
    script.write_text(text)
    bubble = bubble_of(editor.open(script))
    assert bubble["range"]["start"]["character"] == len('NOTE="xx"; PP=')
    shown = editor.ask("textDocument/hover", textDocument={"uri": script.as_uri()}, position=bubble["range"]["start"])[
        "contents"
    ]["value"]
    assert "**parallel.pipeline** = `8`" in shown


def test_a_broken_dtlint_toml_is_said(editor: Editor, folder: Path) -> None:
    (folder / "dtlint.toml").write_text("cluster = [")
    script = folder / "launch.sh"
    item = {"uri": script.as_uri(), "languageId": "shellscript", "version": 1, "text": script.read_text()}
    editor.notify("textDocument/didOpen", textDocument=item)
    while (message := editor.received.get(timeout=SECONDS)).get("method") != "window/showMessage":
        pass
    assert "dtlint.toml" in message["params"]["message"]
