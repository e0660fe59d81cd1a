"""Main memory of a machine: what loading and offloading need of it."""

from __future__ import annotations

import pytest

from dtlint.facts import fact
from dtlint.plan import Plan
from dtlint.value import Plain, Unknown

BASE: dict[str, Plain] = {
    "model.parameters": 10_000_000_000,
    "parallel.world_size": 16,
    "launch.nodes": 2,
    "launch.processes_per_node": 8,
}


def told(name: str, **settings: Plain) -> object:
    return fact(Plan.of({**BASE, **{key.replace("__", "."): value for key, value in settings.items()}}), name)


@pytest.mark.parametrize(("which", "copies"), [("all", 8), ("first", 1), ("none", 0)])
def test_copies_of_the_checkpoint_on_one_machine(which: str, copies: int) -> None:
    assert told("host.copies", loading__whole_copies=which) == copies


def test_who_loads_is_not_guessed() -> None:
    assert isinstance(told("host.copies"), Unknown)


def test_an_offloaded_optimizer_takes_16_bytes_a_parameter_over_the_machines() -> None:
    settings: dict[str, Plain] = {"framework": "deepspeed", "precision__compute": "bf16", "sharding__stage": 2}
    found = told("host.offloaded_bytes", sharding__offload_optimizer="cpu", **settings)
    assert found == pytest.approx(16 * 10e9 / 2)


def test_offloaded_weights_of_stage_three_come_on_top() -> None:
    settings: dict[str, Plain] = {"framework": "deepspeed", "precision__compute": "bf16", "sharding__stage": 3}
    offload: dict[str, Plain] = {"sharding__offload_optimizer": "cpu", "sharding__offload_parameters": "cpu"}
    assert told("host.offloaded_bytes", **offload, **settings) == pytest.approx(18 * 10e9 / 2)


def test_fsdp_keeps_fp32_weights_gradients_and_moments() -> None:
    offload: dict[str, Plain] = {"sharding__offload_optimizer": "cpu", "sharding__offload_parameters": "cpu"}
    found = told("host.offloaded_bytes", framework="fsdp", sharding__stage=3, precision__compute="bf16", **offload)
    assert found == pytest.approx(16 * 10e9 / 2)


def test_nothing_offloaded_takes_nothing() -> None:
    assert told("host.offloaded_bytes", framework="fsdp", sharding__stage=3) == 0
