"""Models and batches of one weight, whose gradients are known by hand.

The loss is weight times input, so that the gradient is the input: 1 on rank 0 and 2 on rank 1, 1.5 on the average.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn


def weight_model(weight: float = 1.0) -> nn.Linear:
    """y = weight * x."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, weight)
    return model


def own_batch() -> Tensor:
    """1 on rank 0, 2 on rank 1."""
    return torch.tensor([[dist.get_rank() + 1.0]])


def shown(value: float | Tensor | None) -> str:
    """A number as the table prints it."""
    return "none" if value is None else f"{float(value):g}"


def gradient(model: nn.Module) -> str:
    """The gradient of the one weight."""
    return shown(next(model.parameters()).grad)
