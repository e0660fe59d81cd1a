"""Arguments of the Trainer that cannot be seen: the batch is then unknown, not what the Trainer takes unasked."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtlint.api import check
from dtlint.facts import fact
from dtlint.runs import Options, read_runs
from dtlint.value import Unknown

HEAD = "from transformers import HfArgumentParser, Trainer, TrainingArguments\n"
CONFIG = '{"train_batch_size": 48, "gradient_accumulation_steps": 1, "zero_optimization": {"stage": 2}}'
OPENED = f"""{HEAD.replace("HfArgumentParser, ", "")}from settings import table

chosen = table[pick()]
arguments = TrainingArguments(deepspeed="ds.json", **chosen)
Trainer(model, arguments, train_dataset=data).train()
"""
SEVERAL = """from transformers import Trainer, TrainingArguments

if long():
    arguments = TrainingArguments("out", deepspeed="ds.json", per_device_train_batch_size=12)
else:
    arguments = TrainingArguments("out", deepspeed="ds.json", per_device_train_batch_size=6)
Trainer(model, arguments, train_dataset=data).train()
"""
ELSEWHERE = """from transformers import Trainer
from recipe import arguments

Trainer(model, arguments, train_dataset=data).train()
"""
WHOLE = OPENED.replace("**chosen", 'output_dir="out"')
SWITCHED = """from transformers import Trainer, TrainingArguments
from recipe import options

arguments = TrainingArguments("out", ddp_find_unused_parameters=True, **options())
Trainer(model, arguments, train_dataset=data).train()
"""
PARSED = f"""{HEAD}
(arguments,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
Trainer(model, arguments, train_dataset=data).train()
"""


def written(folder: Path, program: str, config: str = CONFIG) -> Path:
    (folder / "ds.json").write_text(config)
    (folder / "train.py").write_text(program)
    (folder / "run.sh").write_text("deepspeed --num_gpus 4 train.py --deepspeed ds.json\n")
    return folder / "run.sh"


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (OPENED, "**chosen may set per_device_train_batch_size"),
        (SEVERAL, "one of several calls sets per_device_train_batch_size"),
        (ELSEWHERE, "where the arguments are made"),
    ],
    ids=["opened", "several", "elsewhere"],
)
def test_a_batch_that_may_be_set_unseen_is_unknown(tmp_path: Path, program: str, reason: str) -> None:
    path = written(tmp_path, program, '{"zero_optimization": {"stage": 2}}')
    (run,) = read_runs([path], Options()).runs
    found = run.plan.get("batch.micro")
    assert isinstance(found, Unknown)
    assert reason in found.reason


@pytest.mark.parametrize("program", [OPENED, SEVERAL, ELSEWHERE], ids=["opened", "several", "elsewhere"])
def test_it_is_what_the_config_leaves_to_each_rank(tmp_path: Path, program: str) -> None:
    path = written(tmp_path, program)
    (run,) = read_runs([path], Options()).runs
    assert run.plan.value("batch.micro") == 12
    assert "batch-not-divisible" not in {each.rule for each in check([path]).findings}


@pytest.mark.parametrize("program", [WHOLE, PARSED], ids=["in the call", "on the command line"])
def test_what_is_seen_to_be_left_out_has_its_default(tmp_path: Path, program: str) -> None:
    found = {each.rule: each.severity for each in check([written(tmp_path, program)]).findings}
    assert found["batch-not-divisible"] == "error"


def test_what_the_opened_call_says_itself_counts(tmp_path: Path) -> None:
    program = OPENED.replace("**chosen", "per_device_train_batch_size=9, **chosen")
    found = {each.rule for each in check([written(tmp_path, program)]).findings}
    assert "batch-triple-mismatch" in found


@pytest.mark.parametrize(
    ("program", "command", "told"),
    [
        (OPENED.replace('deepspeed="ds.json", ', ""), "", False),
        (SWITCHED, "", True),
        (PARSED, ' --output_dir out "$@"', False),
        (PARSED, " --output_dir out", True),
    ],
    ids=["opened", "written", "more words", "left out"],
)
def test_the_search_for_unused_parameters_is_told_where_nothing_unseen_may_stop_it(
    tmp_path: Path, program: str, command: str, told: bool
) -> None:
    path = written(tmp_path, program)
    path.write_text(f"torchrun --nproc_per_node 4 train.py{command}\n")
    found = {each.rule for each in check([path], settings={"model.parameters": 1e9}).findings}
    assert ("ddp-find-unused-overhead" in found) is told


@pytest.mark.parametrize(
    ("load", "state", "kept"),
    [
        ("from_pretrained('gpt2', torch_dtype=torch.bfloat16)", "bf16", 8),
        ("from_pretrained('gpt2', torch_dtype=torch.float16)", "fp16", 8),
        ("from_pretrained('gpt2')", "fp32", 16),
    ],
)
def test_moments_have_the_format_of_the_weights(tmp_path: Path, load: str, state: str, kept: int) -> None:
    compute = "fp16" if state == "fp16" else "bf16"
    program = f"""import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

arguments = TrainingArguments("out", {compute}=True)
Trainer(AutoModelForCausalLM.{load}, arguments, train_dataset=data).train()
"""
    path = written(tmp_path, program)
    path.write_text("torchrun --nproc_per_node 4 train.py\n")
    (run,) = read_runs([path], Options()).runs
    assert run.plan.value("optimizer.state_dtype") == state
    states = fact(run.plan, "memory.states_bytes")
    parameters = run.plan.number("model.parameters") or 0
    assert isinstance(states, float)
    assert states / parameters == pytest.approx(kept, rel=0.01)
