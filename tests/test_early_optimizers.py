"""An optimizer that is built before FSDP replaces the parameters, in one function or through functions of the program."""

from __future__ import annotations

import pytest

from dtlint.frameworks import Member
from dtlint.frameworks.code.early_optimizers import early_optimizers
from dtlint.languages.python import link, read_module
from dtlint.source import Source
from dtlint.value import Value

HEAD = """
import torch
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import fully_shard
from parts import Net, optimizer_of, policy, wrap
"""
PARTS = """
import torch
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

def groups_of(net, decay):
    kept = [p for name, p in net.named_parameters() if p.requires_grad]
    return [{"params": kept, "weight_decay": decay}]

def optimizer_of(net, rate):
    made = torch.optim.AdamW(groups_of(net, 0.1), lr=rate)
    return made

def wrap(net):
    return FSDP(net, auto_wrap_policy=policy)
"""
TRAINER = """
class Trainer:
    def __init__(self):
        self.net = Net()
        self.{first}()
        self.{second}()
    def shard(self):
        for block in self.net.blocks:
            fully_shard(block)
        fully_shard(self.net)
    def optimize(self):
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=1e-3)
trainer = Trainer()
"""


def told(text: str) -> list[str]:
    """What the members point at, on one line."""
    files = {"train.py": HEAD + text, "parts.py": PARTS}
    program = link({path: read_module(Source(path, source)) for path, source in files.items()})
    return [member.place.text.partition("(")[0] for member in early_optimizers(program) if is_sure(member)]


def is_sure(member: Member) -> bool:
    sure = member.fields["sure"]
    return isinstance(sure, Value) and sure.value is True


@pytest.mark.parametrize(
    "text",
    [
        "def main():\n    net = Net()\n    opt = optimizer_of(net, 1e-3)\n    net = wrap(net)\nmain()\n",
        "def build():\n    net = Net()\n    opt = optimizer_of(net, 1e-3)\n    return net, opt\n"
        "model, opt = build()\nmodel = wrap(model)\n",
        TRAINER.format(first="optimize", second="shard"),
        "class Trainer:\n    def __init__(self):\n        self.net = Net()\n        self.opt = optimizer_of(self.net, 1e-3)\n"
        "    def shard(self):\n        fully_shard(self.net)\ntrainer = Trainer()\ntrainer.shard()\n",
        "net = Net()\ndecay, other = [], []\nfor name, p in net.named_parameters():\n"
        "    (decay if p.ndim > 1 else other).append(p)\n"
        "opt = torch.optim.AdamW([{'params': decay}, {'params': other}])\nfully_shard(net)\n",
    ],
    ids=["functions", "built together", "methods", "another method", "lists that a loop fills"],
)
def test_an_optimizer_holds_the_old_parameters(text: str) -> None:
    assert told(text) == ["torch.optim.AdamW"]


@pytest.mark.parametrize(
    "text",
    [
        "def main():\n    net = Net()\n    net = wrap(net)\n    opt = optimizer_of(net, 1e-3)\nmain()\n",
        "def main():\n    net = Net()\n    opt = optimizer_of(net, 1e-3)\n    net = wrap(net)\n"
        "    opt = optimizer_of(net, 1e-3)\nmain()\n",
        "def main():\n    net, old = Net(), Net()\n    opt = optimizer_of(net, 1e-3)\n    old = wrap(old)\nmain()\n",
        "def build():\n    net = wrap(Net())\n    opt = optimizer_of(net, 1e-3)\n    return net, opt\nmodel, opt = build()\n",
        "def shard(net, on):\n    if on:\n        fully_shard(net)\n"
        "net = Net()\nopt = optimizer_of(net, 1e-3)\nshard(net, args.shard)\n",
        TRAINER.format(first="shard", second="optimize"),
        "net = Net()\nopt = torch.optim.AdamW(others_of(net))\nfully_shard(net)\n",
    ],
    ids=["wrapped first", "built anew", "another model", "together", "under a condition", "methods", "unread function"],
)
def test_an_optimizer_holds_what_is_trained_or_may(text: str) -> None:
    assert told(text) == []


NOW = "net = Net()\nopt = optimizer_of(net, 1e-3)\nkind = 'fsdp'\n"
OPEN = NOW.replace("'fsdp'", "input()")
IF_FSDP = "if kind == 'fsdp':\n    net = FSDP(net)\nelse:\n    net = DDP(net)\n"
BY_KIND = "def shard(net, kind):\n    if kind == 'fsdp':\n        return FSDP(net)\n    return net\n"


@pytest.mark.parametrize(
    ("text", "sure"),
    [
        (NOW + IF_FSDP, True),
        (OPEN + IF_FSDP, False),
        (BY_KIND + NOW + "net = shard(net, kind)\n", True),
        (BY_KIND + OPEN + "net = shard(net, kind)\n", False),
        (OPEN + "if not torch.cuda.is_available():\n    raise SystemExit(1)\nnet = FSDP(net)\n", True),
        (OPEN + "opt = Logged(opt)\n" + IF_FSDP + "opt = Counted(opt)\n", False),
        (
            "net, kind = Net(), input()\nif kind == 'fsdp':\n    opt = optimizer_of(net, 1e-3)\n"
            "if kind == 'fsdp':\n    net = FSDP(net)\n",
            True,
        ),
        (OPEN + IF_FSDP + "if kind != 'fsdp':\n    pass\nelif kind == 'a':\n    opt.zero_grad()\n", False),
        (OPEN + IF_FSDP.replace("DDP(net)\n", "DDP(net)\n    opt = optimizer_of(net, 1e-3)\n"), False),
    ],
)
def test_a_model_that_some_runs_wrap(text: str, sure: bool) -> None:
    files = {"train.py": HEAD + text, "parts.py": PARTS}
    found = early_optimizers(link({path: read_module(Source(path, source)) for path, source in files.items()}))
    assert [is_sure(member) for member in found] == [sure]


@pytest.mark.parametrize(
    "text",
    [
        NOW + IF_FSDP.replace("else", "    opt = optimizer_of(net, 1e-3)\nelse"),
        NOW + IF_FSDP + "opt = optimizer_of(net, 1e-3)\n",
        NOW + IF_FSDP + "opt = unread(net)\n",
        NOW + "sharded = FSDP(net)\nopt = optimizer_of(sharded, 1e-3)\n",
        NOW + IF_FSDP + "if kind == 'fsdp':\n    opt = unread(net)\n",
        NOW + IF_FSDP + "opt.param_groups.clear()\nopt.add_param_group({'params': net.parameters()})\n",
        "net, kind = Net(), input()\nif kind == 'ddp':\n    opt = optimizer_of(net, 1e-3)\n"
        "if kind == 'fsdp':\n    net = FSDP(net)\n    opt = optimizer_of(net, 1e-3)\n",
        NOW + IF_FSDP.replace("FSDP(net)", "FSDP(net, use_orig_params=True)"),
        NOW.replace("fsdp", "ddp") + IF_FSDP,
    ],
)
def test_an_optimizer_that_runs_which_wrap_build_behind_it(text: str) -> None:
    assert told(text) == []
