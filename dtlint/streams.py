"""Where reports go: standard output and files; each text is noted in the account of the run."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from dtlint.account import said
from dtlint.request import Ended, Refusal

BROKEN_PIPE = 141
"""Exit status when the reader of the output went away, as of other commands: 128 + SIGPIPE."""


def put(text: str) -> None:
    """Write a text to standard output."""
    said("out", text)
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the output is gone; without this, Python would say so when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise Ended(BROKEN_PIPE) from None


def put_file(file: Path, text: str) -> None:
    """Make a text what a file holds; Refusal where that cannot be."""
    from dtlint.replacing import replace

    said("file", text, str(file))
    try:
        replace(file, text.encode("utf-8"))
    except OSError as error:
        raise _refusal(file, error) from None


def put_end(file: Path, text: str) -> None:
    """Write a text at the end of a file; Refusal where that cannot be."""
    said("end", text, str(file))
    try:
        with file.open("a", encoding="utf-8") as end:
            end.write(text)
    except OSError as error:
        raise _refusal(file, error) from None


def _refusal(file: Path, error: OSError) -> Refusal:
    from dtlint.report.terminal import printable

    return Refusal(f"cannot write {printable(str(file))}: {error.strerror}")
