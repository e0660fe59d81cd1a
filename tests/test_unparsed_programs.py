"""Launched programs that no Python takes, and what is not known of the files of a program that cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtlint.api import check
from dtlint.languages.python import read_module
from dtlint.languages.python.invalid import is_invalid
from dtlint.source import Source

START = "import deepspeed\nfrom transformers import Trainer\n"


def told(folder: Path, program: str, launch: str = "deepspeed --num_gpus 8 train.py {words}") -> list[tuple[str, str]]:
    (folder / "ds.json").write_text('{"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 1},}\n')
    (folder / "train.py").write_text(START + program)
    words = "--deepspeed ds.json --model_name_or_path gpt2 --do_train --fp16 --output_dir out --logging_steps 10"
    (folder / "run.sh").write_text(launch.format(words=words) + "\n")
    found = [each for each in check([folder]).findings if each.rule == "unreadable-input"]
    return [(Path(each.span.path).name, each.severity) for each in found]


@pytest.mark.parametrize(
    "program", ["config = \n", "<<<<<<< HEAD\nlr = 1\n", "  lr = 1\n", "for each in []:\nlr = 1\n", "lr = load(\n"]
)
def test_a_launched_program_that_no_python_takes(tmp_path: Path, program: str) -> None:
    assert told(tmp_path, program) == [("train.py", "error")]


@pytest.mark.parametrize("program", ["print 'epoch', 1\n", "type Pair[T] = tuple[T, T]\n  \nx = y z\n"])
def test_a_program_that_another_python_may_take(tmp_path: Path, program: str) -> None:
    assert told(tmp_path, program) == [("train.py", "note")]


def test_a_program_that_nothing_launches(tmp_path: Path) -> None:
    assert told(tmp_path, "config = \n", "echo train.py {words}") == [("train.py", "note")]


def test_a_program_that_can_be_read_tells_who_reads_its_config(tmp_path: Path) -> None:
    assert told(tmp_path, "Trainer().train()\n") == [("ds.json", "error")]


@pytest.mark.parametrize(
    ("text", "certain"),
    [
        ("x =\n", True), ("x.y = # to fill in\n", True), ("=======\n", True), ("x = 'a\n", True), ("f(1]\n", True),
        ('x = f"{y["a"]}"\n', False), ("print x\n", False), ("except* E\n", False), ("x = y z\n", False),
    ],
)  # fmt: skip
def test_texts_that_every_release_refuses(text: str, certain: bool) -> None:
    problems = read_module(Source("train.py", text)).problems
    assert all(is_invalid(problem) == certain for problem in problems)
