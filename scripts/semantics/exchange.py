"""What the collectives of torch.distributed do."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

from semantics import Fact
from semantics.pair import WAITS
from semantics.small import gradient, own_batch, shown, weight_model


def all_reduce_sums() -> str:
    """`dist.all_reduce(p.grad)` of gradients 1 and 2."""
    model = weight_model()
    model(own_batch()).sum().backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    return gradient(model)


def all_reduce_then_divide() -> str:
    """The same, then `p.grad /= world_size`."""
    model = weight_model()
    model(own_batch()).sum().backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()
    return gradient(model)


def collective_of_first_rank() -> str:
    """`if rank == 0: dist.all_reduce(x)`."""
    if dist.get_rank() == 0:
        dist.all_reduce(torch.ones(1))
    return "ends"


def barriers_that_pair() -> str:
    """`if rank != 0: barrier()`, then `if rank == 0: barrier()`."""
    if dist.get_rank() != 0:
        dist.barrier()
    if dist.get_rank() == 0:
        dist.barrier()
    return "ends"


def _features() -> tuple[Tensor, Tensor]:
    """A weight of 1 on each rank, and the feature that it makes of the rank's batch: 1 and 2."""
    weight = torch.ones(1, requires_grad=True)
    return weight, weight * own_batch().view(1)


def _averaged(weight: Tensor) -> str:
    """The gradient of the weight as DDP would leave it."""
    assert weight.grad is not None
    dist.all_reduce(weight.grad)
    return shown(weight.grad / dist.get_world_size())


def local_loss_plain_gather() -> str:
    """Each rank's loss is its feature times the other's, which `dist.all_gather` brought."""
    weight, feature = _features()
    gathered = [torch.zeros(1) for _ in range(2)]
    dist.all_gather(gathered, feature.detach())
    (feature * gathered[1 - dist.get_rank()]).sum().backward()
    return _averaged(weight)


def local_loss_gather_with_gradient() -> str:
    """The same with `torch.distributed.nn.functional.all_gather`, which carries gradients."""
    from torch.distributed.nn.functional import all_gather

    weight, feature = _features()
    gathered = all_gather(feature)
    (feature * gathered[1 - dist.get_rank()]).sum().backward()
    return _averaged(weight)


def gathered_feature_has_no_gradient() -> str:
    """Whether what `dist.all_gather` brings asks for gradients, given a feature that does."""
    _, feature = _features()
    gathered = [torch.zeros(1) for _ in range(2)]
    dist.all_gather(gathered, feature)
    return str(any(item.requires_grad for item in gathered))


FACTS = (
    Fact(all_reduce_sums, "all_reduce adds unless it is told otherwise", ("allreduce-not-averaged",), ("3", "3")),
    Fact(
        all_reduce_then_divide,
        "The sum divided by the number of ranks is the mean that DDP leaves",
        ("allreduce-not-averaged",),
        ("1.5", "1.5"),
    ),
    Fact(
        collective_of_first_rank,
        "A collective that one rank calls waits for the others",
        ("collective-rank-guarded",),
        (WAITS, "ends"),
    ),
    Fact(
        barriers_that_pair,
        "A barrier under one condition and one under the opposite are the same barrier",
        ("collective-rank-guarded",),
        ("ends", "ends"),
    ),
    Fact(
        gathered_feature_has_no_gradient,
        "What all_gather brings carries no gradient",
        ("local-loss-needs-grad-gather",),
        ("False", "False"),
    ),
    Fact(
        local_loss_plain_gather,
        "A local loss over features from all_gather lacks what the other ranks' losses send back: with the loss w1*w2 "
        "on each rank the averaged gradient is 2 in place of 4",
        ("local-loss-needs-grad-gather",),
        ("2", "2"),
    ),
    Fact(
        local_loss_gather_with_gradient,
        "A gather that carries gradients sends them back: 4",
        ("local-loss-needs-grad-gather",),
        ("4", "4"),
    ),
)
