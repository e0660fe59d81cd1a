"""What one change would save: priced as a whole other plan, and only where that plan certainly fits."""

from __future__ import annotations

from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtlint.facts import FactValue, fact
from dtlint.interval import Interval
from dtlint.plan import Plan
from dtlint.value import Plain, Unknown

Settings = dict[str, Plain]

MEGATRON: Settings = {
    "framework": "megatron",
    "parallel.world_size": 64,
    "parallel.tensor": 8,
    "parallel.sequence": True,
    "parallel.pipeline": 8,
    "parallel.virtual_pipeline": 1,
    "schedule.kind": "1f1b",
    "sharding.stage": 1,
    "model.layers": 96,
    "model.hidden": 8192,
    "model.heads": 64,
    "model.kv_heads": 64,
    "model.ffn": 32768,
    "model.vocab": 50304,
    "model.gated_mlp": False,
    "model.tied_embeddings": True,
    "data.sequence_length": 2048,
    "batch.micro": 1,
    "batch.global": 48,
    "precision.compute": "bf16",
    "checkpointing.activations": "none",
    "attention.flash": True,
    "overlap.gradients": True,
    "overlap.parameters": True,
    "cluster.gpu": "A100-SXM-80GB",
    "cluster.gpus_per_node": 8,
    "cluster.internode_gbit_per_s": 1600,
}

ZERO: Settings = {
    "framework": "deepspeed",
    "parallel.world_size": 8,
    "cluster.gpus_per_node": 8,
    "cluster.gpu": "A100-SXM-80GB",
    "model.name": "meta-llama/Llama-2-7b-hf",
    "data.sequence_length": 2048,
    "batch.micro": 1,
    "batch.accumulation": 16,
    "precision.compute": "bf16",
    "sharding.stage": 2,
    "overlap.gradients": True,
    "checkpointing.activations": "full",
    "attention.flash": True,
}


def of(plan: Settings, fact_name: str, changes: Settings | None = None) -> FactValue:
    return fact(Plan.of({**plan, **(changes or {})}), fact_name)


def low(value: FactValue) -> float:
    assert not isinstance(value, Unknown), value
    return value.low if isinstance(value, Interval) else float(cast("float", value))


def test_an_optimizer_on_the_host_costs_where_it_would_fit_on_the_gpu() -> None:
    assert low(of(ZERO, "saving.no_offload", {"sharding.offload_optimizer": "cpu"})) > 0.05


def test_nothing_is_saved_where_nothing_is_offloaded() -> None:
    assert of(ZERO, "saving.no_offload") == 0.0


def test_an_offload_that_memory_needs_saves_nothing() -> None:
    large: Settings = {"model.name": "meta-llama/Llama-2-70b-hf", "sharding.stage": 3}
    assert of(ZERO, "saving.no_offload", {"sharding.offload_optimizer": "cpu", **large}) == 0.0


def test_a_plan_that_runs_out_of_memory_has_nothing_to_save() -> None:
    too_large: Settings = {"model.name": "meta-llama/Llama-2-70b-hf", "sharding.stage": 2}
    assert of(ZERO, "memory.overflows", too_large) is True
    assert of(ZERO, "saving.lower_stage", too_large) == 0.0


def test_parameters_stay_on_the_gpu_below_stage_3() -> None:
    """70B in bf16 are 138 GB: what stage 3 keeps on the host does not fit at stage 2, whatever is offloaded there."""
    large: Settings = {"model.name": "meta-llama/Llama-2-70b-hf", "sharding.offload_optimizer": "cpu"}
    hosted: Settings = {**large, "sharding.stage": 3, "sharding.offload_parameters": "cpu"}
    assert of(ZERO, "memory.overflows", hosted) is False
    assert of(ZERO, "sharding.enough_stage", hosted) == 3
    assert of(ZERO, "memory.overflows", {**hosted, "sharding.stage": 2}) is True


def test_a_small_model_with_parameters_on_the_host_needs_no_stage_3() -> None:
    hosted: Settings = {"sharding.offload_optimizer": "cpu", "sharding.offload_parameters": "cpu", "sharding.stage": 3}
    assert of(ZERO, "sharding.enough_stage", {"model.name": "meta-llama/Llama-3.2-3B", **hosted}) != 3


def test_a_plan_that_does_not_start_has_nothing_to_save() -> None:
    broken: Settings = {"model.heads": 60, "checkpointing.activations": "full"}
    assert of(MEGATRON, "saving.less_recompute", broken) == 0.0


