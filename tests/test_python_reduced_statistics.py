"""Statistics of a loss that are averaged over the ranks without gradients, where DDP averages once more."""

from __future__ import annotations

import pytest

from dtlint.frameworks import code
from dtlint.languages.python import link, read_module
from dtlint.source import Source

HEAD = """
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from net import Net, batches, opt

def scaled(x):
    return (x - x.mean(0)) / x.std(0)

class Correlation(nn.Module):
    def __init__(self, everywhere=True):
        super().__init__()
        self.everywhere = everywhere

    def forward(self, a, b):
        {made}
        {summed}
        return {loss}

model = DDP(Net().cuda())
criterion = Correlation()
for x, y in batches:
    {used}
    loss.backward()
    opt.step()
"""
CALLED = "a, b = model(torch.cat([x, y])).chunk(2)\n    loss = criterion(a, b)"
MADE = "c = scaled(a).t() @ scaled(b) / len(a)"
SUMMED = "c = c / dist.get_world_size()\n        dist.all_reduce(c)"
LOSS = "(torch.diagonal(c) - 1).pow(2).sum()"


def lines(made: str = MADE, summed: str = SUMMED, loss: str = LOSS, used: str = CALLED) -> list[int]:
    text = HEAD.format(made=made, summed=summed, loss=loss, used=used)
    program = link({"train.py": read_module(Source("train.py", text))})
    found = code.collections(program).get("code.averaged_losses", ())
    return [text[: member.place.start].count("\n") + 1 for member in found]


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({}, 19),
        ({"summed": "c /= dist.get_world_size()\n        dist.all_reduce(c)"}, 19),
        ({"summed": "c.div_(dist.get_world_size())\n        dist.all_reduce(c, op=dist.ReduceOp.SUM)"}, 19),
        ({"summed": "dist.all_reduce(c)\n        c = c / dist.get_world_size()"}, 20),
        ({"made": "c = torch.mm(a.T, b) / (len(a) * dist.get_world_size())", "summed": "dist.all_reduce(c)"}, 18),
        ({"made": "c = F.softmax(a, dim=-1).mean(dim=0)", "loss": "(c * torch.log(c)).sum()"}, 19),
        (
            {
                "summed": "if self.everywhere and dist.is_initialized():\n            world = dist.get_world_size()\n"
                "            if world > 1:\n                c = c / world\n                dist.all_reduce(c)"
            },
            22,
        ),
        ({"used": "out = model(x)\n    loss = 0.1 * criterion(out.first, out.second) + out.first.norm()"}, 19),
    ],
)
def test_a_statistic_that_is_averaged_without_gradients(changed: dict[str, str], line: int) -> None:
    assert lines(**changed) == [line]


@pytest.mark.parametrize(
    "changed",
    [
        {"summed": "dist.all_reduce(c, op=dist.ReduceOp.AVG)"},
        {"summed": "dist.all_reduce(c)"},
        {"summed": "import torch.distributed.nn\n        c = torch.distributed.nn.functional.all_reduce(c / 8)"},
        {"made": "c = (y > 0).float().mean()", "loss": "(a - b).pow(2).sum() / c"},
        {"made": "c = a.argmax(-1).eq(b.argmax(-1)).float().mean()", "loss": "(a - b).pow(2).sum() * c"},
        {"made": "c = torch.tensor(len(a))", "loss": "(a - b).pow(2).sum() / c"},
        {"made": "c = a.detach().mean(0)", "loss": "(a - c).pow(2).sum()"},
        {"summed": f"with torch.no_grad():\n            {SUMMED}".replace("\n        dist", "\n            dist")},
        {"summed": f"{SUMMED}\n        c = c * dist.get_world_size()"},
        {"summed": "c = c / dist.get_world_size()\n        dist.all_reduce(c, dist.ReduceOp.SUM, self.group_of_pairs)"},
        {"summed": "c = c / dist.get_world_size()\n        dist.all_reduce(c, dist.ReduceOp.SUM, self.pairs)"},
        {"used": CALLED.replace("criterion(a, b)", "criterion(a, b) * dist.get_world_size()")},
        {
            "used": f"{CALLED}\n    loss.backward()\n    [p.grad.mul_(dist.get_world_size()) for p in model.parameters()]"
        },
        {"loss": "(a - b).pow(2).sum()"},
        {"loss": "(a - b).pow(2).sum(), c"},
        {"used": "with torch.no_grad():\n        a, b = model(x), model(y)\n    loss = criterion(a, b)"},
        {"used": "loss = model(x).sum()\n    shown = criterion(model(x), model(y))"},
        {"used": "loss = criterion(x, y) + model(x).sum()"},
    ],
)
def test_a_statistic_whose_gradients_are_right_or_not_there(changed: dict[str, str]) -> None:
    assert lines(**changed) == []
