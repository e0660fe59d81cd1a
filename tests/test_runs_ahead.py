"""A second process that reads programs of a tree tells what this one would have found."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NoReturn

import pytest

from dtlint.runs import Options, RunSet, ahead, read_runs
from dtlint.runs.ahead import SWITCH, started
from dtlint.runs.follow import LEAST_PROGRAMS
from dtlint.runs.programs import read_program
from dtlint.runs.tree import Tree

LIBRARY = """\
from torch.nn.parallel import DistributedDataParallel

def wrap(model, find_unused):
    return DistributedDataParallel(model, find_unused_parameters=find_unused)
"""
SCRIPT = """\
import argparse
import torch.distributed
from library import wrap
parser = argparse.ArgumentParser()
parser.add_argument("--unused", action="store_true")
args = parser.parse_args()
wrap(build({number}), args.unused)
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """As many programs as a second process is started for, each launched with a flag and by itself."""
    (tmp_path / "library.py").write_text(LIBRARY)
    launches = []
    for number in range(LEAST_PROGRAMS):
        (tmp_path / f"launched{number}.py").write_text(SCRIPT.format(number=number))
        (tmp_path / f"lone{number}.py").write_text(SCRIPT.format(number=number))
        launches.append(f"torchrun --nproc_per_node 8 launched{number}.py" + " --unused" * (number % 2))
    (tmp_path / "launch.sh").write_text("\n".join(launches))
    return tmp_path


def told(runs: RunSet) -> list[tuple[str, ...]]:
    """Each run by its files and readings, in order."""
    return [
        (*run.files, *(repr(reading._replace(declares=frozenset())) for reading in run.readings)) for run in runs.runs
    ]


def test_two_processes_tell_what_one_does(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SWITCH, raising=False)
    both = read_runs([tree], Options(current=tree))
    monkeypatch.setenv(SWITCH, "1")
    alone = read_runs([tree], Options(current=tree))
    assert len(alone.runs) == 2 * LEAST_PROGRAMS
    assert told(both) == told(alone)
    assert both.problems == alone.problems


def test_the_last_program_is_told_by_the_second_process(tree: Path) -> None:
    files = Tree(tree, tree)
    programs = [(files.source(tree / f"lone{number}.py"), None) for number in range(LEAST_PROGRAMS)]
    second = started(programs, files)
    assert second is not None
    answer = second.told(programs[-1])
    assert answer == read_program(programs[-1], files)
    assert answer is not None
    assert all(source is files.source(tree / source.path) for source, _ in answer.readings)


def test_a_second_process_that_fails_leaves_the_programs_to_this_one(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead, "_COMMAND", "raise SystemExit(1)")
    files = Tree(tree, tree)
    programs = [(files.source(tree / f"lone{number}.py"), None) for number in range(LEAST_PROGRAMS)]
    second = started(programs, files)
    assert second is not None
    assert second.told(programs[-1]) is None


def test_no_process_is_started_for_texts_that_are_not_on_disk(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> NoReturn:
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "Popen", refused)
    edited = {(tree / "lone0.py").resolve(): "print(1)\n"}
    assert read_runs([tree], Options(current=tree, texts=edited)).runs
