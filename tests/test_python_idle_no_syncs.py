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


SEVERAL = """
from contextlib import ExitStack, contextmanager
class Brain:
    def __init__(self, parts):
        self.parts = torch.nn.ModuleDict(parts)
        for name, part in self.parts.items():
            self.parts[name] = {wrap}
    @contextmanager
    def quiet(self, on):
        held = [part.no_sync() for part in self.parts.values() if hasattr(part, "no_sync")] if on else []
        for each in held:
            each.__enter__()
        yield
        for each in held:
            each.__exit__(None, None, None)
    def forward_of(self, x):
        {forward}
    def fit_batch(self, x, last):
        {lines}
        if last:
            opt.step()
"""
LATE = "y = self.forward_of(x)\n        with self.quiet(not last):\n            y.sum().backward()"
EARLY = "with self.quiet(not last):\n            y = self.forward_of(x)\n            y.sum().backward()"
STACKED = (
    "y = self.forward_of(x)\n        with ExitStack() as stack:\n            for part in self.parts.values():\n"
    "                stack.enter_context(part.no_sync())\n            y.sum().backward()"
)
WRAPPED = "DDP(part.cuda())"
HERE = "return self.parts['head'](self.parts['encoder'](x))"
BELOW = """
class Recipe(Brain):
    def forward_of(self, x):
        return {forward}
Recipe({{}}).fit_batch(1, opt.last)
"""


def several(lines: str, wrap: str = WRAPPED, forward: str = HERE, below: str = "") -> list[object]:
    program = link(
        {"t.py": read_module(Source("t.py", HEAD + SEVERAL.format(lines=lines, wrap=wrap, forward=forward) + below))}
    )
    return [item.fields["model"] for item in code.collections(program).get("code.idle_no_syncs", ())]


def test_no_sync_of_each_of_several_models_behind_their_forward_passes() -> None:
    assert len(several(LATE)) == 1
    assert len(several(STACKED)) == 1
    assert len(several(LATE, forward="return self.parts.encoder(x)")) == 1
    below = BELOW.format(forward="self.parts['encoder'](x)")
    assert len(several(LATE, forward="raise NotImplementedError", below=below)) == 1


def test_no_sync_of_each_of_several_models_around_their_forward_passes() -> None:
    assert several(EARLY) == []
    assert (
        several(STACKED.replace("y = self.forward_of(x)\n        ", "").replace("y.sum()", "self.forward_of(x).sum()"))
        == []
    )
    assert several(LATE, wrap="FSDP(part)") == []
    assert several(LATE, wrap="part.cuda()") == []
    assert several(LATE, forward="return self.parts.values()") == []
    below = BELOW.format(forward="self.other['encoder'](x)")
    assert several(LATE, forward="raise NotImplementedError", below=below) == []


@pytest.mark.parametrize(("first", "told"), [("loss = model(x)\n    ", True), ("", False)])
def test_no_sync_on_a_stack_of_contexts(first: str, told: bool) -> None:
    inside = "" if first else "    loss = model(x)\n        "
    text = (
        f"from contextlib import ExitStack\nfor i, x in enumerate(batches):\n    {first}with ExitStack() as stack:\n"
        f"        if i % 4 != 3:\n            stack.enter_context(model.no_sync())\n    {inside}    loss.backward()\n"
        "    if i % 4 == 3:\n        opt.step()\n"
    )
    found = code.collections(link({"t.py": read_module(Source("t.py", HEAD + MODEL + text))}))
    assert bool(found.get("code.idle_no_syncs")) is told
