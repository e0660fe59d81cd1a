"""Main memory of a machine: what loading and offloading need of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtlint.facts import fact
from dtlint.interval import Interval
from dtlint.plan import Plan
from dtlint.runs import Options, read_runs
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


@pytest.mark.parametrize(("micro_batches", "least", "most"), [(1, 0.1, 0.9), (1000, 0.0, 0.02)])
def test_one_thread_costs_less_of_a_step_the_longer_that_is(micro_batches: int, least: float, most: float) -> None:
    settings: dict[str, Plain] = {
        "framework": "deepspeed",
        "frontend": "none",
        "cluster__gpu": "A100-SXM-80GB",
        "model__name": "meta-llama/Llama-2-7b-hf",
        "data__sequence_length": 2048,
        "batch__micro": 1,
        "batch__accumulation": micro_batches,
        "precision__compute": "bf16",
        "checkpointing__activations": "full",
        "sharding__stage": 2,
        "cluster__internode_gbit_per_s": 800,
    }
    share = told("host.one_thread_share", sharding__offload_optimizer="cpu", **settings)
    assert isinstance(share, Interval | float)
    assert least <= (share.low if isinstance(share, Interval) else share)
    assert (share.high if isinstance(share, Interval) else share) <= most


def test_an_optimizer_on_the_gpu_waits_for_no_thread() -> None:
    assert told("host.one_thread_share", sharding__offload_optimizer="none") == 0.0


@pytest.mark.parametrize(
    ("launcher", "threads", "longer"),
    [("torchrun", "", True), ("torchrun", "1", True), ("torchrun", "16", False), ("deepspeed", "", False)],
)
def test_what_waits_is_a_smaller_share_beside_an_optimizer_in_one_thread(
    tmp_path: Path, launcher: str, threads: str, longer: bool
) -> None:
    shares = {}
    start = {"torchrun": "torchrun --nproc_per_node 8", "deepspeed": "deepspeed --num_gpus 8"}[launcher]
    for each in (threads, "32"):
        setting = f"export OMP_NUM_THREADS={each}\n" if each else ""
        (tmp_path / "run.sh").write_text(
            f"{setting}{start} train.py --model_name_or_path meta-llama/Llama-2-7b-hf --output_dir out --bf16 "
            "--per_device_train_batch_size 1 --save_strategy no --deepspeed ds.json\n"
        )
        (tmp_path / "ds.json").write_text(
            '{"train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": "auto"}, "zero_optimization":'
            ' {"stage": 2, "overlap_comm": false, "offload_optimizer": {"device": "cpu"}}}'
        )
        share = fact(read_runs([tmp_path / "run.sh"], Options()).runs[0].plan, "step.exposed_data_share")
        assert isinstance(share, Interval)
        shares[each] = share.high
    assert (shares[threads] < shares["32"]) == longer
