"""Estimates of whole plans: what must hold whatever the numbers are."""

from __future__ import annotations

import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dtlint.cost import Estimate, Point, estimate
from dtlint.plan import Plan
from dtlint.value import Plain, Unknown, assumed
from dtlint.value import given as told

SEVENTY: dict[str, Plain] = {
    "framework": "megatron",
    "model.layers": 80,
    "model.hidden": 8192,
    "model.ffn": 28672,
    "model.heads": 64,
    "model.kv_heads": 8,
    "model.vocab": 32000,
    "model.gated_mlp": True,
    "model.tied_embeddings": False,
    "data.sequence_length": 4096,
    "cluster.gpu": "H100-SXM-80GB",
    "cluster.gpus_per_node": 8,
    "cluster.internode_gbit_per_s": 3200,
    "parallel.world_size": 64,
    "parallel.tensor": 8,
    "parallel.pipeline": 2,
    "parallel.sequence": True,
    "sharding.stage": 1,
    "batch.micro": 1,
    "batch.global": 256,
    "precision.compute": "bf16",
    "checkpointing.activations": "none",
    "attention.flash": True,
    "overlap.gradients": True,
    "overlap.parameters": True,
    "overlap.tensor": False,
    "overlap.pipeline": False,
}


def estimated(**changes: Plain) -> Estimate:
    named = {name.replace("__", "."): value for name, value in changes.items()}
    found = estimate(Plan.of({**SEVENTY, **named}))
    assert isinstance(found, Estimate), found
    return found


@pytest.mark.parametrize(
    ("name", "matters", "idle"),
    [
        ("cluster.internode_gbit_per_s", {"parallel.world_size": 64}, {"parallel.world_size": 8}),
        ("overlap.pipeline", {"parallel.pipeline": 4, "parallel.virtual_pipeline": 2}, {"parallel.pipeline": 4}),
        ("overlap.tensor", {"parallel.tensor": 8}, {"parallel.tensor": 1}),
    ],
)
def test_an_open_setting_is_assumed_where_the_cost_rests_on_it(
    name: str, matters: dict[str, Plain], idle: dict[str, Plain]
) -> None:
    rest = {setting: value for setting, value in SEVENTY.items() if setting != name}
    for changes, named in ((matters, True), (idle, False)):
        found = estimate(Plan.of({**rest, "parallel.tensor": 2, "parallel.pipeline": 1, **changes}))
        assert isinstance(found, Estimate), found
        assert (name in found.assumed) is named


def test_every_part_of_memory_is_named_and_their_sum_is_the_peak() -> None:
    memory = estimated().memory
    assert sum(memory.parts.values()) == pytest.approx(memory.peak_bytes)
    assert memory.peak_bytes <= memory.reserved_bytes <= memory.device_bytes
    assert memory.states_bytes == sum(memory.parts[name] for name in ("weights", "gradients", "optimizer"))


def test_the_parts_of_a_step_add_up() -> None:
    found = estimated()
    assert found.step.total == pytest.approx(found.step_seconds)
    tokens = 256 * 4096
    assert found.tokens_per_second_per_gpu == pytest.approx(tokens / found.step_seconds / 64)


def test_utilisation_lies_between_nothing_and_the_data_sheet() -> None:
    assert 0.2 < estimated().mfu < 0.7


def test_recomputing_every_layer_computes_a_third_more() -> None:
    """Forward, backward with its two products, and the forward again: 4/3 of the products."""
    wide = {"parallel__tensor": 1, "parallel__pipeline": 4}
    plain, again = estimated(**wide), estimated(**wide, checkpointing__activations="full")
    assert again.step.compute / plain.step.compute == pytest.approx(4 / 3, abs=0.08)
    assert again.memory.parts["activations"] < plain.memory.parts["activations"] / 5


def test_tensor_parallelism_across_nodes_costs_more() -> None:
    inside = estimated(parallel__tensor=8, parallel__pipeline=2)
    across = estimated(parallel__tensor=16, parallel__pipeline=1)
    assert across.step.tensor > 2 * inside.step.tensor


def test_the_bubble_shrinks_with_more_microbatches() -> None:
    few, many = estimated(batch__global=16), estimated(batch__global=1024)
    assert few.step.bubble / few.step_seconds > 0.1
    assert many.step.bubble / many.step_seconds < 0.02


