"""Training loops of a program's own: what their code says of precision, accumulation and batches, and what it leaves
unknown."""

from __future__ import annotations

from textwrap import indent

import pytest

from dtlint.api import check
from dtlint.plan import Plan
from dtlint.value import Unknown, Value

HEAD = """import argparse
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler

parser = argparse.ArgumentParser()
parser.add_argument("--every", type=int, default=2)
parser.add_argument("--amp", action="store_true")
args = parser.parse_args()
dist.init_process_group("nccl")
rank = int(os.environ["LOCAL_RANK"])
model = DDP(torch.nn.Linear(8, 8).to(rank), device_ids=[rank])
optimizer = torch.optim.AdamW(model.parameters())
sampler = DistributedSampler(data)
"""
LOADER = "loader = DataLoader(data, batch_size=4, sampler=sampler)\n"
PASS = """    loss = model(batch).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
BF16 = 'torch.autocast("cuda", dtype=torch.bfloat16)'
PLAIN = f"for index, batch in enumerate(loader):\n{PASS}"


def plan(tree, loop: str, loader: str = LOADER, more: str = "") -> Plan:
    tree({"train.py": HEAD + loader + loop, "run.sh": f"torchrun --nproc_per_node 4 train.py {more}\n"})
    return check(["run.sh"]).runs[0].plan


def told(found: Plan, name: str) -> object:
    value = found.get(name)
    return (value.value, value.origin.kind) if isinstance(value, Value) else None


def cast(block: str) -> str:
    return f"""for index, batch in enumerate(loader):
    with {block}:
        loss = model(batch).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def stepping(test: str, count: str = "") -> str:
    return f"""{count}
for index, batch in enumerate(loader):
    loss = model(batch).mean()
    loss.backward()
    if {test}:
        optimizer.step()
        optimizer.zero_grad()
"""


def test_what_no_word_speaks_of_has_its_default(tree):
    found = plan(tree, PLAIN)
    assert told(found, "precision.compute") == ("fp32", "default")
    assert told(found, "batch.accumulation") == (1, "default")
    assert told(found, "data.drop_last") == (False, "default")


class TestPrecision:
    @pytest.mark.parametrize(
        ("block", "number_format"),
        [
            ('torch.autocast("cuda", dtype=torch.bfloat16)', "bf16"),
            ('torch.autocast(device_type="cuda", dtype=torch.float16)', "fp16"),
            ('torch.amp.autocast("cuda")', "fp16"),
            ("torch.cuda.amp.autocast()", "fp16"),
            ("torch.cuda.amp.autocast(True)", "fp16"),
            ("torch.cuda.amp.autocast(dtype=torch.bfloat16)", "bf16"),
        ],
    )
    def test_autocast_around_the_forward_pass_is_the_format(self, tree, block, number_format):
        found = plan(tree, cast(block))
        assert told(found, "precision.compute") == (number_format, "written")
        assert told(found, "precision.master") == ("fp32", "written")

    def test_a_scaled_loss_goes_backward_too(self, tree):
        loop = cast("torch.cuda.amp.autocast()").replace("loss.backward()", "scaler.scale(loss).backward()")
        assert told(plan(tree, f"scaler = torch.cuda.amp.GradScaler()\n{loop}"), "precision.compute") == (
            "fp16",
            "written",
        )

    @pytest.mark.parametrize(
        "loop",
        [
            cast("torch.autocast(kind(), dtype=torch.get_autocast_gpu_dtype())"),
            cast("torch.cuda.amp.autocast(enabled=wanted())"),
            cast("torch.cuda.amp.autocast(args.amp)").replace("for index", "args.amp = wanted()\nfor index"),
            f'context = torch.autocast("cuda", dtype=chosen())\n{cast("context")}',
            cast("maker.autocast()"),
            f"model.half()\n{PLAIN}",
            f"model.to(torch.bfloat16)\n{PLAIN}",
            f"torch.set_default_dtype(chosen())\n{PLAIN}",
            f'from apex import amp\nmodel, optimizer = amp.initialize(model, optimizer, opt_level="O1")\n{PLAIN}',
            f"def second():\n{indent(PLAIN, '    ')}\n\nsecond()\n{cast(BF16)}",
        ],
    )
    def test_what_is_cast_in_a_way_that_is_not_read_is_unknown(self, tree, loop):
        assert isinstance(plan(tree, loop).get("precision.compute"), Unknown)

    def test_a_block_that_switches_autocast_off_is_no_cast(self, tree):
        loop = cast("torch.cuda.amp.autocast(enabled=False)")
        assert told(plan(tree, loop), "precision.compute") == ("fp32", "default")

    def test_formats_of_arrays_are_none_of_the_model(self, tree):
        loop = f"kept = array.to(torch.float16)\n{PLAIN}"
        assert told(plan(tree, loop), "precision.compute") == ("fp32", "default")


