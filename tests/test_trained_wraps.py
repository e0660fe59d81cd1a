"""Several wrapped models in one program: the plan is that of the one which an optimizer trains."""

from __future__ import annotations

import pytest
from python_texts import plain, program_of

from dtlint.frameworks.pytorch import ddp, fsdp

HEAD = """
import torch
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, ShardingStrategy as S, fully_shard
from torch.nn.parallel import DistributedDataParallel as DDP
from nets import Net, helper
"""
POLICY = "policy = FSDP(policy, sharding_strategy=S.SHARD_GRAD_OP)\n"
REFERENCE = "reference = FSDP(reference, sharding_strategy=S.FULL_SHARD)\n"
BUILT = "policy, reference = Net(), Net()\n"


def stage(text: str) -> object:
    claims = {claim.setting: plain(claim.value, "reason") for claim in fsdp.read(program_of(HEAD, text)).claims}
    return claims["sharding.stage"]


@pytest.mark.parametrize(
    "optimizer",
    [
        "optimizer = torch.optim.AdamW(policy.parameters())",
        "opt = getattr(torch.optim, name)(policy.parameters(), lr=1e-4)",
        "weights = [p for p in policy.parameters() if p.requires_grad]\noptimizer = helper(weights)",
        "def make(model):\n    return torch.optim.AdamW([{'params': model.parameters()}])\nmake(policy)",
        "loop = helper(torch.optim.SGD(policy.parameters()), reference)",
        "groups = helper(policy)\noptimizer = torch.optim.AdamW(groups)",
    ],
)
@pytest.mark.parametrize("wraps", [POLICY + REFERENCE, REFERENCE + POLICY], ids=["first", "last"])
def test_the_trained_one_is_that_of_the_optimizer(wraps: str, optimizer: str) -> None:
    assert stage(f"{BUILT}{wraps}{optimizer}\n") == 2


def test_a_method_of_the_class_below_may_make_the_optimizer() -> None:
    text = (
        "class Basic:\n    def train(self):\n        self.optimizer = torch.optim.AdamW(self.policy.parameters())\n"
        "class Sharded(Basic):\n    def __init__(self, policy, reference):\n"
        f"        self.{POLICY}        self.{REFERENCE}"
    )
    assert stage(text) == 2


@pytest.mark.parametrize(
    "optimizer",
    [
        "",
        "optimizer = helper(states)",
        "optimizer = torch.optim.AdamW([*policy.parameters(), *reference.parameters()])",
    ],
    ids=["none", "of something else", "both"],
)
def test_where_it_is_not_told_what_they_differ_in_is_unknown(optimizer: str) -> None:
    assert "wraps several models" in str(stage(f"{BUILT}{POLICY}{REFERENCE}{optimizer}\n"))


def test_what_they_agree_in_is_known() -> None:
    assert stage(f"{BUILT}{POLICY}{REFERENCE.replace('FULL_SHARD', 'SHARD_GRAD_OP')}") == 2


@pytest.mark.parametrize(
    "text",
    [
        "model = Net()\nif helper():\n    model = FSDP(model)\nelse:\n    model = FSDP(model, sharding_strategy=S.FULL_SHARD)",
        "net = Net()\nnet.head = FSDP(net.head, sharding_strategy=S.NO_SHARD)\n"
        "model = FSDP(net, sharding_strategy=S.FULL_SHARD)",
        "net = Net()\nfor block in net.blocks:\n    block = FSDP(block, sharding_strategy=S.NO_SHARD)\n"
        "model = FSDP(net, sharding_strategy=S.FULL_SHARD)",
    ],
    ids=["branches", "a part", "parts in a loop"],
)
def test_branches_and_parts_are_no_other_models(text: str) -> None:
    assert stage(text) == 3


def offloaded(text: str) -> object:
    claims = {claim.setting: plain(claim.value, "reason") for claim in fsdp.read(program_of(HEAD, text)).claims}
    return claims.get("sharding.reshard_after_forward"), claims.get("precision.compute")


def test_a_model_that_is_sharded_in_place() -> None:
    text = (
        "from torch.distributed.fsdp import MixedPrecisionPolicy as P\n"
        f"{BUILT}fully_shard(policy.head)\nfully_shard(policy, mp_policy=P(param_dtype=torch.bfloat16))\n"
        "fully_shard(reference)\noptimizer = torch.optim.AdamW(policy.parameters())\n"
    )
    assert offloaded(text) == (None, "bf16")


WRAPPED = """student, teacher = Net(), Net()
student = DDP(student, find_unused_parameters=True)
teacher = DDP(teacher)
"""


@pytest.mark.parametrize(
    ("text", "unused"),
    [
        (f"{WRAPPED}optimizer = torch.optim.SGD(helper(student))\n", True),
        (f"{WRAPPED}optimizer = torch.optim.SGD(teacher.parameters())\n", None),
        (WRAPPED, "the program wraps several models, whose find_unused_parameters differ"),
    ],
    ids=["student", "teacher", "not told"],
)
def test_models_of_ddp(text: str, unused: object) -> None:
    claims = {claim.setting: plain(claim.value, "reason") for claim in ddp.read(program_of(HEAD, text)).claims}
    found = claims.get("communication.find_unused")
    assert (found.removeprefix("?") if isinstance(found, str) else found) == unused
