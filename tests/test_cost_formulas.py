"""The formulas of the cost model, each with its arithmetic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtlint.cost import bubble, microbatches_for_bubble
from dtlint.cost.activations import in_flight
from dtlint.cost.communication import (
    Group,
    all_reduce_seconds,
    gather_seconds,
    nodes_spanned,
    ring_all_reduce_bytes,
    ring_all_reduce_steps,
)
from dtlint.cost.states import states_bytes_per_parameter

BILLION = 10**9


def test_a_ring_all_reduce_takes_two_rounds() -> None:
    assert ring_all_reduce_steps(8) == 14  # 2 x (8 - 1)
    assert ring_all_reduce_bytes(14 * BILLION, 8) == 24.5 * BILLION  # 2 x 14 GB x 7/8


@pytest.mark.parametrize(
    ("stage", "gigabytes"),
    [
        (0, 112.0),  # 7 x 16
        (1, 38.5),  # 7 x (4 + 12/8)
        (2, 26.25),  # 7 x (2 + 14/8)
        (3, 14.0),  # 7 x 16/8
    ],
)
def test_states_of_7_billion_parameters_over_8_gpus(stage: int, gigabytes: float) -> None:
    assert 7 * states_bytes_per_parameter(stage, 8) == gigabytes


def test_states_of_70_billion_parameters_at_stage_3_over_16_gpus_take_70_gb() -> None:
    assert 70 * states_bytes_per_parameter(3, 16) == 70.0  # 70 x 16 / 16


def test_megatron_keeps_fp32_gradients() -> None:
    assert states_bytes_per_parameter(0, 1, gradient=4.0) == 18.0  # 2 + 4 + 12
    assert states_bytes_per_parameter(1, 8, gradient=4.0) == 7.5  # 6 + 12/8


@pytest.mark.parametrize(
    ("stages", "microbatches", "chunks", "schedule", "idle"),
    [
        (8, 32, 1, "1f1b", 7 / 39),  # (P-1) / (M+P-1)
        (8, 32, 4, "interleaved", 7 / 135),  # (P-1) / (vM+P-1)
        (4, 1, 1, "gpipe", 3 / 4),
        (8, 32, 1, "zb1p", 7 / 103),  # (P-1) / (3M+P-1)
        (8, 32, 2, "zbv", 7 / 199),  # (P-1) / (6M+P-1)
        (1, 32, 1, "1f1b", 0.0),
    ],
)
def test_the_bubble(stages: int, microbatches: int, chunks: int, schedule: str, idle: float) -> None:
    assert bubble(stages, microbatches, chunks, schedule) == pytest.approx(idle)


def test_the_fewest_microbatches_for_a_bubble() -> None:
    assert microbatches_for_bubble(0.1, 8) == 63  # 7/(63+7) = 0.1
    assert bubble(8, 63) <= 0.1 < bubble(8, 62)


@pytest.mark.parametrize(
    ("stride", "size", "domain", "world", "nodes"),
    [
        (1, 8, 8, 64, 1),  # TP 8 in nodes of 8
        (1, 16, 8, 64, 2),  # TP 16 takes two nodes
        (1, 6, 8, 48, 2),  # TP 6: the second group lies on both
        (8, 2, 8, 16, 2),  # CP 2 beside TP 8 always crosses
        (4, 2, 8, 64, 1),  # CP 2 beside TP 4 stays inside
        (1, 16, 8, 8, 1),  # one node only
        (1, 4, 72, 256, 1),  # TP 4 in a rack of 72
        (4, 16, 72, 256, 2),  # DP 16 beside TP 4: 64 do not divide 72
    ],
)
def test_the_domains_that_a_group_touches(stride: int, size: int, domain: int, world: int, nodes: int) -> None:
    assert nodes_spanned(stride, size, domain, world) == nodes


@pytest.mark.parametrize(
    ("kind", "stage", "chunks", "held"),
    [
        ("gpipe", 0, 1, 32.0),  # all micro-batches
        ("1f1b", 0, 1, 8.0),  # as many as stages behind
        ("1f1b", 7, 1, 1.0),
        ("interleaved", 0, 4, 39 / 4),  # 2 x 7 + 3 x 8 + 1 chunks of a quarter
    ],
)
def test_microbatches_in_flight(kind: str, stage: int, chunks: int, held: float) -> None:
    assert in_flight(kind, stage, 8, 32, chunks) == held


def group(ranks: int, nodes: int) -> Group:
    return Group(ranks, ranks // nodes, nodes, 450e9, 50e9)


def test_a_link_between_nodes_is_a_ninth_of_nvlink() -> None:
    """450 GB/s of NVLink one way, 400 GB/s of eight NICs for eight GPUs: the ratio a GPU sees is 9."""
    size = 1e12
    inside, between = gather_seconds(size, group(2, 1)), gather_seconds(size, group(2, 2))
    assert between / inside == pytest.approx(9.0, rel=0.01)


def test_a_hierarchical_all_reduce_uses_the_nics_of_all_gpus() -> None:
    """Over four nodes of eight, each GPU's NIC carries an eighth of the bytes: far from a ring over single GPUs."""
    size = 1e11
    seconds = all_reduce_seconds(size, group(32, 4))
    assert seconds < 2 * size * 3 / 4 / 50e9 / 2
    assert seconds > 2 * size * 3 / 4 / (8 * 50e9)


@given(
    st.integers(1, 8),
    st.integers(2, 16),
    st.sampled_from((4, 8, 16, 72)),
    st.integers(1, 8),
)
def test_the_nodes_of_a_group_are_those_of_its_ranks(stride: int, size: int, domain: int, blocks: int) -> None:
    span = stride * size
    groups = (
        {(block * span + first + index * stride) // domain for index in range(size)}
        for block in range(blocks)
        for first in range(stride)
    )
    assert nodes_spanned(stride, size, domain, span * blocks) == max(map(len, groups))
