"""no_sync around a backward pass whose forward pass stands outside: in the same function, behind a call, or before one."""

from __future__ import annotations

import pytest

from dtlint.frameworks import code
from dtlint.languages.python import link, read_module
from dtlint.source import Source
from dtlint.value import Value

HEAD = """
import torch
from contextlib import nullcontext
from accelerate import Accelerator
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from net import Net, batches, opt
"""
MODEL = "model = DDP(Net().cuda())\n"
BACK = """
def back(loss, net, last):
    context = nullcontext() if last else net.no_sync()
    with context:
        (loss / 4).backward()
"""
LOSS = "def loss_of(x):\n    return model(x).mean()\n"
GIVEN = "def loss_of(net, x):\n    return net(x).mean()\n"
SILENT = "with nullcontext() if i % 4 == 3 else model.no_sync():\n        "
CLASS = """
class Trainer:
    def __init__(self):
        self.model = DDP(Net().cuda())
        self.context = torch.autocast("cuda")

    def passing(self, x):
        with self.context:
            return self.model(x).mean()

    def back(self, loss, last):
        with nullcontext() if last else self.model.no_sync():
            loss.backward()

    def fit(self):
        for i, x in enumerate(batches):
            {lines}
            if i % 4 == 3:
                opt.step()
"""
ONE_BATCH = """
class Trainer:
    def __init__(self):
        self.model = DDP(Net().cuda())

    def step(self, x, last):
        {lines}
        if last:
            loss.backward()
        else:
            with self.model.no_sync():
                loss.backward()

trainer = Trainer()
for i, x in enumerate(batches):
    trainer.step(x, i % 4 == 3)
"""
ACCELERATED = "accelerator = Accelerator()\nmodel = accelerator.prepare(Net())\n" + BACK.replace(
    "net.no_sync()", "accelerator.no_sync(net)"
).replace("(loss / 4).backward()", "accelerator.backward(loss)")


def idle(text: str, **others: str) -> bool:
    modules = {"train.py": read_module(Source("train.py", HEAD + text))}
    modules.update({f"{name}.py": read_module(Source(f"{name}.py", other)) for name, other in others.items()})
    return "code.idle_no_syncs" in code.collections(link(modules))


def loop(*lines: str) -> str:
    return "\n    ".join(["for i, x in enumerate(batches):", *lines, "if i % 4 == 3: opt.step()"])


def in_class(*lines: str) -> str:
    return CLASS.format(lines="\n            ".join(lines))


BACKWARD = f"{SILENT}(loss / 4).backward()"


@pytest.mark.parametrize(
    "text",
    [
        MODEL + BACK + loop("loss = model(x)", "back(loss, model, i % 4 == 3)"),
        MODEL + BACK + GIVEN + loop("back(loss_of(model, x), net=model, last=i % 4 == 3)"),
        MODEL + LOSS + loop("loss = loss_of(x)", BACKWARD),
        MODEL + GIVEN + loop("loss = loss_of(model, x)", BACKWARD),
        MODEL + "half = torch.autocast('cuda')\n" + loop("with half:\n        loss = model(x)", BACKWARD),
        in_class("loss = self.passing(x)", "self.back(loss, i % 4 == 3)"),
        in_class("self.back(self.passing(x), i % 4 == 3)"),
        in_class("out = self.model(x)", "loss = out.mean()", "self.back(loss, i % 4 == 3)"),
        ONE_BATCH.format(lines="loss = self.model(x)"),
        ACCELERATED + loop("loss = model(x)", "back(loss, model, i % 4 == 3)"),
    ],
)
def test_a_backward_pass_alone_in_a_no_sync(text: str) -> None:
    assert idle(text)


@pytest.mark.parametrize(
    "text",
    [
        MODEL + BACK + loop(f"{SILENT}loss = model(x)", "back(loss, model, i % 4 == 3)"),
        MODEL + LOSS + loop(f"{SILENT}loss = loss_of(x)", BACKWARD),
        MODEL + loop(f"{SILENT}loss = model(x)", BACKWARD),
        MODEL + loop("with silent(model, i):\n        loss = model(x)", BACKWARD),
        MODEL + LOSS + loop("with torch.no_grad():\n        old = loss_of(x)", "loss = other(x, old)", BACKWARD),
        MODEL + LOSS + loop("old = loss_of(x).detach()", "loss = other(x, old)", BACKWARD),
        MODEL.replace("DDP", "FSDP") + BACK + loop("loss = model(x)", "back(loss, model, i % 4 == 3)"),
        in_class("with self.model.no_sync():", "    self.back(self.passing(x), i % 4 == 3)"),
        in_class("self.back(other(x), i % 4 == 3)"),
        ONE_BATCH.format(lines="loss = other(x)"),
    ],
)
def test_a_forward_pass_that_is_silent_too_or_another_model(text: str) -> None:
    assert not idle(text)


def test_a_backward_pass_in_another_file() -> None:
    text = "from steps import back\n" + MODEL + loop("{}loss = model(x)", "back(loss, model, i % 4 == 3)")
    steps = "from contextlib import nullcontext\n" + BACK
    assert idle(text.format(""), steps=steps)
    assert not idle(text.format(SILENT), steps=steps)


def batches_of(text: str) -> object:
    """By how many batches the loss of the first block is divided."""
    members = code.collections(link({"train.py": read_module(Source("train.py", HEAD + text))}))["code.idle_no_syncs"]
    value = members[0].fields["batches"]
    return value.value if isinstance(value, Value) else None


OWN = """
class Trainer:
    def __init__(self, every=1):
        self.model, self.every = DDP(Net().cuda()), every

    def back(self, loss, last):
        with nullcontext() if last else self.model.no_sync():
            (loss / self.every).backward()

    def fit(self):
        for i, x in enumerate(batches):
            loss = self.model(x).mean()
            self.back(loss, (i + 1) % self.every == 0)
"""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (OWN + "Trainer(every=8).fit()", 8),
        (OWN + "Trainer(every=unread()).fit()", None),
        (MODEL + "def fit():\n    for i, x in enumerate(batches):\n        loss = model(x).mean() / 4\n"
         "        with nullcontext() if i % 4 == 3 else model.no_sync():\n            loss.backward()\nfit()", 4),
        (MODEL + "def fit():\n    for i, x in enumerate(batches):\n        loss = model(x).mean()\n        loss /= 4\n"
         "        with nullcontext() if i % 4 == 3 else model.no_sync():\n            loss.backward()\nfit()", 4),
        (MODEL + "def fit(world_size=2):\n    for i, x in enumerate(batches):\n        loss = model(x).mean() / world_size\n"
         "        with nullcontext() if i % 4 == 3 else model.no_sync():\n            loss.backward()\nfit()", None),
    ],
)  # fmt: skip
def test_the_batches_that_a_loss_is_divided_by(text: str, told: int | None) -> None:
    assert batches_of(text) == told
