"""Collectives: which links a group of ranks uses, and how long it takes to move bytes over them."""

from __future__ import annotations

from functools import lru_cache
from math import ceil, log2

from dtlint.cost import constants
from dtlint.cost.figures import Layout, Machine
from dtlint.record import NamedTuple


class Group(NamedTuple):
    """Ranks that communicate: `inside` of them in one NVLink domain, over `nodes` domains; rates in bytes/s of one
    GPU, one direction.

    The rate between nodes is a GPU's share of all the node's NICs, for every GPU of the node communicates at the same
    time. An all-reduce is `switch_reduction` times faster where the switches add up.
    """

    ranks: int
    inside: int
    nodes: int
    intranode: float
    internode: float
    switch_reduction: float = 1.0


def ring_all_reduce_steps(ranks: int) -> int:
    """Steps of a ring all-reduce: 2(n-1), first to reduce and scatter, then to gather (Patarasuk and Yuan 2009)."""
    return 2 * (ranks - 1)


def ring_all_reduce_bytes(size: float, ranks: int) -> float:
    """Bytes that each rank sends in a ring all-reduce of `size` bytes: 2(n-1)/n * size (nccl-tests PERFORMANCE.md)."""
    return 2 * size * (ranks - 1) / ranks


def nodes_spanned(stride: int, size: int, domain: int, world: int) -> int:
    """NVLink domains that the worst group of an axis touches, ranks being numbered along the nodes.

    A group has ranks `stride` apart. None leaves its domain if `stride * size` divides the domain or the whole world
    lies in one.
    """
    span = stride * size
    if size == 1 or world <= domain or domain % span == 0:
        return 1
    if stride >= domain:
        return size
    if span % domain == 0:
        return span // domain
    starts = (block * span % domain for block in range(min(max(1, world // span), domain)))
    latest = min(domain - 1, max(starts) + stride - 1)
    return (latest + stride * (size - 1)) // domain + 1


def axis_stride(layout: Layout, axis: str) -> int:
    """Distance in ranks between neighbours of an axis: the product of the faster axes (experts have a grid of their
    own: ETP, EP, EDP, PP)."""
    if axis == "expert":
        return layout.expert_tensor
    stride = 1
    for faster in layout.order:
        if faster == axis:
            return stride
        if faster != "expert":
            stride *= axis_size(layout, faster)
    return stride


def axis_size(layout: Layout, axis: str) -> int:
    """Ranks along an axis."""
    return int(getattr(layout, axis))


@lru_cache(maxsize=1024)
def group_of(layout: Layout, machine: Machine, axis: str, size: int | None = None) -> Group:
    """The group of an axis (its first `size` ranks) with the links that the rank layout gives it."""
    ranks = axis_size(layout, axis) if size is None else size
    return group_at(layout, machine, axis_stride(layout, axis), ranks)


def group_at(layout: Layout, machine: Machine, stride: int, ranks: int) -> Group:
    """A group of ranks `stride` apart, with its links."""
    nodes = nodes_spanned(stride, ranks, machine.domain, layout.world)
    inside = ranks if nodes == 1 else max(1, min(ranks // nodes, machine.domain // stride))
    share = machine.internode / machine.per_node * constants.INTERNODE_SHARE
    switched = nodes == 1 and ranks >= constants.SWITCH_REDUCTION_RANKS
    gain = machine.family.switch_reduction if switched else 1.0
    return Group(ranks, inside, nodes, machine.intranode * constants.INTRANODE_SHARE, share, gain)


def data_group(layout: Layout, machine: Machine, ranks: int) -> Group:
    """The ranks that share a gradient: data parallel with context parallel, which lies inside of it."""
    stride = axis_stride(layout, "context") if layout.context > 1 else axis_stride(layout, "data")
    return group_at(layout, machine, stride, ranks)


def all_reduce_seconds(size: float, group: Group) -> float:
    """An all-reduce of `size` bytes on each rank: 2(g-1)/g inside the nodes beside 2(k-1)/k of each GPU's 1/g between
    them."""
    return _moving_seconds(2.0, size, group) / group.switch_reduction + 2 * tree_seconds(group)


def gather_seconds(size: float, group: Group, pieces: float = 1.0) -> float:
    """All-gathers that end with `size` bytes on each rank, or reduce-scatters that start with them, one for each of
    `pieces`."""
    return _moving_seconds(1.0, size, group) + pieces * ring_seconds(group)


def all_to_all_seconds(size: float, group: Group) -> float:
    """An all-to-all in which each rank sends `size` bytes in all: (k-1)/k of them leave the node, through the GPU's
    own share of the NICs."""
    if group.ranks <= 1 or size <= 0:
        return 0.0
    outside = (group.nodes - 1) / group.nodes
    within = size * (group.ranks - 1) / group.ranks * (1 - outside) / group.intranode
    return max(within, size * outside / group.internode) + tree_seconds(group)


def transfer_seconds(size: float, group: Group) -> float:
    """A message of `size` bytes from one rank to the next of the group."""
    if group.ranks <= 1:
        return 0.0
    rate = group.internode if group.nodes > 1 else group.intranode
    return size / rate + constants.COLLECTIVE_SECONDS


def _moving_seconds(passes: float, size: float, group: Group) -> float:
    if group.ranks <= 1 or size <= 0:
        return 0.0
    inside = passes * size * (group.inside - 1) / group.inside / group.intranode
    between = passes * size * (group.nodes - 1) / group.nodes / (group.inside * group.internode)
    return max(inside, between) + constants.LEVEL_LOSS * min(inside, between)


def ring_seconds(group: Group) -> float:
    """Latency of a ring over the group's ranks, in one direction: a step for each rank."""
    if group.ranks <= 1:
        return 0.0
    nodes = group.nodes if group.nodes > 1 else 0
    inside = constants.RING_STEP_INTRANODE * max(0, group.ranks - 1 - nodes)
    return constants.COLLECTIVE_SECONDS + inside + constants.RING_STEP_INTERNODE * nodes


def tree_seconds(group: Group) -> float:
    """Latency of a tree over the nodes with a chain inside each, in one direction: what an all-reduce of few bytes
    takes, twice."""
    if group.ranks <= 1:
        return 0.0
    inside = constants.RING_STEP_INTRANODE * (min(group.inside, 8) - 1)
    between = constants.RING_STEP_INTERNODE * ceil(log2(group.nodes))
    return constants.COLLECTIVE_SECONDS / 2 + inside + between
