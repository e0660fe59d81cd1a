"""Each part of an estimate, with its arithmetic: a small model that one can follow by hand."""

from __future__ import annotations

import pytest

from dtlint.cost import Estimate, constants, estimate
from dtlint.cost.activations import attention_kept, feed_forward_kept, layer_bytes, routed_kept, score_bytes
from dtlint.cost.communication import (
    Group,
    all_reduce_seconds,
    all_to_all_seconds,
    gather_seconds,
    group_of,
    ring_seconds,
    transfer_seconds,
)
from dtlint.cost.compute import attention, product_seconds, rates, streaming
from dtlint.cost.data_parallel import data_seconds
from dtlint.cost.estimate import operations_per_token
from dtlint.cost.figures import Job
from dtlint.cost.formats import moment_bytes
from dtlint.cost.job import Completed, complete
from dtlint.cost.memory import memory
from dtlint.cost.stages import Held, held, stages
from dtlint.cost.states import state_bytes
from dtlint.cost.step import Passes, step
from dtlint.facts import fact
from dtlint.plan import Plan
from dtlint.value import Plain

SMALL: dict[str, Plain] = {
    "framework": "megatron",
    "cluster.gpu": "A100-SXM-80GB",
    "cluster.gpus_per_node": 8,
    "cluster.internode_gbit_per_s": 1600,
    "parallel.world_size": 8,
    "parallel.tensor": 2,
    "parallel.pipeline": 1,
    "model.layers": 2,
    "model.hidden": 1024,
    "model.heads": 8,
    "model.kv_heads": 2,
    "model.ffn": 4096,
    "model.vocab": 51200,
    "model.gated_mlp": False,
    "model.tied_embeddings": False,
    "data.sequence_length": 1024,
    "batch.micro": 1,
    "batch.global": 8,
    "sharding.stage": 1,
    "precision.compute": "bf16",
    "checkpointing.activations": "none",
    "attention.flash": True,
    "overlap.gradients": False,
    "overlap.parameters": False,
    "overlap.tensor": False,
    "parallel.sequence": False,
}

LAYER = (1024 * 128 * (2 * 8 + 2 * 2) + 2 * 1024 * 4096) // 2 + 2 * 1024
"""Parameters of a layer on one of two tensor-parallel ranks: h*d*(2A+2K) + 2hF, halved, and two norms."""

EMBEDDING = 51200 // 2 * 1024
HELD = 2 * LAYER + 2 * EMBEDDING
"""Two layers, the embedding and the untied head."""


def small(**changes: Plain) -> Job:
    """The small model with other settings, `a__b` for `a.b`."""
    told = SMALL | {name.replace("__", "."): value for name, value in changes.items()}
    found = complete(Plan.of(told))
    assert isinstance(found, Completed)
    return found.typical


def test_a_rank_holds_its_share_of_the_parameters() -> None:
    job = small()
    assert held(job, stages(job)[0]) == Held(HELD, 0.0)


def test_experts_divide_by_their_own_degree() -> None:
    """8 experts of 3hF each over EP 4, two a rank; the router (h x E) is on every rank."""
    job = small(
        model__gated_mlp=True,
        model__experts=8,
        model__experts_per_token=2,
        model__expert_ffn=512,
        model__moe_layers=2,
        parallel__expert=4,
        parallel__expert_tensor=1,
    )
    found = held(job, stages(job)[0])
    assert found.expert == 2 * (2 * 3 * 1024 * 512)
    assert found.dense == 2 * (1024 * 128 * 20 / 2 + 2 * 1024 + 1024 * 8) + 2 * EMBEDDING


def test_megatron_keeps_2_and_4_and_a_share_of_12_bytes() -> None:
    parts = memory(small()).parts
    assert (parts["weights"], parts["gradients"]) == (2 * HELD, 4 * HELD)
    assert parts["optimizer"] == 12 / 4 * HELD  # over 4 data-parallel ranks


