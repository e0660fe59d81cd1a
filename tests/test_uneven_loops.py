"""Loops that go backward as often as this rank's own samples make a list long: parts of `code.divergences`."""

from __future__ import annotations

import pytest

from dtlint.frameworks import code
from dtlint.languages.python import link, read_module
from dtlint.source import Source
from dtlint.value import Value

HEAD = """
import math, os, random, torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
rank, world = dist.get_rank(), dist.get_world_size()
model = fully_shard(Net().cuda())

class Env:
    def __init__(self, engine, turns):
        self.engine, self.turns = engine, turns

    def episode(self, row):
        parts, text = [], row
        for _ in range(self.turns):
            ids, reply = self.engine.complete(text)
            parts.append(ids)
            if "done" in reply:
                break
            text = text + reply
        return parts, score(reply)

    def collect(self, rows):
        out = []
        for row in rows:
            episodes = [self.episode(row) for _ in range(8)]
            for parts, reward in episodes:
                out.extend(Sample(part, reward) for part in parts)
        random.shuffle(out)
        return out

    def firsts(self, rows):
        out = []
        for row in rows:
            parts, reward = self.episode(row)
            out.append(Sample(parts, reward))
        return out

    def fitting(self, rows):
        out = []
        for row in rows:
            if len(row) < 4096:
                out.append(row)
        return out

    def filled(self, rows):
        out = []
        while len(out) < 64:
            row = random.choice(rows)
            if len(row) < 4096:
                out.append(row)
        return out

    def settled(self, rows):
        out = []
        for row in rows:
            if self.turns > 1:
                out.append(row)
        return out

    def spread(self, rows):
        out = [row for row in rows if len(row) < 4096]
        most = agreed_by_all_reduce(len(out))
        return out

env = Env(Engine(), 6)

def learn(sample):
    model(sample).mean().backward()

def update(samples, size):
    {turns}

for step in range(100):
    rows = questions[step * world + rank :: world]
    {made}
    update(samples, 4)
    optimizer.step()
"""
PARTS = """parts = [samples[i : i + size] for i in range(0, len(samples), size)]
    for part in parts:
        model(part).mean().backward()"""
COLLECT = "samples = env.collect(rows)"


def found(turns: str = PARTS, made: str = COLLECT, change: tuple[str, str] = ("", "")) -> list[str]:
    text = HEAD.replace("{turns}", turns).replace("{made}", made).replace(*change)
    members = code.collections(link({"train.py": read_module(Source("train.py", text))}))
    told = [item.fields["cause"] for item in members.get("code.divergences", ())]
    return [str(cause.value) for cause in told if isinstance(cause, Value) and cause.value == "uneven"]


@pytest.mark.parametrize(
    "turns",
    [
        PARTS,
        "for i in range(0, len(samples), size):\n        model(samples[i : i + size]).mean().backward()",
        "count = math.ceil(len(samples) / size)\n    for i in range(count):\n        learn(samples[i * size])",
        "for number, sample in enumerate(samples):\n        learn(sample)",
        "for part in torch.utils.data.DataLoader(samples, batch_size=size):\n        learn(part)",
        "for part in samples.split(size):\n        pass\n    for part in batched(samples, size):\n        learn(part)",
        "kept = [sample for sample in samples if sample.reward]\n    for sample in kept:\n        learn(sample)",
    ],
    ids=["parts", "from to", "counted", "each", "loaded", "batched", "kept of them"],
)
def test_ranks_turn_as_often_as_their_samples_are_many(turns: str) -> None:
    assert found(turns) == ["uneven"]


@pytest.mark.parametrize(
    ("made", "count"),
    [
        (COLLECT, 1),
        ("samples = env.fitting(rows)", 1),
        ("samples = [row for row in rows if len(row) < 4096]", 1),
        ("samples = sorted(env.collect(rows))", 1),
        ("samples = env.firsts(rows)", 0),
        ("samples = env.filled(rows)", 0),
        ("samples = env.settled(rows)", 0),
        ("samples = env.spread(rows)", 0),
        ("samples = env.collect(rows)[:64]", 0),
        ("samples = env.collect(questions)", 0),
        ("samples = [row for row in rows]", 0),
        ("samples = evened_out(env.collect(rows))", 0),
        (f"{COLLECT}\n    samples = fill_up(samples)", 0),
        (f"{COLLECT}\n    most = torch.tensor(len(samples))\n    dist.all_reduce(most, op=dist.ReduceOp.MAX)", 0),
    ],
)
def test_what_makes_lists_of_one_length_or_another(made: str, count: int) -> None:
    assert len(found(made=made)) == count


def test_ranks_that_agree_before_the_loop() -> None:
    agreed = "most = torch.tensor(len(samples))\n    dist.all_reduce(most, op=dist.ReduceOp.MAX)\n    "
    assert found(agreed + PARTS) == []


def test_a_loop_that_does_not_go_backward() -> None:
    assert found(PARTS.replace(".mean().backward()", "")) == []


def test_gradients_that_are_exchanged_in_the_last_pass_alone() -> None:
    wrapped = ("fully_shard(Net().cuda())", "DistributedDataParallel(Net().cuda())")
    assert found(change=wrapped) == ["uneven"]
    quiet = PARTS.replace("        model(part)", "        with model.no_sync():\n            model(part)")
    assert found(quiet, change=wrapped) == []
    assert found(quiet) == ["uneven"]


def test_ranks_that_join_when_they_are_done() -> None:
    joined = PARTS.replace("for part in parts", "with Join([model]):\n      for part in parts")
    assert found(joined) == []


def test_nothing_exchanges() -> None:
    assert found(change=("fully_shard(Net().cuda())", "Net().cuda()")) == []


@pytest.mark.parametrize(
    "turns",
    [
        f"del samples[64:]\n    {PARTS}",
        f"assert len(samples) == 64\n    {PARTS}",
        f"while len(samples) < 64:\n        samples.append(samples[0])\n    {PARTS}",
        "for number, sample in enumerate(samples):\n        if number >= 64:\n            break\n        learn(sample)",
    ],
    ids=["cut", "asserted", "filled up", "left"],
)
def test_loops_that_end_early_and_lists_that_are_made_as_long_as_they_should_be(turns: str) -> None:
    assert found(turns) == []