def test_sequence_parallelism_saves_activations_and_no_time_is_lost() -> None:
    without, with_it = estimated(parallel__sequence=False), estimated()
    assert with_it.memory.parts["activations"] < without.memory.parts["activations"]


def test_an_open_network_makes_an_interval() -> None:
    told = {name: value for name, value in SEVENTY.items() if name != "cluster.internode_gbit_per_s"}
    found = estimate(Plan.of({**told, "parallel.tensor": 4, "parallel.pipeline": 1}))
    assert isinstance(found, Estimate)
    assert found.low.step_seconds <= found.step_seconds < found.high.step_seconds
    assert "cluster.internode_gbit_per_s" in found.assumed


def test_without_a_shape_there_is_no_estimate() -> None:
    found = estimate(Plan.of({"parallel.world_size": 8, "cluster.gpu": "H100"}))
    assert isinstance(found, Unknown)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"parallel.data": 3}, "parallel.data"),
        ({"parallel.world_size": 60}, "parallel.world_size"),
    ],
)
def test_a_contradiction_is_named(changes: dict[str, Plain], word: str) -> None:
    found = estimate(Plan.of({**SEVENTY, **changes}))
    assert isinstance(found, Unknown)
    assert word in found.reason


def test_lora_trains_little_and_holds_the_model() -> None:
    whole, adapters = estimated(), estimated(model__lora_rank=16, model__trainable_parameters=200_000_000)
    assert adapters.memory.parts["optimizer"] < whole.memory.parts["optimizer"] / 10
    assert adapters.memory.parts["weights"] == pytest.approx(whole.memory.parts["weights"], rel=0.05)


def test_offloaded_states_are_on_the_host() -> None:
    kept = estimated(framework="deepspeed", parallel__tensor=1, parallel__pipeline=1, sharding__stage=3)
    moved = estimated(
        framework="deepspeed",
        parallel__tensor=1,
        parallel__pipeline=1,
        sharding__stage=3,
        sharding__offload_optimizer="cpu",
    )
    assert (moved.memory.parts["optimizer"], moved.memory.parts["gradients"]) == (0, 0)
    on_the_gpu = kept.memory.parts["optimizer"] + kept.memory.parts["gradients"]
    assert moved.memory.host_bytes == pytest.approx(on_the_gpu)
    assert moved.step_seconds > kept.step_seconds


powers = st.sampled_from([1, 2, 4, 8])
frameworks = st.sampled_from(["megatron", "deepspeed", "megatron-deepspeed", "fsdp", "torchtitan", "ddp", "pytorch"])
QUICK = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def plans(draw: st.DrawFn) -> dict[str, Plain]:
    tensor, pipeline, data = draw(powers), draw(powers), draw(powers)
    layers = draw(st.sampled_from([8, 24, 32, 80]))
    hidden = draw(st.sampled_from([1024, 4096, 8192]))
    return {
        "framework": draw(frameworks),
        "model.layers": layers,
        "model.hidden": hidden,
        "model.ffn": 4 * hidden,
        "model.heads": hidden // 64,
        "model.vocab": 50304,
        "data.sequence_length": draw(st.sampled_from([512, 2048, 8192])),
        "cluster.gpu": draw(st.sampled_from(["V100", "A100", "H100", "B200-SXM-180GB", "MI300X", "L40S"])),
        "cluster.gpus_per_node": 8,
        "parallel.world_size": tensor * pipeline * data,
        "parallel.tensor": tensor,
        "parallel.pipeline": pipeline,
        "sharding.stage": draw(st.sampled_from([0, 1, 2, 3])),
        "batch.micro": draw(st.sampled_from([1, 2, 8])),
        "batch.accumulation": draw(st.sampled_from([1, 4, 32])),
    }


def priced(told: dict[str, Plain]) -> Estimate:
    found = estimate(Plan.of(told))
    assert isinstance(found, Estimate), found
    return found


def numbers(point: Point) -> list[float]:
    return [*point.memory[1:], *point.memory.parts.values(), *point.step[:-1], *point[2:]]


@given(plans())
@QUICK
def test_every_number_is_finite_and_the_middle_lies_between_the_ends(told: dict[str, Plain]) -> None:
    found = priced(told)
    assert all(math.isfinite(number) and number >= 0 for number in numbers(found.middle))
    for low, middle, high in zip(numbers(found.low), numbers(found.middle), numbers(found.high), strict=True):
        assert low <= middle * (1 + 1e-9)
        assert middle <= high * (1 + 1e-9)