@pytest.mark.parametrize(
    ("style", "settings", "stage", "resident"),
    [
        ("megatron", {"precision__compute": "fp16"}, 0, 20.0),  # 2 + 2 + 12, and an fp32 copy of the gradients
        ("megatron", {}, 0, 18.0),  # 2 + 4 + 12
        ("megatron", {"precision__gradients": "bf16"}, 0, 20.0),  # the copy again
        ("deepspeed", {"framework": "deepspeed"}, 2, 2 + 14 / 4),
        ("deepspeed", {"framework": "deepspeed"}, 3, 16 / 4),
        ("deepspeed", {"framework": "deepspeed", "precision__gradients": "fp32"}, 1, 2 + 6 + 12 / 4),  # BF16_Optimizer
        ("deepspeed", {"framework": "deepspeed"}, 0, 2 + 6 + 12 / 4),  # the same, which shares its states out
        ("deepspeed", {"framework": "megatron-deepspeed"}, 0, 2 + 6 + 12 / 4),
        ("deepspeed", {"framework": "deepspeed", "precision__compute": "fp16"}, 0, 16.0),
        ("ddp", {"framework": "ddp", "precision__master": "fp32"}, 0, 16.0),  # fp32 weights are their own masters
        ("ddp", {"framework": "ddp", "precision__master": "none", "optimizer__state_dtype": "bf16"}, 0, 8.0),
    ],
)
def test_states_of_a_parameter(style: str, settings: dict[str, Plain], stage: int, resident: float) -> None:
    precision = small(**settings).precision
    assert state_bytes(style, precision, stage, 4).resident == pytest.approx(resident)


@pytest.mark.parametrize(
    ("optimizer", "state", "kept"),
    [
        ("adamw", 4.0, 8.0),
        ("adamw", 2.0, 4.0),
        ("adamw_8bit", 4.0, 2 * 1.02),  # a byte each and an fp32 scale for every 256
        ("paged_adamw_8bit", 2.0, 2 * 1.02),
        ("adamw_4bit", 4.0, 2 * 0.53),
        ("lion_8bit", 4.0, 1.02),
        ("lion", 4.0, 4.0),
        ("muon", 4.0, 4.0),
        ("sgd", 4.0, 4.0),  # with momentum
        ("adafactor", 4.0, 0.2),  # a row and a column for each matrix
    ],
)
def test_what_optimizers_keep(optimizer: str, state: float, kept: float) -> None:
    assert moment_bytes(optimizer, state) == pytest.approx(kept)


def test_frozen_weights_in_four_bits_and_states_of_the_adapters() -> None:
    job = small(model__lora_rank=8, model__trainable_parameters=1_000_000, precision__frozen="nf4")
    parts = memory(job).parts
    assert parts["weights"] == pytest.approx(0.52 * HELD + 2 * 500_000)  # adapters split over TP 2
    assert (parts["gradients"], parts["optimizer"]) == (4 * 500_000, 12 / 4 * 500_000)


def test_an_optimizer_in_the_backward_pass_keeps_one_gradient() -> None:
    plain = {"framework": "pytorch", "parallel__tensor": 1, "parallel__world_size": 1, "batch__global": 1}
    parts = memory(small(**plain, sharding__stage=0, precision__master="none", optimizer__in_backward=True)).parts
    assert parts["gradients"] == 2 * 51200 * 1024  # the embedding's, larger than a layer's


def test_activations_of_a_layer() -> None:
    """8h for norms and their inputs, 2h for dropout masks, 4d(A+K) for attention, 4F for the feed-forward block."""
    job = small()
    assert attention_kept(job.shape, dropout=True) == (4 * 128 * (8 + 2), 10 * 1024)
    assert feed_forward_kept(job.shape, 4096) == (4 * 4096, 0.0)
    assert layer_bytes(job, False) == (5120 + 16384) / 2 + 10240
    assert layer_bytes(small(parallel__sequence=True), False) == (5120 + 16384 + 10240) / 2
    assert memory(job).parts["activations"] == 2 * 20992 * 1024  # layers x bytes x tokens


