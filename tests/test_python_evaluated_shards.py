"""Evaluations of sharded models over parts of the data that differ in length."""

from __future__ import annotations

from textwrap import dedent

import pytest

from dtlint.frameworks import Member, code
from dtlint.languages.python import link, read_module
from dtlint.source import Source
from dtlint.value import Value

PROGRAM = """
import itertools
import torch
import torch.distributed as dist
from datasets import load_dataset
from datasets.distributed import split_dataset_by_node
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, fully_shard
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset
from net import Net, batches, optimizer, read

rank, world = dist.get_rank(), dist.get_world_size()

class Stream(IterableDataset):
    def __init__(self, path, infinite):
        data = load_dataset(path, split="test", streaming=True)
        self.data, self.infinite = split_dataset_by_node(data, rank=rank, world_size=world), infinite

    def __iter__(self):
        while True:
            for row in self.data:
                yield row["tokens"]
            if not self.infinite:
                break

def evaluate(model, loader, most=None):
    total = torch.zeros(())
    for index, batch in enumerate(loader):
        if most is not None and index >= most:
            break
        total += model(batch)
    dist.all_reduce(total)
    return total

def score(model, batch):
    return model(batch).mean()

{wrap}
for batch in batches:
    model(batch).backward()
    optimizer.step()
{end}
"""
FULLY = "model = Net()\nfully_shard(model)"
CLASS = "model = FSDP(Net())"
MINE = "DataLoader(read('test')[rank::world], batch_size=8)"


def places(wrap: str, end: str) -> list[str]:
    """The texts of what evaluations turn over."""
    return [member.place.text for member in members(PROGRAM.format(wrap=wrap, end=end)) if _evaluates(member)]


def members(text: str) -> tuple[Member, ...]:
    program = link({"train.py": read_module(Source("train.py", text))}, "train.py")
    return code.collections(program).get("code.shards", ())


def _evaluates(member: Member) -> bool:
    value = member.fields["evaluates"]
    return isinstance(value, Value) and value.value is True


@pytest.mark.parametrize(
    ("wrap", "end", "told"),
    [
        (FULLY, f"evaluate(model, {MINE})", ["loader"]),
        (CLASS, f"evaluate(model, {MINE})", ["loader"]),
        (FULLY, f"evaluate(model, {MINE}, most=None)", ["loader"]),
        (FULLY, "evaluate(model, DataLoader(Stream('c4', infinite=False), batch_size=8))", ["loader"]),
        (FULLY, f"held = {MINE}\nfor batch in held:\n    print(score(model, batch))", ["held"]),
        # every rank stops at the same number of batches
        (FULLY, f"evaluate(model, {MINE}, most=50)", []),
        (FULLY, "evaluate(model, DataLoader(Stream('c4', infinite=True), batch_size=8), most=50)", []),
        (FULLY, f"evaluate(model, itertools.islice({MINE}, 50))", []),
        # the parts are made equal
        (FULLY, f"evaluate(model, {MINE.replace('=8', '=8, drop_last=True')})", []),
        (FULLY, "evaluate(model, DataLoader(read('test'), sampler=DistributedSampler(read('test'))))", []),
        (FULLY, "evaluate(model, DataLoader(Stream('c4', infinite=True), batch_size=8))", []),
        # nothing is exchanged in a forward pass
        ("model = DDP(Net())", f"evaluate(model, {MINE})", []),
        (FULLY.replace("(model)", "(model, reshard_after_forward=False)"), f"evaluate(model, {MINE})", []),
        (FULLY, f"copy = Net()\nevaluate(copy, {MINE})", []),
    ],
)
def test_evaluations_to_the_end_of_a_part(wrap: str, end: str, told: list[str]) -> None:
    assert places(wrap, end) == told


SHARED = """
import deepspeed
import numpy as np
import torch
import torch.distributed as dist
from accelerate import Accelerator
from net import Net, batches, optimizer, tasks

accelerator = Accelerator()
rank, world = accelerator.process_index, accelerator.num_processes
{wrap}
for batch in batches:
    accelerator.backward(model(batch).mean())
    optimizer.step()

def play(policy, scene):
    seen = scene.reset()
    for _ in range(100):
        seen, _, done, _ = scene.step(policy.select_action(seen))
        if done:
            break

class Judge:
    def __init__(self, model):
        self.model = model

    def run(self):
        for index in range(rank, len(tasks), world):
            self.turn(tasks[index])

    def turn(self, task):
        return self.model.generate(task)

{end}
"""
PREPARED = "model, batches = accelerator.prepare(Net(), batches)"
ENGINE = "model, *_ = deepspeed.initialize(model=Net(), config='ds.json')"
STRIDE = "range(rank, len(tasks), world)"


