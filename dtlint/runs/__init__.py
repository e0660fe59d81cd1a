"""From paths to runs: finds files, reads launches, follows the files that they name, settles one plan per run."""

from __future__ import annotations

from dtlint.runs.model import FileProblem, Launch, Options, Run, RunSet
from dtlint.runs.read import read_command_line, read_runs

__all__ = ["FileProblem", "Launch", "Options", "Run", "RunSet", "read_command_line", "read_runs"]
