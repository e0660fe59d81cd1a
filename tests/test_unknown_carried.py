"""What follows from a setting that is not known is not known itself, or lies in a range."""

from __future__ import annotations

import pytest

from dtlint.cost import sizes
from dtlint.facts import fact
from dtlint.interval import Interval
from dtlint.plan import Plan
from dtlint.value import Plain, Unknown, Value

BASE: dict[str, Plain] = {"framework": "deepspeed", "parallel.world_size": 8, "sharding.stage": 3}
SHAPE: dict[str, Plain] = {"model.layers": 32, "model.hidden": 4096, "batch.micro": 1, "data.sequence_length": 1024}
OPEN = Unknown("the program may set it", "--set ...")


@pytest.mark.parametrize(("compute", "frozen"), [("fp32", "fp32"), ("bf16", "bf16"), ("fp16", "bf16")])
def test_frozen_weights_are_stored_as_those_that_train_are_computed_with(compute: str, frozen: str) -> None:
    found = Plan.of({**BASE, "precision.compute": compute}).get("precision.frozen")
    assert isinstance(found, Value) and found.value == frozen


def test_how_frozen_weights_are_stored_is_unknown_where_the_compute_format_is() -> None:
    found = Plan.of({**BASE, "framework": "ddp"}).with_settings({"precision.compute": OPEN}).get("precision.frozen")
    assert isinstance(found, Unknown) and found.reason == OPEN.reason


def test_an_estimate_takes_the_frozen_weights_as_it_takes_the_others() -> None:
    plan = Plan.of({**BASE, **SHAPE, "model.lora_rank": 8}).with_settings({"precision.compute": OPEN})
    told = plan.with_settings(Plan.of({"precision.frozen": "bf16"}).settings)
    found, expected = sizes(plan), sizes(told)
    assert not isinstance(found, Unknown) and not isinstance(expected, Unknown)
    assert min(each.states_bytes for each in found.memories) == min(each.states_bytes for each in expected.memories)


@pytest.mark.parametrize(("frozen", "low"), [("nf4", 0.52), ("bf16", 2.0)])
def test_what_a_parameter_takes_is_a_range_where_the_part_that_trains_is_not_known(frozen: str, low: float) -> None:
    plan = Plan.of({**BASE, "precision.compute": "bf16", "precision.frozen": frozen})
    assert fact(plan.with_settings({"model.lora_rank": OPEN}), "memory.bytes_per_parameter") == Interval(low, 16.0)


def test_what_a_frozen_parameter_takes_beside_adapters_is_one_number() -> None:
    plan = Plan.of({**BASE, "precision.compute": "bf16", "precision.frozen": "nf4", "model.lora_rank": 8})
    assert fact(plan, "memory.bytes_per_parameter") == 0.52


def test_the_bytes_of_a_parameter_that_are_alike_in_every_format_are_one_number() -> None:
    plan = Plan.of(BASE).with_settings({"precision.compute": OPEN})
    assert fact(plan, "memory.bytes_per_parameter") == 16.0
    other = Plan.of({"framework": "megatron", "parallel.world_size": 8}).with_settings({"precision.compute": OPEN})
    assert isinstance(fact(other, "memory.bytes_per_parameter"), Interval)


def test_whether_recomputation_makes_it_fit_is_unknown_where_the_model_is() -> None:
    assert isinstance(fact(Plan.of(BASE), "memory.fits_with_checkpointing"), Unknown)
    told = Plan.of({**BASE, **SHAPE, "precision.compute": "bf16", "cluster.gpu_memory_gib": 80})
    assert fact(told, "memory.fits_with_checkpointing") is True
    small = told.with_settings(Plan.of({"cluster.gpu_memory_gib": 4}).settings)
    assert fact(small, "memory.fits_with_checkpointing") is False


def test_an_unknown_compute_format_may_be_fp32() -> None:
    plan = Plan.of({**BASE, **SHAPE, "framework": "ddp"}).with_settings({"precision.compute": OPEN})
    high = Plan.of({**BASE, **SHAPE, "framework": "ddp", "precision.compute": "fp32"})
    found, expected = sizes(plan), sizes(high)
    assert not isinstance(found, Unknown) and not isinstance(expected, Unknown)
    assert max(each.device_bytes for each in found.memories) == max(each.device_bytes for each in expected.memories)
