"""Checks a tree all of which the team says that it runs: there every rule speaks up, whatever its past."""

from __future__ import annotations

from pathlib import Path

from dtlint.api import check
from dtlint.config import Config
from dtlint.rulebook.check import Report
from dtlint.runs.model import Options

EVERYTHING = ("*",)


def check_all() -> Report:
    """The report on the current folder."""
    return check(["."], config=Config(folder=Path.cwd(), run=EVERYTHING))


def options_of_all(folder: Path) -> Options:
    """What the user of a folder says of it."""
    return Options(folder=folder, run=EVERYTHING)
