"""The cost model against published runs: how far it is off, and that it never calls a run that ran too big."""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import mean, median

import pytest

from dtlint.cost import Estimate, Memory, estimate

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from measured_runs import Run, measured_runs


@pytest.fixture(scope="module")
def estimates() -> list[tuple[Run, Estimate]]:
    found = [(run, estimate(run.plan)) for run in measured_runs()]
    return [(run, each) for run, each in found if isinstance(each, Estimate)]


def off(predicted: float, measured: float) -> float:
    return abs(predicted / measured - 1)


def predicted_memory(run: Run, memory: Memory) -> float:
    views = {"device": memory.device_bytes, "reserved": memory.reserved_bytes, "allocated": memory.peak_bytes}
    return views[run.memory_kind]


def test_every_run_has_an_estimate(estimates: list[tuple[Run, Estimate]]) -> None:
    assert len(estimates) == len(measured_runs())


def test_throughput_is_within_a_twelfth_for_half_of_the_runs(estimates: list[tuple[Run, Estimate]]) -> None:
    errors = [
        off(each.tokens_per_second_per_gpu, run.tokens_per_second_per_gpu)
        for run, each in estimates
        if run.tokens_per_second_per_gpu
    ]
    assert median(errors) < 0.08
    assert sorted(errors)[int(0.9 * len(errors))] < 0.30


def test_no_source_is_missed_by_more_than_a_quarter(estimates: list[tuple[Run, Estimate]]) -> None:
    by_source: dict[str, list[float]] = {}
    for run, each in estimates:
        if run.tokens_per_second_per_gpu:
            error = off(each.tokens_per_second_per_gpu, run.tokens_per_second_per_gpu)
            by_source.setdefault(run.source, []).append(error)
    medians = {source: median(errors) for source, errors in by_source.items()}
    assert max(medians.values()) < 0.25, medians
    assert mean(medians.values()) < 0.12


def test_memory_of_dense_models_is_within_a_twentieth_for_half_of_the_runs(
    estimates: list[tuple[Run, Estimate]],
) -> None:
    errors = [
        off(predicted_memory(run, each.memory), run.memory_bytes)
        for run, each in estimates
        if run.memory_bytes and not run.settings.get("model.experts")
    ]
    assert median(errors) < 0.05
    assert sorted(errors)[int(0.9 * len(errors))] < 0.15


def test_runs_that_ran_are_not_called_too_big(estimates: list[tuple[Run, Estimate]]) -> None:
    """Neither are two 8B models on single GPUs of 24 and 48 GB whose settings name no optimizer: it can't be Adam."""
    ran = [(run, each) for run, each in estimates if run.tokens_per_second_per_gpu]
    assert not [run for run, each in ran if each.low.memory.device_bytes > each.memory.available_bytes]


def test_most_runs_that_ran_out_of_memory_are_called_too_big(estimates: list[tuple[Run, Estimate]]) -> None:
    failed = [each for run, each in estimates if run.memory_kind == "out of memory"]
    too_big = [each for each in failed if each.low.memory.device_bytes > each.memory.available_bytes]
    assert len(failed) == 6
    assert len(too_big) >= 4
