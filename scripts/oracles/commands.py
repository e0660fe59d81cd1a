"""Launch scripts as text: how generated commands are written down, and how they are read back for a framework."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import environ

from oracles import Question

SCRIPT = "launch.sh"
MOST_ON_A_LINE = 5
"""Words of a command on one line of a script; real ones break about there."""


def script(words: Sequence[str], env: Mapping[str, str] | None = None) -> dict[str, str]:
    """The files of a question: a launch script that exports variables and starts one command."""
    exports = [f"export {name}={shlex.quote(value)}" for name, value in (env or {}).items()]
    lines = (words[start : start + MOST_ON_A_LINE] for start in range(0, len(words), MOST_ON_A_LINE))
    command = " \\\n  ".join(shlex.join(line) for line in lines)
    return {SCRIPT: "\n".join(["#!/bin/bash", *exports, command, ""])}


def command_of(question: Question) -> tuple[list[str], dict[str, str]]:
    """The words of a question's command and the variables that its script exports."""
    lines = question.files[SCRIPT].replace("\\\n", " ").splitlines()
    exports = [shlex.split(line)[1].partition("=") for line in lines if line.startswith("export ")]
    return shlex.split(lines[-1]), {name: value for name, _, value in exports}


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """The process with these variables, and afterwards as it was."""
    before = dict(environ)
    environ.update(variables)
    try:
        yield
    finally:
        environ.clear()
        environ.update(before)


def first_line(error: BaseException) -> str:
    """What a framework says when it refuses: kind and first line."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}".strip()