@given(plans())
@QUICK
def test_more_gpus_never_need_more_memory(told: dict[str, Plain]) -> None:
    world = told["parallel.world_size"]
    assert isinstance(world, int)
    more = priced({**told, "parallel.world_size": 2 * world})
    assert more.memory.states_bytes <= priced(told).memory.states_bytes * (1 + 1e-9)


@given(plans())
@QUICK
def test_a_higher_stage_never_raises_the_states(told: dict[str, Plain]) -> None:
    held = [
        priced({**told, "framework": "deepspeed", "sharding.stage": stage}).memory.states_bytes for stage in range(4)
    ]
    assert held == sorted(held, reverse=True)


@given(plans(), st.sampled_from([100, 400, 1600]))
@QUICK
def test_a_faster_network_never_slows_a_step(told: dict[str, Plain], rate: int) -> None:
    slow = priced({**told, "cluster.gpus_per_node": 4, "cluster.internode_gbit_per_s": rate})
    fast = priced({**told, "cluster.gpus_per_node": 4, "cluster.internode_gbit_per_s": 2 * rate})
    assert fast.step_seconds <= slow.step_seconds * (1 + 1e-9)


@given(plans())
@QUICK
def test_more_samples_at_once_never_need_less_memory(told: dict[str, Plain]) -> None:
    one, two = priced({**told, "batch.micro": 1}), priced({**told, "batch.micro": 2})
    assert one.memory.peak_bytes <= two.memory.peak_bytes * (1 + 1e-9)


ODD: dict[str, list[Plain]] = {
    "parallel.order": [("a", "b"), ("data", "tensor"), ()],
    "parallel.stage_layers": [("1", "x"), ("40", "40"), ()],
    "parallel.expert": [3, 64],
    "parallel.expert_tensor": [5, 10**9],
    "model.experts": [1, 160],
    "model.kv_heads": [10**9],
    "model.vocab": [1],
    "model.lora_rank": [1],
    "batch.micro": [10**9],
    "data.sequence_length": [1, 10**9],
    "sharding.group": [10**9],
    "cluster.gpu": ["no such GPU"],
    "cluster.gpu_memory_gib": [0],
    "cluster.internode_gbit_per_s": [0, 1e-9, 1e12],
    "schedule.kind": ["gpipe", "zbv"],
    "schedule.microbatches": [10**9],
    "sharding.stage": [0, 1, 2, 3],
    "framework": ["nanotron", "ddp", "gpt-neox"],
    "precision.compute": ["fp32", "nvfp4", "fp16"],
    "optimizer.name": ["paged_adamw_8bit", "sgd", "?"],
}


@given(st.fixed_dictionaries({}, optional={name: st.sampled_from(values) for name, values in ODD.items()}))
@QUICK
def test_odd_settings_give_finite_numbers_or_a_reason(odd: dict[str, Plain]) -> None:
    found = estimate(Plan({name: told(value) for name, value in {**SEVENTY, **odd}.items()}))
    if isinstance(found, Unknown):
        assert found.reason
    else:
        assert all(math.isfinite(number) and number >= 0 for point in found.completions for number in numbers(point))


def test_a_shape_that_does_not_tell_the_parameters_gives_no_estimate() -> None:
    shape: dict[str, Plain] = {"model.layers": 4, "model.hidden": 256, "model.heads": 4}
    plan = Plan.of({"framework": "megatron", "parallel.world_size": 8, **shape})
    untold = plan.with_settings({"model.parameters": Unknown("some layers hold a state space", "--set")})
    assert isinstance(untold.get("model.parameters"), Unknown)
    found = estimate(untold)
    assert isinstance(found, Unknown) and found.reason == "some layers hold a state space"


@pytest.mark.parametrize("micro", [4, 32])
def test_an_interval_holds_what_is_assumed(micro: int) -> None:
    """A default that the caller may replace (16 samples at once) is one of the values that the plan may have."""
    plan = Plan.of({**SEVENTY, "batch.global": 2048})
    found = estimate(plan.with_settings({"batch.micro": assumed(micro, "the caller may set it")}))
    whole = estimate(Plan.of({**SEVENTY, "batch.global": 2048, "batch.micro": micro}))
    assert isinstance(found, Estimate) and isinstance(whole, Estimate)
    low, high = (each.memory.device_bytes for each in (found.low, found.high))
    assert low <= whole.low.memory.device_bytes <= whole.high.memory.device_bytes <= high
