"""Flags that stop a front end's loop, and collectives, by what only some ranks know."""

from __future__ import annotations

import pytest

from dtlint.frameworks import Member, code
from dtlint.languages.python import link, read_module
from dtlint.source import Source
from dtlint.value import Value


def divergences(text: str) -> list[tuple[object, object, object]]:
    """What is done, why on some ranks only, and under which condition."""
    program = link({"train.py": read_module(Source("train.py", text))})
    found = code.collections(program).get("code.divergences", ())
    return [
        (_told(each, "call") or _told(each, "word"), _told(each, "cause"), _told(each, "condition")) for each in found
    ]


def _told(member: Member, name: str) -> object:
    value = member.fields[name]
    return value.value if isinstance(value, Value) else None


LIGHTNING = """
import functools
import time
import torch
from lightning.pytorch import Callback
from lightning.pytorch.utilities import rank_zero_only
class Stopping(Callback):
    def __init__(self):
        self.asked = False
        self.began = time.time()
    def {head}(self, trainer, module):
        {body}
"""
HOOK = "on_train_epoch_end"
STOP = "trainer.should_stop = True"
FLAGS = [
    (f"if trainer.is_global_zero and asked():\n            {STOP}", "rank", "trainer.is_global_zero and asked()"),
    (f"if trainer.global_rank != 0: return\n        {STOP}", "rank", "trainer.global_rank != 0"),
    ("if trainer.is_global_zero:\n            trainer.should_stop = asked()", "rank", "trainer.is_global_zero"),
    (f"stop = False\n        if trainer.is_global_zero: stop = asked()\n        if stop: {STOP}", "partial", "stop"),
    (f"if trainer.is_global_zero: self.asked = asked()\n        if self.asked: {STOP}", "partial", "self.asked"),
    ("if module.global_rank == 0:\n            self.quit(trainer)\n    def quit(self, trainer):\n        " + STOP, "rank", "module.global_rank == 0"),
    ("self.ask(trainer)\n    @rank_zero_only\n    def ask(self, trainer):\n        " + STOP, "rank", "rank_zero_only"),
    (f"if trainer.is_global_zero and self.socket.poll(10):\n            if self.socket.recv_string() == 'stop': {STOP}", "rank", "trainer.is_global_zero and self.socket.poll(10)"),
    (f"if trainer.is_global_zero and self.sub_socket.recv(9) == b'stop': {STOP}\n        trainer.strategy.barrier()", "rank", "trainer.is_global_zero and self.sub_socket.recv(9) == b'stop'"),
    ("trainer.should_stop = trainer.should_stop or (trainer.is_global_zero and asked())", "rank", "trainer.is_global_zero and asked()"),
    (f"torch.cuda.synchronize()\n        if module.global_rank == 0 and asked(): {STOP}", "rank", "module.global_rank == 0 and asked()"),
    (f"worst = functools.reduce(max, self.losses)\n        if module.global_rank == 0 and worst > 9: {STOP}", "rank", "module.global_rank == 0 and worst > 9"),
    (f"if trainer.is_global_zero: print(1)\n        if time.time() - self.began > 60: {STOP}", "clock", "time.time() - self.began > 60"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "cause", "condition"), FLAGS, ids=range(len(FLAGS)))
def test_a_flag_that_some_ranks_set(body: str, cause: str, condition: str) -> None:
    found = divergences(LIGHTNING.format(head=HOOK, body=body))
    assert [(why, test) for _, why, test in found] == [(cause, condition)]
    assert str(found[0][0]).startswith("trainer.should_stop = ")


AGREED = [
    f"if done(): {STOP}",
    "if trainer.is_global_zero: trainer.should_stop = False",
    f"stop = trainer.is_global_zero and asked()\n        stop = trainer.strategy.broadcast(stop)\n        if stop: {STOP}",
    f"stop = trainer.is_global_zero and asked()\n        if trainer.strategy.reduce_boolean_decision(stop, all=False): {STOP}",
    f"if trainer.is_global_zero: {STOP}\n        trainer.should_stop = trainer.strategy.broadcast(trainer.should_stop)",
    f"if trainer.is_global_zero: {STOP}\n    def on_fit_end(self, trainer):\n        trainer.should_stop = agree(trainer.should_stop)",
    f"if trainer.world_size == 1: {STOP}",
    f"stop = torch.tensor(asked())\n        dist.recv(stop, 0) if module.global_rank else dist.send(stop, 1)\n        if module.global_rank == 0 and stop: {STOP}",
    f"meter.synchronize()\n        if module.global_rank == 0 and meter.stop: {STOP}",
    "if trainer.is_global_zero: self.should_stop = True",
]


@pytest.mark.parametrize("body", AGREED, ids=range(len(AGREED)))
def test_a_flag_that_all_ranks_set(body: str) -> None:
    assert divergences(LIGHTNING.format(head=HOOK, body=body)) == []


def test_the_clock_of_a_program_that_knows_of_no_ranks() -> None:
    text = LIGHTNING.format(head=HOOK, body=f"if time.time() - self.began > 60: {STOP}")
    assert divergences(text.replace("rank_zero_only", "utility")) == []


def test_a_control_of_transformers() -> None:
    text = "from transformers import TrainerCallback\nclass Stop(TrainerCallback):\n"
    text += "    def on_step_end(self, args, state, control, **rest):\n"
    text += "        if state.is_world_process_zero:\n            control.should_training_stop = asked()\n        return control\n"
    assert divergences(text) == [("control.should_training_stop = asked()", "rank", "state.is_world_process_zero")]