def test_activations_with_a_gate_experts_and_latents() -> None:
    shape = small().shape._replace(gated=True, experts=8, experts_per_token=2, expert_ffn=512, shared_ffn=256)
    assert feed_forward_kept(shape, 4096).split == 6 * 4096
    assert routed_kept(shape).split == 2 * (4 * 1024 + 6 * 512) + 6 * 256  # copies out and back, experts, shared one
    assert routed_kept(shape).whole == 4 * 8  # router probabilities in fp32
    latent = shape._replace(heads=16, hidden=2048, latent=constants.USUAL_LATENT)
    assert attention_kept(latent, dropout=False).split == 16 * (8 * 192 + 2 * 128 + 4 * 128)
    assert attention_kept(latent, dropout=False).whole == 8 * 2048 + 4 * (1536 + 512) + 2 * 64


def test_unfused_attention_keeps_its_scores() -> None:
    assert score_bytes(small(attention__flash=False)) == 5 * 8 * 1024 / 2  # 5As bytes a token over TP 2
    assert score_bytes(small(attention__flash=False, checkpointing__activations="selective")) == 0


def test_recomputed_layers_keep_their_input() -> None:
    whole = memory(small(checkpointing__activations="full")).parts["activations"]
    one = memory(small(checkpointing__activations="full", checkpointing__layers=1)).parts["activations"]
    assert (whole, one) == (2 * 2048 * 1024, (2048 + 20992) * 1024)


def test_layers_that_are_recomputed_together_keep_one_input_and_all_they_recompute() -> None:
    alone = memory(small(checkpointing__activations="full", model__vocab=1024)).parts
    pair = memory(small(checkpointing__activations="full", model__vocab=1024, checkpointing__unit=2)).parts
    assert pair["activations"] == alone["activations"] / 2
    assert pair["working"] - alone["working"] == 20992 * 1024


def test_tensor_parallel_ranks_share_the_inputs_that_are_partitioned() -> None:
    whole = memory(small(checkpointing__activations="full")).parts["activations"]
    shared = memory(small(checkpointing__activations="full", checkpointing__partitioned=True)).parts["activations"]
    assert shared == whole / 2
    kept = memory(small(checkpointing__partitioned=True)).parts["activations"]
    assert kept == memory(small()).parts["activations"]  # nothing is recomputed


def test_context_parallelism_halves_the_tokens() -> None:
    half = memory(small(parallel__context=2, batch__global=4)).parts["activations"]
    assert half == 2 * 20992 * 512


def test_offloaded_activations_wait_on_the_host() -> None:
    deep = {"model__layers": 8}
    kept, moved = memory(small(**deep)), memory(small(**deep, checkpointing__offload=True))
    assert moved.parts["activations"] == kept.parts["activations"] / 4  # two of eight layers
    assert moved.host_bytes == kept.parts["activations"] * 3 / 4


def test_logits_of_the_last_stage() -> None:
    """Tokens x vocabulary / TP, 8 bytes each in Megatron's parallel loss, 13 in PyTorch's, 2 in a chunked one."""
    assert memory(small()).parts["logits"] == 1024 * 25600 * 8
    alone = {"framework": "fsdp", "parallel__tensor": 1, "sharding__stage": 3}
    assert memory(small(**alone)).parts["logits"] == 1024 * 51200 * 13
    assert memory(small(**alone, model__fused_loss=True)).parts["logits"] == 1024 * 51200 * 2


def test_logits_of_a_loss_that_is_known_to_be_plain_reach_their_usual_size_at_least() -> None:
    """Llama 3.1 8B under torchtitan on eight H100 reserved 82.4 GiB with two sequences of 8,192 tokens each, and 77.0
    GiB compiled (torchtitan benchmarks/llama3_h100_202412_torchtitan.md, table 1).
    """
    alone = {"framework": "fsdp", "parallel__tensor": 1, "sharding__stage": 3}
    least = [
        memory(small(**alone, model__plain_loss=plain), bound="optimistic").parts["logits"] for plain in (False, True)
    ]
    assert least == [1024 * 51200 * 3, 1024 * 51200 * 10]


def test_fsdp_gathers_two_units_and_the_root() -> None:
    job = small(framework="fsdp", parallel__tensor=1, sharding__stage=3, precision__reduce="bf16")
    unit, matrix = 1024 * 128 * 20 + 2 * 1024 * 4096 + 2048, 51200 * 1024
    assert memory(job).parts["gathered"] == 2 * (2 * unit + 2 * matrix) + (2 + 2) * matrix


