"""Words of a launch that a program's own parser drops, where the program builds the Trainer's arguments itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtlint.runs import Options, read_runs
from dtlint.value import Value

PROGRAM = """\
import argparse
import sys
from transformers import Trainer, TrainingArguments


def read():
    parser = argparse.ArgumentParser()
    parser.add_argument("--per_device_train_batch_size", type=int, default=1)
    {declares}
    {parses}
    return args


args = read()
training = TrainingArguments("out", per_device_train_batch_size=args.per_device_train_batch_size, {more})
Trainer(model, training, train_dataset=data).train()
"""
LAUNCH = "torchrun --nproc_per_node 8 train.py --per_device_train_batch_size 4 --gradient_checkpointing True --bf16\n"
UNREAD = "args, _ = parser.parse_known_args()"


def recomputed(folder: Path, parses: str, more: str = "", declares: str = "") -> object:
    (folder / ".git").mkdir()
    (folder / "train.py").write_text(PROGRAM.format(parses=parses, more=more, declares=declares))
    (folder / "run.sh").write_text(LAUNCH)
    (run,) = read_runs([folder], Options()).runs
    assert run.plan.integer("batch.micro") == 4
    found = run.plan.get("checkpointing.activations")
    return found.value if isinstance(found, Value) else None


@pytest.mark.parametrize("parses", [UNREAD, "args = parser.parse_known_args()[0]"])
def test_what_the_parser_does_not_know_reaches_nobody(tmp_path: Path, parses: str) -> None:
    assert recomputed(tmp_path, parses) == "none"


@pytest.mark.parametrize(
    ("parses", "more", "declares"),
    [
        ("args, rest = parser.parse_known_args()\n    print(rest)", "", ""),  # what is left is read
        (UNREAD, "**options", ""),
        (UNREAD, "gradient_checkpointing=True", ""),
        (
            UNREAD,
            "gradient_checkpointing=args.gradient_checkpointing",
            'parser.add_argument("--gradient_checkpointing")',
        ),
        (UNREAD, "gradient_checkpointing='--gradient_checkpointing' in sys.argv", ""),
    ],
)
def test_what_may_reach_the_trainer_counts(tmp_path: Path, parses: str, more: str, declares: str) -> None:
    assert recomputed(tmp_path, parses, more, declares) == "full"