class TestAccumulation:
    @pytest.mark.parametrize(
        ("loop", "more", "number"),
        [
            (stepping("(index + 1) % 8 == 0"), "", 8),
            (stepping("(index + 1) % every == 0", "every = 8"), "", 8),
            (stepping("(index + 1) % args.every == 0"), "", 2),
            (stepping("(index + 1) % args.every == 0"), "--every 16", 16),
        ],
    )
    def test_what_chooses_the_steps_is_the_number(self, tree, loop, more, number):
        found = plan(tree, loop, more=more)
        assert told(found, "batch.accumulation") == (number, "written")
        assert told(found, "batch.global") == (number * 4 * 4, "derived")

    def test_a_default_that_more_than_the_command_line_may_replace_is_unknown(self, tree):
        function = f"def train(settings, every=4):\n{indent(stepping('(index + 1) % every == 0').strip(), '    ')}\n"
        assert isinstance(plan(tree, f"{function}\nfire.Fire(train)\n").get("batch.accumulation"), Unknown)

    def test_batches_of_an_inner_loop_are_counted(self, tree):
        loop = """accumulation_steps = 4
for step in range(100):
    for part in range(accumulation_steps):
        loss = model(next(batches)).mean()
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
        assert told(plan(tree, loop), "batch.accumulation") == (4, "written")

    @pytest.mark.parametrize(
        "loop",
        [
            stepping("(index + 1) % settings.every == 0"),
            stepping("accumulated(index)", "grad_accum_steps = settings['steps']"),
            f"grad_accumulation = 40\ngrad_accumulation //= dist.get_world_size()\n{stepping('done(index)')}",
        ],
    )
    def test_a_number_that_is_not_read_is_unknown(self, tree, loop):
        assert isinstance(plan(tree, loop).get("batch.accumulation"), Unknown)

    def test_a_model_that_is_trained_less_often_accumulates_nothing(self, tree):
        loop = """for index, batch in enumerate(loader):
    loss = model(batch).mean()
    loss.backward()
    optimizer.step()
    if index % 5 == 0:
        second = other(batch).mean()
        second.backward()
        other_optimizer.step()
"""
        assert told(plan(tree, loop), "batch.accumulation") == (1, "default")

    def test_names_of_sums_and_averages_are_no_accumulation(self, tree):
        loop = f"accumulated_loss = 0\naccuracy_steps = 3\naccumulate(average, model)\n{PLAIN}"
        assert told(plan(tree, loop), "batch.accumulation") == (1, "default")

    @pytest.mark.parametrize(("number", "found"), [("1", (1, "written")), ("8", (8, "written")), ("config['n']", None)])
    def test_an_accelerator_may_be_told(self, tree, number, found):
        text = f"""from accelerate import Accelerator
accelerator = Accelerator(gradient_accumulation_steps={number})
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for batch in loader:
    with accelerator.accumulate(model):
        loss = model(batch).mean()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
