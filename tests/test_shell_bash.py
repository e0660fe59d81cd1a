"""Scripts with the words that bash 5.2 passes to torchrun, and the files that bash writes (data/bash_answers.txt)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from dtlint.languages.shell import read_script
from dtlint.source import Source


class Case(NamedTuple):
    """A script, the launches that bash starts, and the files that it writes."""

    name: str
    script: str
    launches: list[list[str]]
    files: dict[str, str]


def read_cases() -> list[Case]:
    text = (Path(__file__).parent / "data" / "bash_answers.txt").read_text(encoding="utf-8")
    return [read_case(block) for block in re.split(r"^=== ", text, flags=re.MULTILINE)[1:]]


def read_case(block: str) -> Case:
    script, *answers = re.split(r"^--- ", block, flags=re.MULTILINE)
    name, _, script = script.partition("\n")
    launches: list[list[str]] = []
    files: dict[str, str] = {}
    for answer in answers:
        title, _, body = answer.partition("\n")
        if title == "starts":
            launches = [json.loads(line) for line in body.splitlines()]
        else:
            files[title.removeprefix("writes ")] = json.loads(body)
    return Case(name, script, launches, files)


@pytest.mark.parametrize("case", read_cases(), ids=lambda case: case.name)
def test_launches_and_files_are_those_of_bash(case: Case) -> None:
    script = read_script(Source("case.sh", case.script))
    (world,) = script.worlds
    launches = [
        [word.text for word in command.argv] for command in world.commands if command.argv[0].text == "torchrun"
    ]
    assert launches == case.launches
    assert {path: world.files[path].text for path in case.files if path in world.files} == case.files
