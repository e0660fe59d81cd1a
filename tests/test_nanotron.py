"""nanotron's YAML claims what nanotron does with it."""

from __future__ import annotations

import json

import pytest
from readings import claims, settings_of_run

from dtlint.api import check
from dtlint.frameworks.nanotron import config as nanotron
from dtlint.languages.yaml import read_yaml
from dtlint.report.json import report_json
from dtlint.source import Source

CONFIG = """\
model:
  dtype: bfloat16
  model_config:
    is_llama_config: true
    hidden_size: 2048
    intermediate_size: 5632
    num_attention_heads: 16
    num_hidden_layers: 24
    num_key_value_heads: 8
    vocab_size: 32000
optimizer:
  accumulate_grad_in_fp32: true
  clip_grad: 1.0
  optimizer_factory:
    name: adamW
  zero_stage: 1
parallelism:
  dp: 4
  pp: 2
  tp: 2
tokens:
  batch_accumulation_per_replica: 8
  micro_batch_size: 2
  sequence_length: 4096
  train_steps: 500
"""


def read(text: str) -> dict[str, object]:
    return claims(nanotron.read_config(read_yaml(Source("config.yaml", text))))


def test_a_whole_config():
    assert read(CONFIG) == {
        "parallel.data": 4,
        "parallel.tensor": 2,
        "parallel.pipeline": 2,
        "batch.micro": 2,
        "batch.accumulation": 8,
        "data.sequence_length": 4096,
        "run.steps": 500,
        "sharding.stage": 1,
        "optimizer.clip": 1.0,
        "optimizer.name": "adamw",
        "precision.compute": "bf16",
        "precision.gradients": "fp32",
        "precision.master": "fp32",
        "model.layers": 24,
        "model.hidden": 2048,
        "model.ffn": 5632,
        "model.heads": 16,
        "model.kv_heads": 8,
        "model.vocab": 32000,
        "model.gated_mlp": True,
    }


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("tp_mode: REDUCE_SCATTER", {"parallel.sequence": True}),
        ("tp_mode: ALL_REDUCE", {"parallel.sequence": False}),
        ("pp_engine: 1f1b", {"schedule.kind": "1f1b"}),
        ("pp_engine: afab", {"schedule.kind": "gpipe"}),
        ("tp_linear_async_communication: true", {"overlap.tensor": True}),
        ("recompute_layer: true", {"checkpointing.activations": "full"}),
        ("context_parallel_size: 2", {"parallel.context": 2}),
        ("expert_parallel_size: 2", {"parallel.expert": 2}),
        ("tp_mode: null", {}),
    ],
)
def test_keys_of_the_parallelism(line, expected):
    before, after = read(CONFIG), read(CONFIG.replace("  tp: 2\n", f"  tp: 2\n  {line}\n"))
    assert {name: value for name, value in after.items() if before.get(name) != value} == expected


def test_without_fp32_sums_the_weights_are_optimized_themselves():
    found = read(CONFIG.replace("accumulate_grad_in_fp32: true", "accumulate_grad_in_fp32: false"))
    assert (found["precision.gradients"], found["precision.master"]) == ("bf16", "none")


def test_a_bucket_is_written_in_mebibytes():
    assert (
        read(CONFIG.replace("model:\n", "model:\n  ddp_bucket_cap_mb: 50\n"))["communication.bucket_bytes"] == 52428800
    )


def test_experts():
    found = read(
        CONFIG.replace("    hidden_size", "    moe_config:\n      num_experts: 8\n      top_k: 2\n    hidden_size")
    )
    assert (found["model.experts"], found["model.experts_per_token"]) == (8, 2)


def test_layers_of_mamba_are_no_transformers():
    assert not any(name.startswith("model.") for name in read(CONFIG.replace("is_llama_config", "is_mamba_config")))


def test_what_is_not_written_is_nanotrons_own(tmp_path):
    found = settings_of_run(tmp_path, config__yaml=CONFIG)
    assert [
        found[name]
        for name in (
            "framework",
            "parallel.world_size",
            "batch.global",
            "schedule.kind",
            "parallel.sequence",
            "sharding.stage",
        )
    ] == ["nanotron", 16, 64, "gpipe", False, 1]


def test_a_launch_joins_its_config(tmp_path):
    script = "CUDA_DEVICE_MAX_CONNECTIONS=1 torchrun --nproc_per_node=8 run_train.py --config-file config.yaml\n"
    found = settings_of_run(tmp_path, config__yaml=CONFIG, run__sh=script)
    assert (found["framework"], found["launch.processes"], found["parallel.data"]) == ("nanotron", 8, 4)


def test_other_configs_are_left_alone(tmp_path):
    (tmp_path / "x.yaml").write_text("parallelism: {dp: 2, tp: 2}\nmodel: {}\n", encoding="utf-8")
    (tmp_path / "run.sh").write_text(
        "torchrun --nproc_per_node=8 train_net.py --config-file x.yaml\n", encoding="utf-8"
    )
    runs = json.loads(report_json(check([tmp_path])))["runs"]
    assert "value" not in runs[0]["settings"].get("framework", {})
