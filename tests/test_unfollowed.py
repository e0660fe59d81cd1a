"""What is said of launches that stand in a script and are no run."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtlint.api import options_of
from dtlint.runs import read_runs

LAUNCH = "torchrun --nproc_per_node 8 train.py"


def remarks(folder: Path, *scripts: str) -> tuple[str, ...]:
    files = [folder / f"launch{number}.sh" for number, _ in enumerate(scripts)]
    for file, script in zip(files, scripts, strict=True):
        file.write_text(f"#!/bin/bash\n{script}\n", encoding="utf-8")
    return read_runs(files, options_of({})).remarks


@pytest.mark.parametrize(
    "script",
    [
        f"exit 0; {LAUNCH}",
        f"train() {{ {LAUNCH}; }}",
        f"SIZE=7b; if [ $SIZE = 70b ]; then {LAUNCH}; fi",
        "exit 0; srun python -m torch.distributed.launch --nproc_per_node 8 train.py",
        "exit 0; accelerate launch train.py",
    ],
)
def test_a_launch_that_no_way_through_a_script_gets_to_is_named(tmp_path: Path, script: str) -> None:
    (remark,) = remarks(tmp_path, script)
    assert "launch0.sh:2, but no way that was followed through the script gets there" in remark


def test_a_launch_behind_an_unknown_word_is_named_with_it(tmp_path: Path) -> None:
    (remark,) = remarks(tmp_path, f"$RUN {LAUNCH}")
    assert "torchrun stands in" in remark
    assert remark.endswith("launch0.sh:2, but $RUN before it is not known, so that it is no run here")


@pytest.mark.parametrize(
    "script",
    [
        LAUNCH,
        "torchrun --help",
        "pip install deepspeed torchrun-wrapper",
        f"exit 0; echo {LAUNCH}",
        "exit 0; accelerate config default",
        f"# {LAUNCH}",
    ],
)
def test_of_runs_and_of_what_starts_none_nothing_is_said(tmp_path: Path, script: str) -> None:
    assert remarks(tmp_path, script) == ()


def test_beside_another_run_it_is_said_of_a_script_that_the_user_names(tmp_path: Path) -> None:
    (remark,) = remarks(tmp_path, LAUNCH, f"exit 0; {LAUNCH}")
    assert "launch1.sh:2" in remark
    assert read_runs([tmp_path], options_of({})).remarks == ()
