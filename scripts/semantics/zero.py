"""What DeepSpeed's engine does with gradients under ZeRO."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from torch import nn

from semantics import Fact
from semantics.pair import WAITS


def _engine(stage: int) -> nn.Module:
    os.environ["DS_ACCELERATOR"] = "cpu"
    import deepspeed

    config = {
        "train_micro_batch_size_per_gpu": 1,
        "optimizer": {"type": "SGD", "params": {"lr": 0.1}},
        "zero_optimization": {"stage": stage, "stage3_param_persistence_threshold": 0},
        "zero_allow_untested_optimizer": True,
    }
    model = nn.Linear(2, 2)
    return deepspeed.initialize(
        model=model, config=config, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), dist_init_required=False
    )[0]


def _no_sync(stage: int) -> str:
    engine = _engine(stage)
    with engine.no_sync():
        engine.backward(engine(torch.ones(1, 2)).sum())
    return "ends"


def no_sync_stage_1() -> str:
    """`with engine.no_sync()` under ZeRO-1."""
    return _no_sync(1)


def no_sync_stage_2() -> str:
    """`with engine.no_sync()` under ZeRO-2."""
    return _no_sync(2)


def no_sync_stage_3() -> str:
    """`with engine.no_sync()` under ZeRO-3."""
    return _no_sync(3)


def more_forward_passes_stage_3() -> str:
    """Rank 0 makes three forward passes under ZeRO-3, rank 1 two, as when one rank generates longer."""
    engine = _engine(3)
    with torch.no_grad():
        for _ in range(3 - dist.get_rank()):
            engine(torch.ones(1, 2))
    return "ends"


_REFUSED = ("AssertionError", "AssertionError")
FACTS = (
    Fact(no_sync_stage_1, "DeepSpeed's no_sync works under ZeRO-1", ("no-sync-with-zero",), ("ends", "ends")),
    Fact(no_sync_stage_2, "It refuses ZeRO-2, which reduces as it goes", ("no-sync-with-zero",), _REFUSED),
    Fact(no_sync_stage_3, "It refuses ZeRO-3", ("no-sync-with-zero",), _REFUSED),
    Fact(
        more_forward_passes_stage_3,
        "Under ZeRO-3 every forward pass gathers weights from all ranks",
        ("zero3-generate-unsynced",),
        (WAITS, "ends"),
    ),
)
