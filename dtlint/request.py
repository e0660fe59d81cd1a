"""What a command is asked for, and the ways in which it ends without an answer; known without the command line."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dtlint.account import said
from dtlint.record import NamedTuple

if TYPE_CHECKING:
    from dtlint.value import Value

STANDARD_INPUT = "-"

INTERRUPTED = 130
"""Exit status after Ctrl-C: 128 + SIGINT."""


class Reading(NamedTuple):
    """What a command reads: paths, the words after `--`, and what the user states beside the files."""

    paths: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    settings: Mapping[str, Value] = {}
    arguments: Mapping[str, str] = {}
    environment: Mapping[str, str] = {}
    config_file: Path | None = None
    cluster: str = ""
    rule_folders: tuple[Path, ...] = ()


class Destination(NamedTuple):
    """A report format and the file that takes it, None for standard output."""

    format: str = "text"
    file: Path | None = None


class Refusal(Exception):  # noqa: N818 - what the user asks for cannot be done
    """Something in the user's way of calling that cannot be done, with the sentence that says what."""


class Ended(Exception):  # noqa: N818 - nobody is left to be told
    """The command is over with this exit status, without a word."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def say(sentence: str) -> None:
    """Print a sentence to standard error, where it does not mix with a report."""
    said("error", f"{sentence}\n")
    sys.stderr.write(f"{sentence}\n")
    sys.stderr.flush()


def shown_path(file: Path) -> str:
    """A file as messages call it: relative to the current folder if it lies below it."""
    return file.relative_to(Path.cwd()).as_posix() if file.is_relative_to(Path.cwd()) else file.as_posix()


def near(word: str, known: tuple[str, ...]) -> str:
    """`; did you mean ...?` for a mistyped word, "" where nothing is near."""
    from difflib import get_close_matches

    found = get_close_matches(word, known, 1, 0.6)
    return f"; did you mean '{found[0]}'?" if found else ""
