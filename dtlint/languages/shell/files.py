"""The files that a script reads and writes: those of the tree, and those that it has written itself."""

from __future__ import annotations

from dtlint.languages.shell.state import Shell
from dtlint.languages.shell.text import Text, bounded, unknown
from dtlint.languages.traced import Piece, file_key, path_from_folder
from dtlint.source import Span

MAX_FILES = 200
"""Most files that a script is followed to write."""

NOTHING = "/dev/null"
"""Is read as an empty file."""

DEVICES = ("/dev/", "/proc/", "/sys/")


def path_key(shell: Shell, text: Text) -> str:
    """The name under which a file is kept: its path from the folder of the start, `?` for each unknown stretch, and
    which unknown it is where nothing else names the file.
    """
    return file_key(text, shell.folder)


def read_file(shell: Shell, path: Text, span: Span) -> Text | None:
    """The text of a file that the script wrote or that the tree holds; None if there is no such file."""
    key = path_key(shell, path)
    written = shell.files.get(key)
    if written is not None:
        return written
    if key == NOTHING:
        return ()
    if not key or "?" in key or key.startswith(DEVICES):
        return None
    source = shell.world.given.read_file(key) or shell.world.given.read_file(path_from_folder(path))
    if source is None:
        return None
    return bounded((Piece(source.text, source.span(0, len(source.text))),)) if source.text else ()


def file_exists(shell: Shell, path: str) -> bool:
    """Whether a file is known to exist."""
    key = path.removeprefix("./")
    return key in shell.files or shell.world.given.read_file(path) is not None


def write_file(shell: Shell, path: Text, text: Text) -> None:
    """Replace a file's text."""
    key = path_key(shell, path)
    if key and not key.startswith(DEVICES) and (key in shell.files or len(shell.files) < MAX_FILES):
        shell.files[key] = bounded(text)


def append_file(shell: Shell, path: Text, text: Text, span: Span) -> None:
    """Add to the end of a file."""
    before = read_file(shell, path, span)
    write_file(shell, path, (*(before or ()), *text))


def unknown_file(span: Span, command: str) -> Text:
    """The text of a file that a program writes."""
    return unknown(span, f"{command} writes this when it runs")