LOOP = """
import torch
import torch.distributed as dist
from accelerate.utils import tqdm as main_tqdm
from torch.nn.parallel import DistributedDataParallel as DDP
from tqdm import tqdm
class Loop:
    def __init__(self, args):
        self.rank = dist.get_rank()
        self.model = DDP(net)
        self.bar = {bar}
        self.stop = False
    def ask(self):
        if self.rank == 0:
            self.stop = asked()
        {told}
    def evaluate(self):
        dist.all_reduce(self.score)
    def train(self):
        for batch in loader:
            self.model(batch).backward()
            self.ask()
            {turn}
Loop(parse()).train()
"""
LONE = "tqdm(total=9, disable=self.rank != 0)"
CALL = "evaluate, which leads to all_reduce"


@pytest.mark.parametrize(
    ("bar", "turn", "expected"),
    [
        (LONE, "if self.bar.n % 10 == 0: self.evaluate()", [(CALL, "bar")]),
        (LONE, "step = self.bar.n\n            if step > 10: dist.barrier()", [("barrier", "bar")]),
        (LONE, "if self.bar.n > 1000: break", [("break", "bar")]),
        (LONE, "while self.bar.n < 10: self.model(batch).backward()", [("while", "bar")]),
        (LONE, "if self.bar.n % 10 == 0: print(1)", []),
        (LONE, "if self.rank == 0 and self.bar.n > 10: print(1)", []),
        (LONE, "if self.bar.total > 10: self.evaluate()", []),
        ("main_tqdm(total=9)", "if self.bar.n > 10: self.evaluate()", [(CALL, "bar")]),
        ("main_tqdm(total=9, main_process_only=False)", "if self.bar.n > 10: self.evaluate()", []),
        ("main_tqdm(args.quiet, total=9, **more)", "if self.bar.n > 10: self.evaluate()", []),
        ("tqdm(total=9)", "if self.bar.n > 10: self.evaluate()", []),
        ("tqdm(total=9, disable=args.quiet)", "if self.bar.n > 10: self.evaluate()", []),
        ("None", "if self.stop: break", [("break", "partial")]),
        ("None", "if self.stop: self.evaluate()", [(CALL, "partial")]),
        (
            "None",
            "if self.stop:\n                dist.barrier()\n            else:\n                dist.barrier()",
            [],
        ),
        ("None", "if self.stop and self.rank == 0: print(1)", []),
    ],
)
def test_a_condition_that_rests_on_what_some_ranks_count_or_set(
    bar: str, turn: str, expected: list[tuple[str, str]]
) -> None:
    found = divergences(LOOP.format(bar=bar, told="pass", turn=turn))
    assert [(what, why) for what, why, _ in found] == expected


@pytest.mark.parametrize(
    "told",
    ["dist.broadcast(self.stop, 0)", "self.stop = agreed(self.stop)", "self.stop = broadcast_from_first(stop)"],
)
def test_what_is_told_to_all_ranks_parts_none(told: str) -> None:
    assert divergences(LOOP.format(bar="None", told=told, turn="if self.stop: break")) == []


def test_a_bar_of_a_with_statement() -> None:
    text = "import torch.distributed as dist\nfrom tqdm.auto import tqdm\nfrom torch.nn.parallel import DistributedDataParallel as DDP\n"
    text += "model = DDP(net)\nwith tqdm(total=9, disable=dist.get_rank() > 0) as bar:\n    for batch in loader:\n"
    text += "        model(batch).backward()\n        if bar.n == 5:\n            dist.barrier()\n"
    assert divergences(text) == [("barrier", "bar", "bar.n == 5")]


@pytest.mark.parametrize(
    ("test", "told"), [("sum(losses) > 1", True), ("losses", False), ("not losses or done", False)]
)
def test_whether_anything_was_measured_is_the_same_on_all_ranks(test: str, told: bool) -> None:
    text = "import torch.distributed as dist\nfrom torch.nn.parallel import DistributedDataParallel as DDP\n"
    text += "from torch.utils.data import DataLoader, DistributedSampler\nmodel = DDP(net)\n"
    text += "loader = DataLoader(data, sampler=DistributedSampler(data))\n"
    text += "def validate():\n    losses = []\n    for batch in loader:\n        losses.append(model(batch).item())\n"
    text += (
        f"    if {test}:\n        dist.barrier()\nfor batch in loader:\n    model(batch).backward()\n    validate()\n"
    )
    assert divergences(text) == ([("barrier", "dealt", test)] if told else [])


@pytest.mark.parametrize("rank", ["rank", "global_rank", "world_rank"])
def test_the_name_of_a_rank_is_no_word_of_agreement(rank: str) -> None:
    text = "import torch.distributed as dist\nfrom torch.nn.parallel import DistributedDataParallel as DDP\n"
    text += f"{rank} = dist.get_rank()\nmodel = DDP(net)\nfor batch in loader:\n    model(batch).backward()\n"
    text += f"    if {rank} == 0 and asked():\n        break\n"
    assert divergences(text) == [("break", "rank", f"{rank} == 0 and asked()")]
    assert (
        divergences(
            text.replace("if ", "global_stop = agreed(asked())\n    if ").replace(
                "== 0 and asked()", "== 0 and global_stop"
            )
        )
        == []
    )