def test_buckets() -> None:
    deepspeed = {"framework": "deepspeed", "parallel__tensor": 1, "communication__bucket_bytes": 1e7}
    assert memory(small(**deepspeed)).parts["buckets"] == 2e7  # one bucket, and its flat copy
    assert memory(small(**deepspeed, overlap__gradients=True)).parts["buckets"] == 3e7
    ddp = small(framework="ddp", parallel__tensor=1, sharding__stage=0, precision__master="fp32")
    assert memory(ddp).parts["buckets"] == memory(ddp).parts["gradients"]  # DDP's copy of the gradients


def test_the_three_views_of_memory() -> None:
    found = memory(small())
    assert found.peak_bytes == sum(found.parts.values())
    assert found.reserved_bytes == pytest.approx(1.05 * found.peak_bytes)
    communicators = 3  # all ranks, tensor, data
    assert found.device_bytes == pytest.approx(found.reserved_bytes + 1.2e9 + communicators * 0.4e9)


def test_a_matrix_product_in_whole_waves() -> None:
    """4096 x 4096 in tiles of 256 x 128 is 512 tiles, four waves of 128 multiprocessors; each tile ramps up once."""
    ideal = 2 * 4096 * 4096 * (4096 + constants.RAMP_DEPTH) / 1e15
    assert product_seconds(4096, 4096, 4096, 1e15, 1e18, 128, 2.0) == pytest.approx(ideal)


def test_a_thin_matrix_product_waits_for_memory() -> None:
    moved = 2 * 4096 * (8 + 4096) + 2 * 8 * 4096
    assert product_seconds(8, 4096, 4096, 1e15, 1e12, 128, 2.0) == pytest.approx(moved / 1e12)


def test_products_of_uneven_widths_miss_the_tensor_cores() -> None:
    even = product_seconds(4096, 4096, 4096, 1e15, 1e18, 128, 2.0)
    assert product_seconds(4096, 4095, 4096, 1e15, 1e18, 128, 2.0) == pytest.approx(even / constants.UNALIGNED_SHARE)


def test_fused_attention_does_half_of_the_scores() -> None:
    rate = rates(small().machine, "bf16", True)
    found = attention(small(), rate)
    operations = 2 * 1024 * 1024 * 4 * 2 * 128  # tokens x sequence x heads of a rank, twice d, multiply and add
    assert found.forward == pytest.approx(operations / 2 / rate.attention)
    assert found.backward == pytest.approx(2.5 * found.forward)


def test_memory_bound_work_counts_passes() -> None:
    rate = rates(small().machine, "bf16", True)
    hidden = (constants.HIDDEN_PASSES + constants.DROPOUT_PASSES) * 1024
    wide = constants.WIDE_PASSES * 2 / 3 * 4096 / 2
    assert streaming(small(), False, rate).forward == pytest.approx(2 * 1024 * (hidden + wide) / rate.memory)


def test_fp8_products_are_faster_and_the_head_is_not() -> None:
    machine = small(cluster__gpu="H100").machine
    eight = rates(machine, "fp8", True)
    assert eight.matrix > 1.5 * eight.wide
    assert (eight.wide, eight.element) == (rates(machine, "bf16", True).wide, 1.0)


def test_switches_add_up_for_all_reduces_of_eight_only() -> None:
    hopper, ampere = tensor_group("H100", 8), tensor_group("A100-SXM-80GB", 8)
    assert (hopper.switch_reduction, ampere.switch_reduction) == (1.31, 1.0)  # 482 over 367 GB/s; A100 has none
    assert tensor_group("H100", 4).switch_reduction == 1.0
    size, plain = 1e12, hopper._replace(switch_reduction=1.0)
    assert all_reduce_seconds(size, plain) / all_reduce_seconds(size, hopper) == pytest.approx(1.31, rel=1e-3)
    assert gather_seconds(size, plain) == gather_seconds(size, hopper)


def tensor_group(gpu: str, ranks: int) -> Group:
    job = small(cluster__gpu=gpu, parallel__tensor=ranks, batch__global=8)
    return group_of(job.layout, job.machine, "tensor")