def test_stage_2_exchanges_gradients_for_each_micro_batch() -> None:
    small: Settings = {"model.name": "meta-llama/Llama-3.2-3B", "data.sequence_length": 512}
    assert of(ZERO, "sharding.enough_stage", small) == 1
    once = of(ZERO, "saving.lower_stage", {"batch.accumulation": 1, **small})
    often = of(ZERO, "saving.lower_stage", {"batch.accumulation": 16, **small})
    assert low(often) > low(once)


def test_recomputation_is_unneeded_where_all_activations_fit() -> None:
    full: Settings = {"checkpointing.activations": "full"}
    assert of(MEGATRON, "checkpointing.enough", full) == "none"
    assert 0.1 < low(of(MEGATRON, "saving.less_recompute", full)) < 0.5


def test_a_chosen_number_of_recomputed_layers_is_left_alone() -> None:
    chosen: Settings = {"checkpointing.activations": "full", "checkpointing.layers": 3}
    assert of(MEGATRON, "saving.less_recompute", chosen) == 0.0


def test_chunks_shorten_the_bubble() -> None:
    assert of(MEGATRON, "pipeline.chunks_to_interleave") == 3
    assert low(of(MEGATRON, "saving.interleaving")) > 0.03


def test_chunks_into_which_the_layers_do_not_divide_are_not_proposed() -> None:
    assert of(MEGATRON, "pipeline.chunks_to_interleave", {"model.layers": 88}) == 1


def test_an_output_head_makes_the_last_stage_slow() -> None:
    small = of(MEGATRON, "pipeline.imbalance", {"model.vocab": 50304})
    large = of(MEGATRON, "pipeline.imbalance", {"model.vocab": 256000})
    assert 0 < low(small) < low(large) < 1


def test_an_uneven_cut_that_no_file_tells_is_unknown() -> None:
    assert isinstance(of(MEGATRON, "pipeline.imbalance", {"model.layers": 95}), Unknown)


def test_without_a_model_no_saving_is_known() -> None:
    plan = Plan.of({"framework": "deepspeed", "sharding.stage": 2, "sharding.offload_optimizer": "cpu"})
    assert isinstance(fact(plan, "saving.no_offload"), Unknown)


@pytest.mark.parametrize("stages", [2, 4, 8])
def test_a_ramp_starts_with_a_larger_bubble(stages: int) -> None:
    ramp: Settings = {"parallel.pipeline": stages, "batch.rampup": (8, 16, 24), "batch.global": 256}
    first, whole = of(MEGATRON, "pipeline.ramp_bubble", ramp), of(MEGATRON, "pipeline.bubble", ramp)
    assert low(first) > low(whole)


def test_a_batch_of_the_ramp_that_does_not_divide_is_named() -> None:
    assert of(MEGATRON, "batch.ramp_misfit", {"batch.micro": 2, "batch.rampup": (4, 7, 10)}) == 7
    assert of(MEGATRON, "batch.ramp_misfit", {"batch.micro": 2, "batch.rampup": (4, 8)}) == 0


def test_small_buckets_mean_many_collectives() -> None:
    usual: Settings = {"communication.bucket_bytes": 1e9, "precision.gradients": "bf16"}
    small: Settings = {"communication.bucket_bytes": 2e7, "precision.gradients": "bf16"}
    launches = "communication.bucket_launches"
    assert low(of(ZERO, launches, small)) > 10 * low(of(ZERO, launches, usual)) > 0


@pytest.mark.parametrize("size", [2, 40, 1000])
def test_no_bucket_cuts_a_tensor(size: int) -> None:
    buckets: Settings = {"communication.bucket_bytes": size, "precision.gradients": "bf16"}
    matrices, norms = 7 * 32 + 2, 2 * 32
    assert low(of(ZERO, "communication.bucket_launches", buckets)) == 16 * (matrices + norms)


def test_the_tensors_of_adapters_are_not_counted() -> None:
    buckets: Settings = {"communication.bucket_bytes": 2e5, "precision.gradients": "bf16", "model.lora_rank": 16}
    assert isinstance(of(ZERO, "communication.bucket_launches", buckets), Unknown)


