"""Repositories of any size to measure on, made of the fixtures and the examples of the rules.

    python benchmarks/trees.py FOLDER [--files 3000]

A repository is made of projects of PROJECT files: some start training (a fixture, and examples of rules), most are what
stands around it: modules, documents, configs of other things, data. The same number makes the same tree.
"""

from __future__ import annotations

import argparse
import os
import subprocess
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from dtlint.rulebook.load import built_in

PROJECT = 100
"""Files of a project."""

EXAMPLES = 3
"""Examples of rules in a project, each in a folder of its own."""

FIXTURES = Path(__file__).parent.parent / "fixtures"

SHARES = (
    ("src/part_{}/module_{}.py", 70),
    ("configs/other_{}/settings_{}.yaml", 8),
    ("data/set_{}/meta_{}.json", 8),
    ("docs/part_{}/page_{}.md", 8),
    ("tools/part_{}/tool_{}.sh", 4),
    ("notes/part_{}/list_{}.txt", 2),
)
"""Names of the files around the training, and how many of a hundred have them, much as in public repositories."""

BLOCKS = {
    "py": "def step_{0}(rows: list[int], width: int = {0}) -> int:\n"
    "    total = 0\n    for row in rows:\n        if row < width:\n"
    "            total += row * {0}\n    return total\n\n\n",
    "yaml": "section_{0}:\n  name: entry-{0}\n  values: [{0}, 2, 3]\n  enabled: true\n",
    "json": '"entry_{0}": {{"name": "a{0}", "values": [{0}, 2, 3], "note": "what a data set says"}},\n',
    "md": "## Part {0}\n\nWhat part {0} is for, how it is used and what it gives back, in a few plain words.\n\n",
    "sh": "echo step {0}\nmkdir -p out/{0}\ncp data/{0}.bin out/{0}/\n",
    "txt": "line {0} of a list of names that nothing reads\n",
}
"""A text of each kind that can be repeated, with a number in it; none holds a word of training."""

FRAMES = {"json": ("{\n", '"end": 0}\n'), "sh": ("#!/bin/bash\n", "")}
"""What stands around the repeated texts."""


def main() -> None:
    """Make one tree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", type=int, default=3000)
    given = parser.parse_args()
    make_tree(given.folder, given.files)


def make_tree(folder: Path, files: int) -> None:
    """Put a git repository of so many files, all committed, into a folder that is not there yet."""
    folder.mkdir(parents=True)
    for name, text in islice(_texts(), files):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8", newline="")
    _commit(folder)


def _texts() -> Iterator[tuple[str, str]]:
    """The files of one project after the other, without end."""
    projects = _training()
    number = 0
    while True:
        training = next(projects)
        yield from ((f"project_{number:03}/{name}", text) for name, text in training.items())
        names = islice(_names(), PROJECT - len(training))
        yield from ((f"project_{number:03}/{name}", _filler(name, number, place)) for place, name in enumerate(names))
        number += 1


def _training() -> Iterator[dict[str, str]]:
    """What starts training in a project: a fixture and some examples, in turn."""
    fixtures = [_fixture(folder) for folder in sorted(FIXTURES.iterdir())]
    examples = [example.files for rule in built_in() for example in rule.examples]
    number = 0
    while True:
        training = {f"train/{name}": f"{text}\n" for name, text in fixtures[number % len(fixtures)].items()}
        for each in range(number * EXAMPLES, (number + 1) * EXAMPLES):
            chosen = examples[each * 7 % len(examples)]
            training.update({f"experiments/{each}/{name}": text for name, text in chosen.items()})
        yield training
        number += 1


def _fixture(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text(encoding="utf-8") for file in sorted(folder.iterdir())}


def _names() -> Iterator[str]:
    """Names in the proportions of SHARES, well mixed, ten to a folder."""
    names = [name for turn in range(100) for name, share in SHARES if turn * share // 100 != (turn + 1) * share // 100]
    for number, name in enumerate(names):
        yield name.format(number // 10, number)


def _filler(name: str, project: int, place: int) -> str:
    """A text of the kind that a name tells, from one to about ten kilobytes."""
    kind = name.rpartition(".")[2]
    before, after = FRAMES.get(kind, ("", ""))
    blocks = (BLOCKS[kind].format(project * PROJECT * 100 + place * 100 + each) for each in range(4 + place * 7 % 40))
    return before + "".join(blocks) + after


def _commit(folder: Path) -> None:
    who = {f"GIT_{who}_{what}": "x@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    when = {f"GIT_{who}_DATE": "2026-01-01T00:00:00Z" for who in ("AUTHOR", "COMMITTER")}
    settings = ("-c", "core.autocrlf=false", "-c", "commit.gpgSign=false", "-c", "gc.auto=0")
    for words in (("init", "-q", "-b", "main"), ("add", "-A", "-f"), ("commit", "-q", "-m", "a tree")):
        command = ["git", "-C", str(folder), *settings, *words]
        subprocess.run(command, check=True, env={**os.environ, **who, **when}, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