def test_latency_of_a_ring() -> None:
    inside = Group(8, 8, 1, 1e9, 1e9)
    assert ring_seconds(inside) == constants.COLLECTIVE_SECONDS + 7 * constants.RING_STEP_INTRANODE
    two = Group(16, 8, 2, 1e9, 1e9)  # 13 steps inside the nodes and 2 between them
    expected = constants.COLLECTIVE_SECONDS + 13 * constants.RING_STEP_INTRANODE + 2 * constants.RING_STEP_INTERNODE
    assert ring_seconds(two) == pytest.approx(expected)


def test_an_all_to_all_leaves_the_node_through_one_nic() -> None:
    group = Group(16, 8, 2, 450e9, 50e9)
    assert all_to_all_seconds(1e12, group) == pytest.approx(1e12 / 2 / 50e9, rel=1e-3)


def test_a_transfer_is_a_message() -> None:
    assert transfer_seconds(5e9, Group(2, 1, 2, 450e9, 50e9)) == pytest.approx(0.1, rel=1e-3)
    assert transfer_seconds(4.5e9, Group(2, 2, 1, 450e9, 50e9)) == pytest.approx(0.01, rel=5e-3)


def test_hidden_gradients_slow_what_runs_beside_them() -> None:
    """All of a reduce-scatter that fits beside the backward pass costs its contention."""
    job, params = small(overlap__gradients=True), Held(1e6, 0.0)
    exposed, _ = data_seconds(job._replace(sharding=job.sharding._replace(stage=0)), params, Passes(1.0, 10.0))
    alone, _ = data_seconds(small(sharding__stage=0), params, Passes(1.0, 10.0))
    assert exposed == pytest.approx(constants.CONTENTION * alone)


def test_dtensor_hides_no_tensor_parallel_communication() -> None:
    """Megatron's layers reduce gradients of the input beside those of the weight; DTensor's wait."""
    megatron = step(small(sharding__stage=0)).tensor
    dtensor = step(small(framework="torchtitan", sharding__stage=0)).tensor
    assert dtensor > 1.5 * megatron


def test_the_optimizer_reads_and_writes_its_states() -> None:
    job = small()
    moved = HELD / 4 * (2 * 12 + 4 + 2)  # master and moments twice, gradient and weight once
    assert step(job).optimizer == pytest.approx(moved / rates(job.machine, "bf16").memory)


def test_an_offloaded_optimizer_runs_in_main_memory() -> None:
    job = small(framework="deepspeed", parallel__tensor=1, sharding__stage=2, sharding__offload_optimizer="cpu")
    own = held(job, stages(job)[0]).dense / 8
    streamed = own * (2 * 12 + 2 + 2) * 8 / constants.HOST_MEMORY_RATE  # eight ranks share the memory
    assert step(job).offload == pytest.approx(streamed + own * (2 + 2) / constants.HOST_LINK_RATE)


def test_operations_that_utilisation_counts() -> None:
    """6 for each parameter but the input embedding, and causal attention 6*L*s*A*d."""
    visited = 2 * (1024 * 128 * 20 + 2 * 1024 * 4096 + 2048) + 51200 * 1024
    assert operations_per_token(small()) == 6 * visited + 6 * 2 * 1024 * 8 * 128


def test_gpu_hours_and_money_of_a_run() -> None:
    plan = Plan.of({**SMALL, "run.tokens": 1e12, "cluster.usd_per_gpu_hour": 2.0})
    found = estimate(plan)
    assert isinstance(found, Estimate)
    hours = 1e12 / found.tokens_per_second_per_gpu / 3600
    assert middle(fact(plan, "run.gpu_hours"), hours)
    assert middle(fact(plan, "run.usd"), 2 * hours)


def middle(found: object, number: float) -> bool:
    """Whether a number is a fact's, or lies between its ends."""
    low, high = getattr(found, "low", found), getattr(found, "high", found)
    assert isinstance(low, float)
    assert isinstance(high, float)
    return low * (1 - 1e-9) <= number <= high * (1 + 1e-9)
