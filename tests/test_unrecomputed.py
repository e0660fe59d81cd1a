"""A loop around a model of Transformers recomputes nothing unless something in sight asks for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtlint.api import check

SECTION = """{"train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": true}, "zero_optimization": {"stage": 2},
 "activation_checkpointing": {"partition_activations": true, "cpu_checkpointing": true}}"""
ACCELERATE = "accelerate launch --use_deepspeed --deepspeed_config_file ds.json --num_processes 8 train.py\n"
DEEPSPEED = "deepspeed --num_gpus 8 train.py\n"
LOAD = "AutoModelForCausalLM.from_pretrained('facebook/opt-1.3b')"
IMPORTS = """import torch, deepspeed
from accelerate import Accelerator
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM
"""
PREPARED = """accelerator = Accelerator()
{model}
optimizer = torch.optim.AdamW(model.parameters())
loader = DataLoader(data)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for batch in loader:
    accelerator.backward(model(**batch).loss)
    optimizer.step()
"""
INITIALIZED = """{model}
engine, *_ = deepspeed.initialize(args, model, config="ds.json")
for batch in data:
    engine.backward(engine(**batch).loss)
    engine.step()
"""


def told(tree, start: str, loop: str, model: str, **files: str) -> bool:
    tree({"run.sh": start, "ds.json": SECTION, "train.py": IMPORTS + loop.format(model=model), **files})
    found = [each for each in check([Path("run.sh")]).findings if each.rule == "activation-checkpointing-inert"]
    return any(each.message.startswith("the activation_checkpointing section") for each in found)


@pytest.mark.parametrize(("start", "loop"), [(ACCELERATE, PREPARED), (DEEPSPEED, INITIALIZED)])
@pytest.mark.parametrize(
    "model",
    [
        f"model = {LOAD}",
        f"model = {LOAD}.train()",
        f"def build():\n    return {LOAD}\nmodel = build()",
        f"from peft import get_peft_model\nmodel = get_peft_model({LOAD}, config)",
        "from transformers import AutoConfig\nmodel = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained('x'))",
    ],
)
def test_the_section_alone_is_read_by_nobody(tree, start: str, loop: str, model: str) -> None:
    assert told(tree, start, loop, model)


@pytest.mark.parametrize(("start", "loop"), [(ACCELERATE, PREPARED), (DEEPSPEED, INITIALIZED)])
@pytest.mark.parametrize(
    "model",
    [
        f"model = {LOAD}\nmodel.gradient_checkpointing_enable()",
        f"model = {LOAD}\nif args.gradient_checkpointing:\n    model.gradient_checkpointing_enable()",
        f"from peft import prepare_model_for_kbit_training\nmodel = prepare_model_for_kbit_training({LOAD})",
        f"from ours import patch\nmodel = {LOAD}\npatch(model)",  # what it does is not in sight
        "from ours import build\nmodel = build()",
        f"deepspeed.checkpointing.configure(None)\nmodel = {LOAD}",
    ],
)
def test_what_may_recompute_is_no_mistake(tree, start: str, loop: str, model: str) -> None:
    assert not told(tree, start, loop, model)


def test_the_model_may_be_built_in_another_file(tree) -> None:
    built = f"from transformers import AutoModelForCausalLM\ndef build():\n    return {LOAD}\n"
    assert told(tree, ACCELERATE, PREPARED, "from models import build\nmodel = build()", **{"models.py": built})
    asked = built.replace("    return", "    model = 0\n    model.gradient_checkpointing_enable()\n    return")
    assert not told(tree, ACCELERATE, PREPARED, "from models import build\nmodel = build()", **{"models.py": asked})


def test_another_model_out_of_sight_may_recompute(tree) -> None:
    second = PREPARED.replace("prepare(model,", "prepare(model, critic,").replace("model, optimizer, loader =", "x =")
    assert not told(tree, ACCELERATE, second, f"from ours import critic_of\nmodel = {LOAD}\ncritic = critic_of(8)")


TRAINED = """parser = argparse.ArgumentParser()
parser.add_argument("--deepspeed")
{model}
arguments = TrainingArguments("out", bf16=True, gradient_checkpointing=True, deepspeed=parser.parse_args().deepspeed)
Trainer(model=model, args=arguments, train_dataset=data).train()
"""
HANDED = "torchrun --nproc_per_node 8 train.py --deepspeed ds.json\n"
TRAINER = "import argparse\nfrom transformers import Trainer, TrainingArguments\n"


@pytest.mark.parametrize(
    ("start", "loop", "model"),
    [
        (HANDED, TRAINER + TRAINED, f"model = {LOAD}"),
        (ACCELERATE, PREPARED, f"model = {LOAD}\nmodel.gradient_checkpointing_enable()"),
    ],
)
def test_recomputation_of_torch_keeps_nothing_on_the_host(tree, start: str, loop: str, model: str) -> None:
    tree({"run.sh": start, "ds.json": SECTION, "train.py": IMPORTS + loop.format(model=model)})
    found = [each for each in check([Path("run.sh")]).findings if each.rule == "activation-checkpointing-inert"]
    assert [(each.severity, each.span.line) for each in found] == [("warning", 2)]
    assert "cpu_checkpointing changes nothing" in found[0].message


@pytest.mark.parametrize(
    ("section", "model"),
    [
        (SECTION, "from ours import Net\nmodel = Net(recompute=deepspeed.checkpointing.checkpoint)"),
        (SECTION.replace('"cpu_checkpointing": true', '"cpu_checkpointing": false'), f"model = {LOAD}"),
    ],
)
def test_a_section_that_is_read_or_asks_for_nothing_on_the_host_is_fine(tree, section: str, model: str) -> None:
    tree({"run.sh": HANDED, "ds.json": section, "train.py": IMPORTS + TRAINER + TRAINED.format(model=model)})
    assert "activation-checkpointing-inert" not in [each.rule for each in check([Path("run.sh")]).findings]


@pytest.mark.parametrize(
    ("call", "flag", "remedy"),
    [
        ("model.gradient_checkpointing_enable()", "", "without model.gradient_checkpointing_enable"),
        ("", " --gradient_checkpointing True", "--gradient_checkpointing False"),
        (
            "model.gradient_checkpointing_enable()",
            " --gradient_checkpointing True",
            "--gradient_checkpointing False and without model.gradient_checkpointing_enable",
        ),
    ],
)
def test_recomputation_that_a_call_turns_on_ends_without_the_call(tree, call: str, flag: str, remedy: str) -> None:
    program = f"""from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments

(arguments,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
model = AutoModelForCausalLM.from_pretrained("gpt2")
{call}
Trainer(model, arguments, train_dataset=data).train()
"""
    start = f"torchrun --nproc_per_node 8 train.py --output_dir out --bf16 --per_device_train_batch_size 2{flag}\n"
    tree({"run.sh": start, "train.py": program})
    machines = {"cluster.gpu": "H100-SXM-80GB", "data.sequence_length": 1024}
    report = check([Path("run.sh")], settings=machines)
    (found,) = [each for each in report.findings if each.rule == "unneeded-full-recompute"]
    assert found.remedies[0].text == remedy
