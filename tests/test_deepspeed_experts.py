"""DeepSpeed's layers of experts in a program: how many experts, and over how many ranks."""

from pathlib import Path

import pytest

from dtlint.api import check
from dtlint.runs import Options, read_runs

PROGRAM = """import deepspeed
import torch
from deepspeed.moe.layer import MoE

{layers}
engine, *_ = deepspeed.initialize(model=net, model_parameters=net.parameters(), config="ds.json")
engine.step()
"""
EXPERT = "torch.nn.Linear(64, 64)"


def write(tree, layers: str, ranks: int = 8) -> None:
    tree(
        {
            "train.py": PROGRAM.format(layers=layers),
            "ds.json": '{"train_micro_batch_size_per_gpu": 4, "bf16": {"enabled": true}}',
            "run.sh": f"deepspeed --num_gpus {ranks} train.py\n",
        }
    )


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        (f"net = MoE(64, {EXPERT}, 8, 4)", (8, 4)),
        (f"net = MoE(hidden_size=64, expert={EXPERT}, num_experts=8)", (8, 1)),
        (f"net = torch.nn.Sequential(MoE(64, {EXPERT}, 8, 2), MoE(64, {EXPERT}, 8, 2))", (8, 2)),
        (f"net = torch.nn.Sequential(MoE(64, {EXPERT}, 8, 2), MoE(64, {EXPERT}, 16, 2))", (None, 2)),
        (f"net = MoE(64, {EXPERT}, **settings)", (None, None)),
        (f"net = {EXPERT}", (None, 1)),
    ],
)
def test_what_all_layers_agree_on_is_known(tree, layers, expected):
    write(tree, layers)
    plan = read_runs([Path("run.sh")], Options()).runs[0].plan
    assert (plan.integer("model.experts"), plan.integer("parallel.expert")) == expected


def rules(layers: str, tree, ranks: int) -> set[str]:
    write(tree, layers, ranks)
    return {finding.rule for finding in check(["run.sh"]).findings if finding.severity == "error"}


@pytest.mark.parametrize(
    ("experts", "width", "ranks", "expected"),
    [
        (6, 4, 8, {"ep-not-divisible"}),
        (16, 8, 4, {"world-size-mismatch"}),
        (12, 3, 8, {"world-size-mismatch"}),
        (16, 8, 8, set()),
        (8, 2, 4, set()),
    ],
)
def test_experts_divide_over_ranks_and_ranks_over_the_world(tree, experts, width, ranks, expected):
    assert rules(f"net = MoE(64, {EXPERT}, num_experts={experts}, ep_size={width})", tree, ranks) == expected
