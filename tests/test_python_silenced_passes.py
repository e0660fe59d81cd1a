"""Training of which every forward pass stands in a no_sync."""

from __future__ import annotations

import pytest

from dtlint.frameworks import code
from dtlint.languages.python import link, read_module
from dtlint.source import Source
from dtlint.value import Value

HEAD = """
import torch, accelerate
import torch.distributed as dist
from contextlib import ExitStack, contextmanager, nullcontext
from torch.nn.parallel import DistributedDataParallel as DDP
model = DDP(Net().cuda())
opt = torch.optim.SGD(model.parameters(), lr=0.1)
"""
TURN = "for i, batch in enumerate(batches):\n"
SILENT = "    with model.no_sync():\n        loss = loss_of(model(batch))\n"
BACKWARD = "    loss.backward()\n    opt.step()\n"
QUIET = "def quiet(on):\n    return model.no_sync() if on else nullcontext()\n"
ENTERING = """
@contextmanager
def quiet(on=True):
    if not on:
        yield
        return
    with ExitStack() as stack:
        for each in [model]:
            stack.enter_context(each.no_sync())
        yield
"""
AVERAGE = "def average(net):\n    for p in net.parameters():\n        dist.all_reduce(p.data)\n"
OTHER = "critic = DDP(Critic())\n"
ACCELERATED = """
accelerator = accelerate.Accelerator()
net = accelerator.prepare(Net())
for batch in batches:
    with accelerator.no_sync(net):
        {inside}
    {outside}
    opt.step()
"""
CLASS = """
class Trainer:
    def __init__(self):
        self.step = 0
        self.parts = {{}}
        for name, part in build().items():
            self.parts[name] = DDP(part)
    @contextmanager
    def no_sync(self, use=True):
        if not use:
            yield
            return
        with ExitStack() as stack:
            for part in self.parts.values():
                if isinstance(part, DDP):
                    stack.enter_context(part.no_sync())
            yield
    def passing(self, batch):
        raise NotImplementedError
    def fit(self, batch):
        self.step += 1
        last = self.step % 4 == 0
        with self.no_sync({first}):
            out = self.passing(batch)
        with self.no_sync(not last):
            loss = self.loss(out)
            loss.backward()
        if last:
            self.optimizer.step()
class Own(Trainer):
    def passing(self, batch):
        return self.parts["encoder"](batch)
    def loss(self, out):
        return {loss}
"""


def lines(text: str) -> list[int]:
    """Where the exchange is never on."""
    program = link({"train.py": read_module(Source("train.py", HEAD + text))})
    members = code.collections(program).get("code.wrong_microsteps", ())
    never = (each for each in members if isinstance(value := each.fields["never"], Value) and value.value)
    return [each.place.line - HEAD.count("\n") for each in never]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (TURN + SILENT + BACKWARD, 2),
        (TURN + "    with model.no_sync():\n        loss = model(batch)\n        loss.backward()\n    opt.step()\n", 2),
        (TURN + SILENT + BACKWARD + "    dist.all_reduce(loss)\n", 2),
        (TURN + SILENT + BACKWARD.replace("    opt", "    if i % 4 == 3:\n        opt"), 2),
        (ENTERING + TURN + SILENT.replace("model.no_sync", "quiet") + BACKWARD, 12),
        (QUIET + TURN + SILENT.replace("model.no_sync()", "quiet(True)") + BACKWARD, 4),
        (ACCELERATED.format(inside="accelerator.backward(net(batch))", outside="pass"), 5),
        (CLASS.format(first="", loss="out.mean()"), 23),
    ],
)
def test_a_no_sync_around_every_forward_pass(text: str, line: int) -> None:
    assert lines(text) == [line]


@pytest.mark.parametrize(
    "text",
    [
        TURN + SILENT + "    loss.backward()\n    loss_of(model(batch)).backward()\n    opt.step()\n",
        TURN + SILENT + "    loss.backward()\n    train_on(model, batch)\n    opt.step()\n",
        TURN + SILENT.replace("model.no_sync()", "model.no_sync() if i % 4 else nullcontext()") + BACKWARD,
        TURN + SILENT.replace("no_sync", "eval") + BACKWARD,
        TURN + "    if i % 4:\n    " + SILENT.replace("\n", "\n    ") + "\n" + BACKWARD,
        TURN + SILENT + "    loss.backward()\n",
        TURN + SILENT + "    loss.backward()\n    for p in model.parameters():\n        dist.all_reduce(p.grad)\n    opt.step()\n",
        AVERAGE + TURN + SILENT + BACKWARD + "    average(model)\n",
        OTHER + TURN + SILENT.replace("loss_of(", "critic(") + BACKWARD,
        OTHER.replace("critic", "critic, more").replace("())", "()), 1") + TURN + SILENT.replace("loss_of", "critic") + BACKWARD,
        ENTERING + TURN + SILENT.replace("model.no_sync()", "quiet(i % 4 != 3)") + BACKWARD,
        QUIET + TURN + SILENT.replace("model.no_sync()", "quiet(i % 4 != 3)") + BACKWARD,
        ACCELERATED.format(inside="loss = net(batch)", outside="accelerator.backward(loss)"),
        CLASS.format(first="not last", loss="out.mean()"),
        CLASS.format(first="", loss="self.parts['head'](out)"),
    ],
)  # fmt: skip
def test_a_forward_pass_outside_or_another_exchange(text: str) -> None:
    assert lines(text) == []