@pytest.mark.parametrize(
    ("wrap", "end", "needs"),
    [
        (PREPARED, f"for index in {STRIDE}:\n    model(tasks[index])", "sharded"),
        (ENGINE, "for task in tasks[rank::world]:\n    model(task)", "stage 3"),
        (ENGINE, "for task in tasks[rank::world]:\n    model.module.generate(task, synced_gpus=True)", "stage 3"),
        (PREPARED, f"for index in {STRIDE}:\n    play(accelerator.unwrap_model(model), tasks[index])", "sharded"),
        (PREPARED, f"[model(tasks[index]) for index in {STRIDE}]", "sharded"),
        (PREPARED, f"for index in list({STRIDE}):\n    accelerator.unwrap_model(model)(tasks[index])", "sharded"),
        (PREPARED, "Judge(accelerator.unwrap_model(model)).run()", "sharded"),
        (
            PREPARED,
            "for index, task in enumerate(tasks):\n    if index % world == rank:\n        model(task)",
            "sharded",
        ),
        (
            PREPARED,
            "for index, task in enumerate(tasks):\n    if index % world != rank:\n        continue\n    model(task)",
            "sharded",
        ),
        (
            PREPARED,
            "mine = [task for index, task in enumerate(tasks) if index % world == rank]\nfor task in mine:\n    model(task)",
            "sharded",
        ),
        (PREPARED, "for task in np.array_split(tasks, world)[rank]:\n    model(task)", "sharded"),
        (
            PREPARED,
            "with accelerator.split_between_processes(tasks) as mine:\n    for task in mine:\n        model.generate(task)",
            "sharded",
        ),
        # the parts are made equal
        (
            PREPARED,
            "with accelerator.split_between_processes(tasks, apply_padding=True) as mine:\n"
            "    for task in mine:\n        model.generate(task)",
            "",
        ),
        (
            PREPARED,
            "count = len(tasks) // world * world\nfor index in range(rank, count, world):\n    model(tasks[index])",
            "",
        ),
        (ENGINE, "n = len(tasks) // world\nfor task in tasks[rank * n : (rank + 1) * n]:\n    model(task)", ""),
        # every rank makes every pass, or a pass of a model of its own, or none at all
        (PREPARED, "for task in tasks:\n    model(task)", ""),
        (PREPARED, f"teacher = Net()\nfor index in {STRIDE}:\n    teacher(tasks[index])", ""),
        (PREPARED, f"for index in {STRIDE}:\n    print(tasks[index])", ""),
        # no stage 3 there, or whole weights
        (ENGINE, "if zero_stage != 3:\n    for task in tasks[rank::world]:\n        model(task)", ""),
        (
            ENGINE,
            "with deepspeed.zero.GatheredParameters(list(model.parameters())):\n"
            "    for task in tasks[rank::world]:\n        model.module(task)",
            "",
        ),
    ],
)
def test_turns_of_models_that_zero_may_share_out(wrap: str, end: str, needs: str) -> None:
    told = [member for member in members(SHARED.format(wrap=wrap, end=end)) if _evaluates(member)]
    assert [value.value for member in told if isinstance(value := member.fields["needs"], Value)] == [needs] * bool(
        needs
    )


@pytest.mark.parametrize(("count", "told"), [("16", 16), ("10", 10), ("len(tasks)", None)])
def test_how_many_turns_there_are(count: str, told: int | None) -> None:
    end = f"for index in range(rank, {count}, world):\n    model(tasks[index])"
    (found,) = members(SHARED.format(wrap=PREPARED, end=end))
    value = found.fields["count"]
    assert (value.value if isinstance(value, Value) else None) == told


CALLBACK = """
from accelerate import PartialState
from transformers import Trainer, TrainerCallback

class Samples(TrainerCallback):
    def {method}(self, args, state, control, model=None, **kwargs):
        for prompt in prompts[args.process_index :: args.world_size]:
            model.generate(prompt)
"""


@pytest.mark.parametrize(("method", "told"), [("on_evaluate", 1), ("write", 0)])
def test_a_model_that_a_trainer_hands_to_a_callback(method: str, told: int) -> None:
    assert len(members(CALLBACK.format(method=method))) == told


def test_a_trainer_with_its_model_and_loader() -> None:
    trainer = """
    class Trainer:
        def __init__(self):
            self.model = FSDP(Net())
            self.held = DataLoader(read("test")[rank::world], batch_size=8)

        @torch.no_grad()
        def evaluate(self):
            return self.turn()

        def turn(self):
            for batch in self.held:
                self.model(batch)

    Trainer().evaluate()
    """
    assert places(CLASS, dedent(trainer)) == ["self.held"]


def test_a_training_loop_is_told_once() -> None:
    end = f"for batch in {MINE}:\n    model(batch).backward()\n    optimizer.step()"
    assert places(FULLY, end) == []
