"""Nonsense in: a ValueError that names the setting, or an estimate of finite numbers, never NaN or a crash."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, isfinite, nan

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dtlint
from dtlint.cost import Estimate, estimate
from dtlint.plan import Misfit, Plan, parse, vocabulary
from dtlint.value import Plain, Unknown, Value
from dtlint.value import given as told

RUN: dict[str, Plain] = {
    "framework": "megatron",
    "cluster.gpu": "A100-SXM-80GB",
    "cluster.gpus_per_node": 8,
    "parallel.world_size": 16,
    "parallel.tensor": 2,
    "parallel.pipeline": 2,
    "model.layers": 24,
    "model.hidden": 2048,
    "model.heads": 16,
    "model.vocab": 50304,
    "data.sequence_length": 2048,
    "batch.micro": 1,
    "batch.global": 64,
    "precision.compute": "bf16",
}

NUMBERS = [-1, 0, 1, 2, 3, 7, 0.5, 1e-300, 2**63, 10**15, -(10**15), 10**30, 1e300, nan, inf, -inf]
values = st.sampled_from([*NUMBERS, True, False, "", "x", "nan", (), (0,), ("a", 3)])


@st.composite
def changes(draw: st.DrawFn) -> dict[str, Plain]:
    """One to three settings of the vocabulary with any value, or one of their words."""
    names = draw(st.lists(st.sampled_from(sorted(vocabulary())), min_size=1, max_size=3, unique=True))
    return {name: draw(values | st.sampled_from(vocabulary()[name].values or (1,))) for name in names}


MANY = settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@MANY
@given(changes())
def test_nonsense_is_named_or_priced(changed: dict[str, Plain]) -> None:
    try:
        found = dtlint.estimate(Plan.of({**RUN, **changed}))
    except ValueError as error:
        assert any(name in str(error) for name in {**RUN, **changed})
    else:
        assert_finite(found)


@MANY
@given(changes())
def test_nonsense_in_a_file_stops_no_check(changed: dict[str, Plain]) -> None:
    """What a file holds is not refused: the estimate is unknown then, and says why."""
    found = estimate(Plan({name: told(value) for name, value in {**RUN, **changed}.items()}))
    assert_finite(found)


@MANY
@given(changes())
def test_set_takes_no_nonsense(changed: dict[str, Plain]) -> None:
    for name, value in changed.items():
        try:
            found = parse(name, str(value))
        except ValueError as error:
            assert name in str(error)
        else:
            assert isinstance(found, Value)


def assert_finite(found: Estimate | Unknown) -> None:
    if isinstance(found, Unknown):
        assert found.reason
        return
    wrong = [(path, number) for path, number in numbers(found) if not isfinite(number) or number < 0]
    assert not wrong


def numbers(found: object, path: str = "") -> Iterator[tuple[str, float]]:
    """Every number of an estimate with the way to it."""
    if isinstance(found, (int, float)) and not isinstance(found, bool):
        yield path, found
    elif isinstance(found, dict):
        for key, each in found.items():
            yield from numbers(each, f"{path}.{key}")
    elif isinstance(found, tuple):
        for index, each in enumerate(found):
            yield from numbers(each, f"{path}[{index}]")


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"parallel.world_size": 10**15}, "parallel.world_size"),
        ({"parallel.world_size": 0}, "parallel.world_size"),
        ({"parallel.world_size": -8}, "parallel.world_size"),
        ({"parallel.world_size": 15}, "parallel.world_size"),
        ({"parallel.data": 3}, "parallel.data"),
        ({"parallel.expert": 3, "model.experts": 6}, "parallel.expert"),
        ({"model.experts": 2, "model.experts_per_token": 4}, "model.experts_per_token"),
        ({"parallel.stage_layers": ("12", "13")}, "parallel.stage_layers"),
        ({"batch.accumulation": 5}, "batch.accumulation"),
        ({"cluster.usd_per_gpu_hour": nan}, "cluster.usd_per_gpu_hour"),
        ({"cluster.gpu_memory_gib": 0}, "cluster.gpu_memory_gib"),
        ({"cluster.internode_gbit_per_s": inf}, "cluster.internode_gbit_per_s"),
        ({"batch.micro": 0.5}, "batch.micro"),
    ],
)
def test_the_setting_at_fault_is_named(changed: dict[str, Plain], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        dtlint.estimate(Plan.of({**RUN, **changed}))


def test_what_is_missing_is_unknown_not_wrong() -> None:
    found = dtlint.estimate(Plan.of({"parallel.world_size": 8}))
    assert isinstance(found, Unknown)
    assert "model.layers" in found.reason


def test_misfits_are_value_errors() -> None:
    assert issubclass(Misfit, ValueError)
