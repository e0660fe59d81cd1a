"""Specifies where gradients of FSDP are clipped by the norm of one rank's shards: classes that inherit, lists."""

from __future__ import annotations

import pytest
from python_texts import program_of

from dtlint.frameworks.code.sharded import shard_clips

HEAD = """import torch
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from net import Net
"""
BASE = """
class Base:
    def __init__(self, net):
        self.net = net
    def clip(self):
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
    def step(self, x):
        self.net(x).backward()
        self.clip()
"""
SHARDED = """
class Sharded(Base):
    def __init__(self, net):
        super().__init__(net)
        self.net = FSDP(net)
"""
BY_NAME = "Sharded(Net()).step(1)\n"


def told(text: str, **others: str) -> bool:
    return bool(shard_clips(program_of(HEAD, text, **others)))


@pytest.mark.parametrize(
    "text",
    [
        BASE + SHARDED + BY_NAME,
        BASE + SHARDED + "KINDS = {'sharded': Sharded, 'plain': Base}\nKINDS['sharded'](Net()).step(1)\n",
        BASE + SHARDED + "import train\ngetattr(train, name)(Net()).step(1)\n",
        BASE + SHARDED + "class More(Sharded):\n    pass\nMore(Net()).step(1)\n",
        BASE + "class Sharded(Base):\n    def wrap(self):\n        self.net = FSDP(self.net)\n" + BY_NAME,
        BASE + "class Sharded(Base):\n    def __init__(self, net):\n        super().__init__(FSDP(net))\n" + BY_NAME,
    ],
)
def test_a_class_that_inherits_the_clipping_shards_the_model(text: str) -> None:
    assert told(text)


@pytest.mark.parametrize(
    "text",
    [
        BASE + SHARDED + "    def clip(self):\n        self.net.clip_grad_norm_(1.0)\n" + BY_NAME,
        BASE + SHARDED + "    def step(self, x):\n        self.net(x).backward()\n" + BY_NAME,
        BASE + SHARDED + "Base(Net()).step(1)\n",
        BASE + SHARDED.replace("(Base)", "(Other)").replace("super().__init__(net)", "pass") + BY_NAME,
        BASE + SHARDED.replace("FSDP(net)", "net") + BY_NAME,
        BASE + SHARDED.replace("self.net", "self.teacher") + BY_NAME,
        BASE + SHARDED.replace("self.net = FSDP(net)", "self.net = FSDP(net) if sharded else net") + BY_NAME,
    ],
)
def test_a_class_that_clips_itself_or_shards_nothing_is_right(text: str) -> None:
    assert not told(text)


def test_the_class_that_inherits_lies_in_another_file() -> None:
    sharded = HEAD + "from base import Base\n" + SHARDED
    assert told("from sharded import Sharded\n" + BY_NAME, base=HEAD + BASE, sharded=sharded)


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ("list(net.parameters())", True),
        ("[p for p in net.parameters() if p.requires_grad]", True),
        ("(p for _, p in net.named_parameters() if p.grad is not None)", True),
        ("filter(lambda p: p.requires_grad, net.parameters())", True),
        ("kept", True),
        ("[p for p in net.parameters() if isinstance(p, DTensor)]", False),
        ("[p.data for p in net.parameters()]", False),
        ("head.parameters()", False),
        ("parameters_of(net)", False),
    ],
)
def test_the_parameters_of_a_sharded_model_in_a_list(given: str, wrong: bool) -> None:
    text = "net = FSDP(Net())\nhead = Net()\nkept = [p for p in net.parameters()]\nnet(1).backward()\n"
    assert told(f"{text}torch.nn.utils.clip_grad_norm_({given}, 1.0)\n") is wrong
