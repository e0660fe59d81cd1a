"""Which samples each rank sees."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler

from semantics import Fact

_SAMPLES = list(range(6))


def _epochs(tell: bool) -> str:
    """Whether two epochs of one sampler come in the same order."""
    sampler = DistributedSampler(_SAMPLES, seed=1)
    orders = []
    for epoch in range(2):
        if tell:
            sampler.set_epoch(epoch)
        orders.append(list(sampler))
    return "the same order" if orders[0] == orders[1] else "another order"


def epochs_untold() -> str:
    """Two epochs of a DistributedSampler without `set_epoch`."""
    return _epochs(tell=False)


def epochs_told() -> str:
    """Two epochs with `set_epoch(epoch)`."""
    return _epochs(tell=True)


def _read(loader: DataLoader[int]) -> list[int]:
    return [int(item) for batch in loader for item in batch]


def plain_loader() -> str:
    """`DataLoader(data)` of six samples: what this rank reads."""
    return str(_read(DataLoader(_SAMPLES, batch_size=2)))


def shuffled_with_one_seed() -> str:
    """`DataLoader(data, shuffle=True)` after `torch.manual_seed(0)`: does this rank read what rank 0 reads?"""
    torch.manual_seed(0)
    mine = torch.tensor(_read(DataLoader(_SAMPLES, batch_size=2, shuffle=True)))
    first = mine.clone()
    dist.broadcast(first, src=0)
    return f"{len(mine)} samples, {'the same batches' if torch.equal(mine, first) else 'other batches'}"


def shuffled_with_own_seed() -> str:
    """The same after `torch.manual_seed(rank)`."""
    torch.manual_seed(dist.get_rank())
    return f"{len(_read(DataLoader(_SAMPLES, batch_size=2, shuffle=True)))} samples"


def sampled_loader() -> str:
    """`DataLoader(data, sampler=DistributedSampler(data, shuffle=False))`."""
    return str(_read(DataLoader(_SAMPLES, batch_size=1, sampler=DistributedSampler(_SAMPLES, shuffle=False))))


def sampler_and_shuffle() -> str:
    """`DataLoader(data, shuffle=True, sampler=DistributedSampler(data))`."""
    DataLoader(_SAMPLES, shuffle=True, sampler=DistributedSampler(_SAMPLES))
    return "ends"


def sampler_pads() -> str:
    """A DistributedSampler over five samples: how many this rank draws."""
    return str(len(list(DistributedSampler(_SAMPLES[:5]))))


def sampler_drops() -> str:
    """The same with `drop_last=True`."""
    return str(len(list(DistributedSampler(_SAMPLES[:5], drop_last=True))))


def slices_by_rank() -> str:
    """`data[rank::world_size]` of five samples."""
    return str(len(_SAMPLES[:5][dist.get_rank() :: dist.get_world_size()]))


def sampler_spans_the_world() -> str:
    """Both ranks form one tensor-parallel group, and a DistributedSampler is built without num_replicas."""
    return str(list(DistributedSampler(_SAMPLES[:4], shuffle=False)))


FACTS = (
    Fact(
        epochs_untold,
        "A DistributedSampler that is not told the epoch shuffles alike in each",
        ("sampler-set-epoch-missing",),
        ("the same order", "the same order"),
    ),
    Fact(
        epochs_told,
        "Told the epoch, it shuffles anew",
        ("sampler-set-epoch-missing",),
        ("another order", "another order"),
    ),
    Fact(
        plain_loader,
        "A loader without sampler gives every rank all samples in the same order",
        ("sampler-missing",),
        ("[0, 1, 2, 3, 4, 5]", "[0, 1, 2, 3, 4, 5]"),
    ),
    Fact(
        shuffled_with_one_seed,
        "One that shuffles after the same seed gives every rank the same batches",
        ("sampler-missing",),
        ("6 samples, the same batches", "6 samples, the same batches"),
    ),
    Fact(
        shuffled_with_own_seed,
        "With a seed of its own each rank still goes through all samples",
        ("sampler-missing",),
        ("6 samples", "6 samples"),
    ),
    Fact(
        sampled_loader,
        "A DistributedSampler gives each rank its share",
        ("sampler-missing",),
        ("[0, 2, 4]", "[1, 3, 5]"),
    ),
    Fact(
        sampler_and_shuffle,
        "A sampler and shuffle=True exclude each other",
        ("sampler-missing",),
        ("ValueError", "ValueError"),
    ),
    Fact(
        sampler_spans_the_world,
        "A DistributedSampler deals to all ranks, whatever model parallelism they stand in",
        ("sampler-missing",),
        ("[0, 2]", "[1, 3]"),
    ),
    Fact(sampler_pads, "A DistributedSampler pads to equal shares", ("uneven-batches",), ("3", "3")),
    Fact(sampler_drops, "With drop_last it cuts to equal shares", ("uneven-batches",), ("2", "2")),
    Fact(slices_by_rank, "A slice by rank leaves shares that differ by one", ("uneven-batches",), ("3", "2")),
)
