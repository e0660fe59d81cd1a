"""Arguments that speak of a part of the model, in programs that show whether they freeze something."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtlint.runs import Options, read_runs
from dtlint.value import Unknown

PROGRAM = """\
from dataclasses import dataclass
from transformers import AutoModel, HfArgumentParser, Trainer, TrainingArguments
from data import collate, samples
{imports}

@dataclass
class ModelArguments:
    model_name_or_path: str = "meta-llama/Meta-Llama-3-8B"
    tune_vision: bool = True
    tune_llm: bool = True


def main():
    model_args, training_args = HfArgumentParser((ModelArguments, TrainingArguments)).parse_args_into_dataclasses()
    model = AutoModel.from_pretrained(model_args.model_name_or_path)
{body}
    Trainer(model=model, args=training_args, train_dataset=samples, data_collator=collate).train()


{helper}main()
"""
LAUNCH = "torchrun --nproc_per_node 8 train.py --output_dir out --bf16 --per_device_train_batch_size 1 --do_train"
ONE = "    if not model_args.tune_vision:\n        model.vpm.requires_grad_(False)\n"
BOTH = f"{ONE}    if not model_args.tune_llm:\n        model.llm.requires_grad_(False)\n"
SWITCHED = "    for p in model.vision.parameters():\n        p.requires_grad = model_args.tune_vision\n"
HELPER = """\
def set_model(args, model):
    if args.tune_vision:
        for _, p in model.visual.named_parameters():
            p.requires_grad = True
    else:
        for _, p in model.visual.named_parameters():
            p.requires_grad = False


"""


def is_known(folder: Path, flags: str, body: str, imports: str = "", helper: str = "") -> bool:
    """Whether it is known what trains, which is all of it then."""
    (folder / ".git").mkdir()
    (folder / "train.py").write_text(PROGRAM.format(body=body, imports=imports, helper=helper))
    (folder / "run.sh").write_text(f"{LAUNCH} {flags}\n")
    (run,) = read_runs([folder], Options()).runs
    trained, total = (run.plan.get(f"model.{name}") for name in ("trainable_parameters", "parameters"))
    assert isinstance(trained, Unknown) or trained.value == total.value
    return not isinstance(trained, Unknown)


@pytest.mark.parametrize(
    ("flags", "body", "helper"),
    [
        ("--tune_vision true", ONE, ""),
        ("--tune_vision True --tune_llm True", BOTH, ""),
        ("--tune_vision true", f"    print(f'vision: {{model_args.tune_vision}}')\n{ONE}", ""),
        ("--tune_vision true", SWITCHED, ""),
        ("--tune_vision true", "    model.vpm.requires_grad_(model_args.tune_vision)\n", ""),
        ("--tune_vision true", "    set_model(model_args, model)\n", HELPER),
    ],
)
def test_flags_that_freeze_nothing_leave_the_model_whole(tmp_path: Path, flags: str, body: str, helper: str) -> None:
    assert is_known(tmp_path, flags, body, helper=helper)


@pytest.mark.parametrize(
    ("flags", "body", "imports", "helper"),
    [
        ("--tune_vision false", ONE, "", ""),
        ("--tune_vision true --tune_llm false", BOTH, "", ""),
        ("--tune_vision $TUNED", ONE, "", ""),
        ("--tune_vision true", f"{ONE}    model.llm.requires_grad_(False)\n", "", ""),
        ("--tune_vision true", f"{ONE}    freeze_some(model)\n", "from parts import freeze_some", ""),
        ("--tune_vision true", "    prepare(model, model_args.tune_vision)\n", "from parts import prepare", ""),
        ("--tune_vision true", "    prepare(model, model_args)\n", "from parts import prepare", ""),
        ("--tune_vision false", SWITCHED, "", ""),
        ("--tune_vision false", "    set_model(model_args, model)\n", "", HELPER),
    ],
)
def test_what_may_freeze_something_leaves_it_open(
    tmp_path: Path, flags: str, body: str, imports: str, helper: str
) -> None:
    assert not is_known(tmp_path, flags, body, imports, helper)