"""
        plain = HEAD.replace("DDP(torch.nn.Linear(8, 8).to(rank), device_ids=[rank])", "torch.nn.Linear(8, 8)")
        tree(
            {"train.py": plain + LOADER + text, "run.sh": "accelerate launch --multi_gpu --num_processes 4 train.py\n"}
        )
        assert told(check(["run.sh"]).runs[0].plan, "batch.accumulation") == found

    def test_what_a_launch_hands_on_is_no_conflict_with_the_loop(self, tree):
        text = f"from accelerate import Accelerator\naccelerator = Accelerator()\n{stepping('(index + 1) % 4 == 0')}"
        line = "accelerate launch --multi_gpu --num_processes 4 --gradient_accumulation_steps 8 train.py\n"
        tree({"train.py": HEAD + LOADER + text, "run.sh": line})
        assert "grad-accum-conflict" not in {each.rule for each in check(["run.sh"]).findings}


class TestBatches:
    def test_the_loader_that_training_turns_over_counts(self, tree):
        loader = "loader = DataLoader(data, batch_size=4, sampler=sampler, drop_last=True)\n"
        other = "val_loader = DataLoader(held_out, batch_size=64)\nfor batch in val_loader:\n    model(batch)\n"
        found = plan(tree, PLAIN + other, loader)
        assert told(found, "batch.micro") == (4, "written")
        assert told(found, "data.drop_last") == (True, "written")

    def test_a_size_that_is_not_known_stays_open(self, tree):
        found = plan(tree, PLAIN, "loader = DataLoader(data, batch_size=chosen(), sampler=sampler, drop_last=kept())\n")
        assert isinstance(found.get("batch.micro"), Unknown)
        assert isinstance(found.get("data.drop_last"), Unknown)

    def test_a_sampler_that_makes_batches_may_drop(self, tree):
        found = plan(tree, PLAIN, "loader = DataLoader(data, batch_sampler=sampler)\n")
        assert isinstance(found.get("data.drop_last"), Unknown)


def test_a_loop_beside_the_trainer_is_not_the_one_that_trains(tree):
    text = """from transformers import Trainer, TrainingArguments

arguments = TrainingArguments("out", per_device_train_batch_size=2, bf16=True)
Trainer(model, arguments, train_dataset=data).train()
"""
    tree({"train.py": HEAD + LOADER + text + cast("torch.cuda.amp.autocast()")})
    tree({"run.sh": "torchrun --nproc_per_node 4 train.py\n"})
    found = check(["run.sh"]).runs[0].plan
    assert (told(found, "precision.compute"), told(found, "batch.micro")) == (("bf16", "written"), (2, "written"))


def test_a_program_that_trains_on_one_gpu_is_still_no_run(tree):
    tree({"train.py": f"from torch.utils.data import DataLoader\n{LOADER}{PLAIN}"})
    assert not check(["train.py"]).runs


SETTINGS = """seed: 1
weight_decay: 0.1
max_grad_norm: 5.0
learning_rate: 0.001
batch_size: 8
"""


@pytest.mark.parametrize(
    ("reading", "front"),
    [
        ("import yaml\ncfg = yaml.safe_load(open(args.config))\n", "none"),
        ("from omegaconf import OmegaConf\nfrom transformers import AutoModel\ncfg = OmegaConf.load('a')\n", "none"),
        ("from transformers import HfArgumentParser\nimport yaml\ncfg = yaml.safe_load(open('a'))\n", "transformers"),
        ("from settings import load\ncfg = load(args.config)\n", "transformers"),
    ],
)
def test_a_file_of_settings_that_a_program_loads_itself_is_no_front_ends(tree, reading: str, front: str) -> None:
    text = HEAD.replace("args = parser", 'parser.add_argument("config")\nargs = parser') + reading + LOADER + PLAIN
    tree({"train.py": text, "run.sh": "torchrun --nproc_per_node 4 train.py run.yaml\n", "run.yaml": SETTINGS})
    found = check(["run.sh"]).runs[0].plan
    assert (told(found, "frontend") or ("", ""))[0] == front
    assert told(found, "optimizer.clip") == (5.0, "written")
    assert told(found, "communication.find_unused") == (front == "transformers", "default")
