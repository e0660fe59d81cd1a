"""What DistributedDataParallel does with gradients."""

from __future__ import annotations

from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from semantics import Fact
from semantics.pair import WAITS
from semantics.small import gradient, own_batch, shown, weight_model


def ddp_averages() -> str:
    """`DDP(model)(x).sum().backward()`, then the gradient."""
    model = DistributedDataParallel(weight_model())
    model(own_batch()).sum().backward()
    return gradient(model)


def loss_divided_by_ranks() -> str:
    """The same with `loss / world_size`."""
    model = DistributedDataParallel(weight_model())
    (model(own_batch()).sum() / dist.get_world_size()).backward()
    return gradient(model)


def loss_divided_by_summed_count() -> str:
    """The same with the loss divided by a count (1 a rank) that all_reduce has summed."""
    model, count = DistributedDataParallel(weight_model()), torch.ones(1)
    dist.all_reduce(count)
    (model(own_batch()).sum() / count).backward()
    return gradient(model)


def loss_times_ranks() -> str:
    """The same with `loss * world_size`."""
    model = DistributedDataParallel(weight_model())
    (model(own_batch()).mean() * dist.get_world_size()).backward()
    return gradient(model)


def gradient_divided_by_hand() -> str:
    """The same, then `p.grad /= world_size`."""
    model = DistributedDataParallel(weight_model())
    model(own_batch()).sum().backward()
    for parameter in model.parameters():
        parameter.grad /= dist.get_world_size()
    return gradient(model)


def inner_module_is_called() -> str:
    """`model.module(x).sum().backward()` of a DDP model."""
    model = DistributedDataParallel(weight_model())
    model.module(own_batch()).sum().backward()
    return gradient(model)


def unwrapped_name_is_called() -> str:
    """`ddp = DDP(net)`, then `net(x).sum().backward()`."""
    net = weight_model()
    wrapped = DistributedDataParallel(net)
    net(own_batch()).sum().backward()
    return gradient(wrapped)


def synced_on_last_of_two() -> str:
    """Two micro-batches, the first within `no_sync()`: forward and backward both inside."""
    model = DistributedDataParallel(weight_model())
    with model.no_sync():
        model(own_batch()).sum().backward()
    model(own_batch()).sum().backward()
    return gradient(model)


def synced_on_first_of_two() -> str:
    """Two micro-batches, the second within `no_sync()`."""
    model = DistributedDataParallel(weight_model())
    model(own_batch()).sum().backward()
    with model.no_sync():
        model(own_batch()).sum().backward()
    return gradient(model)


def no_sync_around_both() -> str:
    """One micro-batch, forward and backward within `no_sync()`."""
    model = DistributedDataParallel(weight_model())
    with model.no_sync():
        model(own_batch()).sum().backward()
    return gradient(model)


def no_sync_around_backward() -> str:
    """One micro-batch, the backward pass alone within `no_sync()`."""
    model = DistributedDataParallel(weight_model())
    loss = model(own_batch()).sum()
    with model.no_sync():
        loss.backward()
    return gradient(model)


def no_sync_around_forward() -> str:
    """One micro-batch, the forward pass alone within `no_sync()`."""
    model = DistributedDataParallel(weight_model())
    with model.no_sync():
        loss = model(own_batch()).sum()
    loss.backward()
    return gradient(model)


def flag_before_forward() -> str:
    """`require_backward_grad_sync = False` ahead of the forward pass."""
    model = DistributedDataParallel(weight_model())
    model.require_backward_grad_sync = False
    model(own_batch()).sum().backward()
    return gradient(model)


def flag_after_forward() -> str:
    """`require_backward_grad_sync = False` between the forward and the backward pass."""
    model = DistributedDataParallel(weight_model())
    loss = model(own_batch()).sum()
    model.require_backward_grad_sync = False
    loss.backward()
    return gradient(model)


def accumulated_without_no_sync() -> str:
    """Four micro-batches without `no_sync()`; a hook counts the exchanges."""
    return _exchanges(inside=0)


def accumulated_with_no_sync() -> str:
    """Four micro-batches, three of them within `no_sync()`."""
    return _exchanges(inside=3)


def _exchanges(inside: int) -> str:
    model = DistributedDataParallel(weight_model())
    seen = _counted_exchanges(model)
    with model.no_sync():
        for _ in range(inside):
            model(own_batch()).sum().backward()
    for _ in range(4 - inside):
        model(own_batch()).sum().backward()
    return shown(len(seen))


