"""Evaluations of FSDP models over parts of the data that differ in length."""

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
    text = PROGRAM.format(wrap=wrap, end=end)
    program = link({"train.py": read_module(Source("train.py", text))}, "train.py")
    found = code.collections(program).get("code.shards", ())
    return [member.place.text for member in found if _evaluates(member)]


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