def test_a_bucket_smaller_than_any_tensor_counts_for_a_small_model() -> None:
    small: Settings = {"model.name": "google-bert/bert-base-uncased", "data.sequence_length": 128, "batch.micro": 4}
    buckets: Settings = {"communication.bucket_bytes": 2e5, "precision.gradients": "bf16"}
    assert low(of(ZERO, "communication.bucket_share", {**buckets, **small})) > 0.02
    assert low(of(ZERO, "communication.bucket_share", buckets)) < 0.02


SAVINGS = (
    "saving.no_offload",
    "saving.lower_stage",
    "saving.less_recompute",
    "saving.larger_micro",
    "saving.kept_parameters",
)


@given(
    stage=st.integers(0, 3),
    micro=st.sampled_from([1, 2, 4]),
    offload=st.sampled_from(["none", "cpu"]),
    recomputation=st.sampled_from(["none", "full"]),
)
def test_savings_are_shares_and_never_losses(stage: int, micro: int, offload: str, recomputation: str) -> None:
    plan = Plan.of(
        {
            **ZERO,
            "sharding.stage": stage,
            "batch.micro": micro,
            "sharding.offload_optimizer": offload,
            "checkpointing.activations": recomputation,
        }
    )
    for name in SAVINGS:
        value = fact(plan, name)
        assert isinstance(value, Unknown) or 0 <= low(value) < 1


DDP: Settings = {
    **{name: value for name, value in ZERO.items() if name != "checkpointing.activations"},
    "framework": "ddp",
    "model.name": "gpt2-xl",
    "data.sequence_length": 1024,
    "batch.accumulation": 8,
    "sharding.stage": 0,
    "checkpointing.activations": "full",
    "precision.reduce": "fp32",
}


def seconds(settings: Settings, name: str) -> float:
    """A time that is the same for all that the plan leaves open, or the middle of its bounds."""
    found = fact(Plan.of(settings), name)
    return found.middle if isinstance(found, Interval) else cast("float", found)


def test_an_exchange_after_each_micro_batch_adds_seven_to_the_eighth() -> None:
    waiting, step = seconds(DDP, "step.exposed_data_seconds"), seconds(DDP, "step.seconds")
    found = seconds(DDP, "step.repeated_gradients_share")
    assert waiting > 0
    assert found == pytest.approx(7 * waiting / (7 * waiting + step), rel=0.05)
    assert seconds(DDP, "step.repeated_gradients_seconds") == pytest.approx(7 * waiting)


@pytest.mark.parametrize("change", [{"batch.accumulation": 1}, {"sharding.stage": 2, "framework": "fsdp"}])
def test_nothing_is_exchanged_again_without_accumulation_or_by_ranks_that_keep_a_part(change: Settings) -> None:
    assert isinstance(fact(Plan.of({**DDP, **change}), "step.repeated_gradients_share"), Unknown)


def test_a_fourth_exchange_adds_a_third_of_what_three_keep_waiting() -> None:
    sharded: Settings = {**ZERO, "sharding.stage": 3, "overlap.gradients": False, "overlap.parameters": False}
    share = seconds(sharded, "step.exposed_data_seconds") / seconds(sharded, "step.seconds")
    assert seconds(sharded, "step.fourth_exchange_share") == pytest.approx(share / (3 + share), rel=0.05)


def test_what_overlaps_nothing_takes_what_is_hidden_today() -> None:
    """The step without overlap lasts longer by just the hidden part, contention left aside."""
    shown: Settings = {**DDP, "overlap.gradients": False}
    longer, step = seconds(shown, "step.seconds"), seconds(DDP, "step.seconds")
    assert longer > step
    assert seconds(DDP, "step.hidden_data_share") == pytest.approx(1 - step / longer, rel=0.05)


BUCKETS: Settings = {
    "framework": "deepspeed",
    "sharding.stage": 2,
    "overlap.gradients": True,
    "communication.bucket_bytes": 1e9,
    "communication.whole_buckets": True,
}


@pytest.mark.parametrize(
    ("changes", "allocated"),
    [
        ({}, 2e9),
        ({"overlap.gradients": False}, 1e9),
        ({"communication.whole_buckets": False}, 0),
        ({"sharding.stage": 3}, 0),
    ],
)
def test_reduce_buckets_are_allocated_whole_however_small_the_model_is(changes: Settings, allocated: float) -> None:
    assert of(BUCKETS, "memory.whole_buckets_bytes", {"model.parameters": 1e8, **changes}) == allocated
