"""Bytes on the wire: what each GPU sends in a step, against formulas worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from dtlint.cost.job import complete
from dtlint.cost.traffic import sent_bytes
from dtlint.plan import Plan
from dtlint.value import Plain, Unknown

SHAPE: dict[str, Plain] = {
    "cluster.gpu": "H100",
    "cluster.gpus_per_node": 8,
    "model.layers": 32,
    "model.hidden": 4096,
    "model.ffn": 11008,
    "model.heads": 32,
    "model.kv_heads": 32,
    "model.vocab": 32000,
    "model.gated_mlp": True,
    "model.tied_embeddings": False,
    "data.sequence_length": 2048,
    "batch.micro": 1,
    "precision.compute": "bf16",
    "checkpointing.activations": "none",
}


def sent(settings: Mapping[str, Plain]) -> Mapping[str, float]:
    completed = complete(Plan.of({**SHAPE, **settings}))
    assert not isinstance(completed, Unknown)
    return sent_bytes(completed.typical)


def test_one_gpu_sends_nothing() -> None:
    assert sent({"framework": "ddp", "parallel.world_size": 1}) == {}


def test_data_parallelism_all_reduces_every_gradient() -> None:
    found = sent({"framework": "ddp", "parallel.world_size": 8, "precision.reduce": "bf16", "sharding.stage": 0})
    # 2(n-1)/n of 2 bytes for each of 6.74B parameters: 23.6 GB
    assert found == {"data": pytest.approx(2 * 7 / 8 * 2 * 6.738e9, rel=0.001)}


def test_tensor_parallelism_all_reduces_four_times_a_layer() -> None:
    found = sent({"framework": "megatron", "parallel.world_size": 8, "parallel.tensor": 8, "batch.global": 4})
    # 32 layers x 4 all-reduces x 2*b*s*h bytes x 2(n-1)/n x 4 micro-batches
    assert found == {"tensor": pytest.approx(32 * 4 * 2 * 2048 * 4096 * 2 * 7 / 8 * 4)}


def test_recomputation_all_reduces_twice_more() -> None:
    plain = {"framework": "megatron", "parallel.world_size": 8, "parallel.tensor": 8, "batch.global": 4}
    again = {**plain, "checkpointing.activations": "full"}
    assert sent(again)["tensor"] == pytest.approx(1.5 * sent(plain)["tensor"])


def test_a_pipeline_sends_activations_and_their_gradients() -> None:
    found = sent({"framework": "megatron", "parallel.world_size": 4, "parallel.pipeline": 4, "batch.global": 16})
    assert found == {"pipeline": pytest.approx(2 * 2 * 2048 * 4096 * 16)}


FULLY_SHARDED: dict[str, Plain] = {
    "framework": "fsdp",
    "parallel.world_size": 8,
    "sharding.stage": 3,
    "sharding.reshard_after_forward": True,
    "precision.reduce": "bf16",
}


def test_full_sharding_gathers_twice_and_scatters_once_for_every_micro_batch() -> None:
    assert sent({**FULLY_SHARDED, "batch.global": 16}) == {
        "data": pytest.approx(3 * 2 * 6.738e9 * 7 / 8 * 2, rel=0.001)
    }


@pytest.mark.parametrize(("stored", "width"), [("nf4", 0.52), ("int8", 1.0), ("bf16", 2.0)])
def test_a_frozen_model_is_gathered_as_it_is_stored(stored: str, width: float) -> None:
    settings: dict[str, Plain] = {
        **FULLY_SHARDED,
        "precision.frozen": stored,
        "batch.global": 16,
        "model.lora_rank": 8,
        "model.trainable_parameters": 20_000_000,
    }
    adapters = 3 * 2 * 20e6
    assert sent(settings) == {"data": pytest.approx((2 * width * 6.738e9 + adapters) * 7 / 8 * 2, rel=0.001)}


def test_adapters_alone_are_reduced() -> None:
    settings: dict[str, Plain] = {
        "framework": "ddp",
        "parallel.world_size": 8,
        "precision.reduce": "bf16",
        "sharding.stage": 0,
        "model.lora_rank": 8,
        "model.trainable_parameters": 20_000_000,
    }
    assert sent(settings) == {"data": pytest.approx(2 * 7 / 8 * 2 * 20e6)}


def test_full_sharding_gathers_the_stage_of_a_pipeline_once_a_step() -> None:
    whole = {"framework": "torchtitan", "parallel.world_size": 16, "parallel.pipeline": 2, "precision.reduce": "fp32"}
    kept = sent({**whole, "sharding.reshard_after_forward": False, "batch.accumulation": 8})
    # one gather of 2 and one scatter of 4 bytes a parameter over 8 ranks, of the stage that holds most; embedding and
    # output are 0.13B each of 6.74B
    assert kept["data"] == pytest.approx(6 * 7 / 8 * (6.738e9 - 2 * 0.131e9) / 2 + 6 * 7 / 8 * 0.131e9, rel=0.001)
    freed = sent({**whole, "sharding.reshard_after_forward": True, "batch.accumulation": 8})
    assert freed["data"] == pytest.approx(8 * kept["data"] * 8 / 6)


def test_context_parallel_ranks_that_trade_heads_send_what_ulysses_sends() -> None:
    machines = {"framework": "megatron", "parallel.world_size": 8}
    traded = sent({**machines, "parallel.context": 4, "parallel.context_exchange": "a2a"})["context"]
    assert traded == sent({**machines, "parallel.ulysses": 4})["ulysses"]
    ring = sent({**machines, "parallel.context": 4, "parallel.context_exchange": "p2p"})["context"]
    assert ring == 3 * traded  # 9 blocks of keys and values, against 3/4 of queries, keys, values and outputs twice