def _counted_exchanges(model: DistributedDataParallel) -> list[int]:
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

    seen: list[int] = []

    def counted(state: object, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
        seen.append(bucket.index())
        return allreduce_hook(dist.group.WORLD, bucket)

    counted.__annotations__.clear()  # torch compares them with its classes, and here they are text
    model.register_comm_hook(None, counted)
    return seen


def moved_after_wrapping() -> str:
    """`model.double(); model.float()` after DDP, which stands for a move to another device and back."""
    model = DistributedDataParallel(weight_model())
    model.double()
    model.float()
    model(own_batch()).sum().backward()
    return gradient(model)


def parameters_start_equal() -> str:
    """The weight is the rank before DDP wraps the model; the weight after."""
    model = DistributedDataParallel(weight_model(float(dist.get_rank())))
    return shown(model.module.weight)


def parameters_by_hand_start_apart() -> str:
    """`torch.manual_seed(rank)`, a model without wrapper, gradients averaged by hand: is the weight that of rank 0?"""
    torch.manual_seed(dist.get_rank())
    return _equals_first(nn.Linear(1, 1, bias=False))


def unseeded_start_apart() -> str:
    """The same without a seed, in two fresh interpreters."""
    import subprocess
    import sys

    text = "import torch; print(torch.initial_seed())"
    seed = int(subprocess.run([sys.executable, "-c", text], capture_output=True, check=True, text=True).stdout)
    torch.manual_seed(seed)
    return _equals_first(nn.Linear(1, 1, bias=False))


def same_seed_starts_equal() -> str:
    """The same with one seed on both ranks."""
    torch.manual_seed(7)
    return _equals_first(nn.Linear(1, 1, bias=False))


def _equals_first(model: nn.Linear) -> str:
    first = model.weight.detach().clone()
    dist.broadcast(first, src=0)
    return "as on rank 0" if torch.equal(first, model.weight) else "another"


def buffers_follow_first_rank() -> str:
    """A buffer that holds the rank, in a DDP model, after one forward pass."""
    model = weight_model()
    model.register_buffer("seen", torch.tensor([float(dist.get_rank())]))
    wrapped = DistributedDataParallel(model)
    wrapped.module.seen.fill_(dist.get_rank() + 10)
    wrapped(own_batch())
    return shown(wrapped.module.seen)


def uneven_batches() -> str:
    """Rank 0 has three batches, rank 1 two."""
    model = DistributedDataParallel(weight_model())
    for _ in range(3 - dist.get_rank()):
        model(own_batch()).sum().backward()
    return "ends"


def uneven_batches_joined() -> str:
    """The same within `with Join([model])`."""
    model = DistributedDataParallel(weight_model())
    with Join([model]):
        for _ in range(3 - dist.get_rank()):
            model(own_batch()).sum().backward()
    return "ends"


def rank_leaves_the_loop() -> str:
    """Rank 1 breaks out of the loop after its first step, rank 0 goes on."""
    model = DistributedDataParallel(weight_model())
    for step in range(2):
        if step == 1 and dist.get_rank() == 1:
            break
        model(own_batch()).sum().backward()
    return "ends"


def _recomputed(reentrant: bool) -> nn.Module:
    """A layer that is recomputed in the backward pass, behind one that is not."""
    first, second = nn.Linear(2, 2), nn.Linear(2, 2)
    second.forward = partial(checkpoint, second.forward, use_reentrant=reentrant)
    return nn.Sequential(first, second)


def unused_search_with_reentrant() -> str:
    """`find_unused_parameters=True` and `checkpoint(use_reentrant=True)`."""
    model = DistributedDataParallel(_recomputed(reentrant=True), find_unused_parameters=True)
    model(torch.ones(1, 2)).sum().backward()
    return "ends"


def unused_search_without_reentrant() -> str:
    """`find_unused_parameters=True` and `checkpoint(use_reentrant=False)`."""
    model = DistributedDataParallel(_recomputed(reentrant=False), find_unused_parameters=True)
    model(torch.ones(1, 2)).sum().backward()
    return "ends"


def static_graph_with_reentrant() -> str:
    """`static_graph=True` and `checkpoint(use_reentrant=True)`."""
    model = DistributedDataParallel(_recomputed(reentrant=True), static_graph=True)
    model(torch.ones(1, 2)).sum().backward()
    return "ends"


_BYPASS = "DDP arms its exchange in its own forward(): through the inner module every rank keeps its own gradient"
_MANUAL = "Without a wrapper nothing makes the ranks start from the same weights"
FACTS = (
    Fact(
        ddp_averages,
        "DDP leaves the mean of the ranks' gradients on each rank",
        ("allreduce-not-averaged", "grad-double-averaged", "grad-overscaled"),
        ("1.5", "1.5"),
    ),
    Fact(
        loss_divided_by_ranks,
        "A loss that is divided by the number of ranks is averaged twice",
        ("grad-double-averaged",),
        ("0.75", "0.75"),
    ),
    Fact(
        loss_divided_by_summed_count,
        "A loss that is divided by a sum over the ranks is averaged twice",
        ("grad-double-averaged",),
        ("0.75", "0.75"),
    ),
    Fact(
        gradient_divided_by_hand,
        "Gradients that are divided after DDP are averaged twice",
        ("grad-double-averaged",),
        ("0.75", "0.75"),
    ),
    Fact(
        loss_times_ranks,
        "A mean loss times the number of ranks takes DDP's division back: the sum of the ranks' gradients is left",
        ("grad-overscaled",),
        ("3", "3"),
    ),
    Fact(inner_module_is_called, _BYPASS, ("ddp-bypassed",), ("1", "2")),
    Fact(unwrapped_name_is_called, _BYPASS, ("ddp-bypassed",), ("1", "2")),
    Fact(
        synced_on_last_of_two,
        "no_sync on all but the last micro-batch gives the mean of the sums",
        ("grad-sync-wrong-microstep",),
        ("3", "3"),
    ),
    Fact(
        synced_on_first_of_two,
        "An exchange on the first micro-batch leaves another gradient on each rank, and no error",
        ("grad-sync-wrong-microstep",),
        ("2.5", "3.5"),
    ),
    Fact(
        no_sync_around_both,
        "no_sync around the forward and the backward pass exchanges nothing",
        ("no-sync-ineffective",),
        ("1", "2"),
    ),
    Fact(
        no_sync_around_forward,
        "no_sync around the forward pass alone exchanges nothing either",
        ("no-sync-ineffective",),
        ("1", "2"),
    ),
    Fact(
        no_sync_around_backward,
        "no_sync around the backward pass alone has no effect: DDP has decided in the forward pass",
        ("no-sync-ineffective",),
        ("1.5", "1.5"),
    ),
    Fact(
        flag_before_forward,
        "require_backward_grad_sync is read in the forward pass",
        ("grad-sync-flag-after-forward",),
        ("1", "2"),
    ),
    Fact(
        flag_after_forward,
        "require_backward_grad_sync that is set after the forward pass has no effect",
        ("grad-sync-flag-after-forward",),
        ("1.5", "1.5"),
    ),
    Fact(
        accumulated_without_no_sync,
        "Four micro-batches without no_sync are four exchanges",
        ("ddp-no-sync-missing",),
        ("4", "4"),
    ),
    Fact(
        accumulated_with_no_sync,
        "Four micro-batches with no_sync around three are one exchange",
        ("ddp-no-sync-missing",),
        ("1", "1"),
    ),
    Fact(
        moved_after_wrapping,
        "Parameters that are moved after wrapping lose the hooks of the exchange, and no error says so",
        ("ddp-moved-after-wrap",),
        ("1", "2"),
    ),
    Fact(
        parameters_start_equal,
        "DDP sends rank 0's weights to all ranks when it wraps the model",
        ("unsynced-init",),
        ("0", "0"),
    ),
    Fact(parameters_by_hand_start_apart, _MANUAL, ("unsynced-init",), ("as on rank 0", "another")),
    Fact(
        unseeded_start_apart,
        "Processes without a seed draw different weights: torch takes a random one for each",
        ("unsynced-init",),
        ("as on rank 0", "another"),
    ),
    Fact(
        same_seed_starts_equal,
        "Ranks that take one seed start from the same weights",
        ("unsynced-init",),
        ("as on rank 0", "as on rank 0"),
    ),
    Fact(
        buffers_follow_first_rank,
        "DDP sends rank 0's buffers to all ranks in each forward pass",
        ("unsynced-init",),
        ("10", "10"),
    ),
    Fact(
        uneven_batches,
        "A rank with a batch more than another waits in the exchange of that batch",
        ("uneven-batches", "rank-divergent-control-flow"),
        (WAITS, "ends"),
    ),
    Fact(
        uneven_batches_joined,
        "Join answers the exchanges of the ranks that have more batches",
        ("uneven-batches",),
        ("ends", "ends"),
    ),
    Fact(
        rank_leaves_the_loop,
        "A rank that leaves the loop before the others leaves them waiting",
        ("rank-divergent-control-flow",),
        (WAITS, "ends"),
    ),
    Fact(
        unused_search_with_reentrant,
        "The search for unused parameters does not bear reentrant recomputation",
        ("ddp-find-unused-with-checkpoint",),
        ("RuntimeError", "RuntimeError"),
    ),
    Fact(
        unused_search_without_reentrant,
        "It bears recomputation that is not reentrant",
        ("ddp-find-unused-with-checkpoint",),
        ("ends", "ends"),
    ),
    Fact(
        static_graph_with_reentrant,
        "A static graph bears reentrant recomputation",
        ("ddp-find-unused-with-checkpoint",),
        ("ends", "ends"),
    ),
)
