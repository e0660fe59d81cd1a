"""Arguments of the Trainer that a program sets anew after it has parsed them."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtlint.runs import Options, read_runs
from dtlint.value import Setting, Unknown

PROGRAM = """\
from transformers import HfArgumentParser, Trainer, TrainingArguments

(training_args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
{change}
Trainer(model, training_args, train_dataset=data).train()
"""
LAUNCH = "torchrun --nproc_per_node 8 train.py --output_dir out --per_device_train_batch_size 4\n"


def setting(folder: Path, change: str, name: str) -> Setting | None:
    (folder / ".git").mkdir()
    (folder / "train.py").write_text(PROGRAM.format(change=change))
    (folder / "run.sh").write_text(LAUNCH)
    (run,) = read_runs([folder], Options()).runs
    return run.plan.get(name)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ("training_args.gradient_checkpointing = True", "checkpointing.activations"),
        ("if len(data) > 9:\n    training_args.gradient_checkpointing = True", "checkpointing.activations"),
        ("training_args.per_device_train_batch_size = 2", "batch.micro"),
        ("training_args.bf16 = torch.cuda.is_bf16_supported()", "precision.compute"),
        ("training_args.max_grad_norm = 0.3", "optimizer.clip"),
    ],
)
def test_what_is_set_anew_is_unknown(tmp_path: Path, change: str, name: str) -> None:
    found = setting(tmp_path, change, name)
    assert isinstance(found, Unknown) and "the program sets training_args." in found.reason


@pytest.mark.parametrize(
    "change",
    ["", "model.per_device_train_batch_size = 2", "if False:\n    training_args.per_device_train_batch_size = 2"],
)
def test_what_is_not_counts_as_the_launch_has_it(tmp_path: Path, change: str) -> None:
    found = setting(tmp_path, change, "batch.micro")
    assert found is not None and not isinstance(found, Unknown)
