"""NeMo-RL's YAML, which builds on other files, and slime's Megatron arguments: the plan of what is trained."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from test_python_recipes import DEGREES, run, runs, shown

from dtlint.api import check

BASE = """
    policy:
      model_name: Qwen/Qwen2.5-1.5B
      train_global_batch_size: 512
      train_micro_batch_size: 4
      precision: bfloat16
      max_grad_norm: 1.0
      dtensor_cfg: {enabled: true, tensor_parallel_size: 1, context_parallel_size: 1, activation_checkpointing: false}
      megatron_cfg:
        enabled: false
        tensor_model_parallel_size: 1
        pipeline_model_parallel_size: 1
        context_parallel_size: 1
        activation_checkpointing: false
        optimizer: {optimizer: adam, use_distributed_optimizer: true}
    cluster: {gpus_per_node: 1, num_nodes: 1}
"""
CHILD = """
    defaults: ../base.yaml
    policy:
      train_micro_batch_size: 1
      dtensor_cfg: {enabled: false}
      megatron_cfg:
        enabled: true
        tensor_model_parallel_size: 2
        pipeline_model_parallel_size: 2
        activation_checkpointing: true
    cluster: {gpus_per_node: 8, num_nodes: 4}
"""


def launched(words: str) -> str:
    return f"uv run examples/run_grpo.py --config conf/child.yaml {words}\n"


def test_a_file_builds_on_another_and_words_stand_over_both(tmp_path: Path) -> None:
    files = {"base.yaml": BASE, "conf/child.yaml": CHILD, "launch.sh": launched("cluster.num_nodes=2")}
    found = run(tmp_path, files)
    assert shown(found, "framework", "frontend", *DEGREES) == ["megatron", "nemo-rl", 2, 2, 1, 4]
    assert shown(found, "batch.micro", "batch.global", "sharding.stage") == [1, 512, 1]
    assert shown(found, "launch.nodes", "launch.processes", "launch.launcher") == [2, 16, "ray"]
    assert shown(found, "checkpointing.activations", "model.name") == ["full", "Qwen/Qwen2.5-1.5B"]


def test_a_section_may_replace_the_one_below_it(tmp_path: Path) -> None:
    child = CHILD.replace("enabled: true\n", "enabled: true\n        _override_: true\n", 1)
    found = run(tmp_path, {"base.yaml": BASE, "conf/child.yaml": child, "launch.sh": launched("")})
    assert shown(found, "parallel.tensor", "sharding.stage") == [2, 0]


def test_a_file_that_it_builds_on_and_is_not_here_hides_settings(tmp_path: Path) -> None:
    found = run(tmp_path, {"conf/child.yaml": CHILD, "launch.sh": launched("")})
    assert shown(found, "parallel.tensor", "batch.micro", "batch.global", "precision.compute") == [2, 1, None, None]


def test_packed_samples_have_no_micro_batch(tmp_path: Path) -> None:
    base = BASE.replace("max_grad_norm: 1.0", "sequence_packing: {enabled: true}")
    found = run(tmp_path, {"base.yaml": base, "conf/child.yaml": CHILD, "launch.sh": launched("")})
    assert shown(found, "batch.micro", "batch.accumulation", "batch.global") == [None, None, 512]


def test_generation_on_nodes_of_its_own_leaves_the_others(tmp_path: Path) -> None:
    apart = "++policy.generation.colocated.enabled=false policy.generation.colocated.resources.num_nodes=1"
    found = run(tmp_path, {"base.yaml": BASE, "conf/child.yaml": CHILD, "launch.sh": launched(apart)})
    assert shown(found, "launch.nodes", "launch.processes") == [3, 24]


def test_hybrid_sharding_sums_gradients_once_unless_it_is_told_not_to(tmp_path: Path) -> None:
    hybrid = BASE.replace("tensor_parallel_size: 1", "dp_replicate_size: 2", 1).replace("num_nodes: 1", "num_nodes: 4")
    names = ("sharding.instances", "sharding.sums_each_microbatch")
    assert shown(run(tmp_path, {"base.yaml": hybrid}), *names) == [2, False]
    told = hybrid.replace("dp_replicate_size: 2", "dp_replicate_size: 2, defer_fsdp_grad_sync: false")
    assert shown(run(tmp_path, {"base.yaml": told}), *names) == [2, True]


def test_the_critic_of_ppo_is_a_plan_beside_the_policy(tmp_path: Path) -> None:
    value = (
        BASE
        + "    value:\n      train_micro_batch_size: 8\n      dtensor_cfg: {enabled: true, tensor_parallel_size: 1}\n"
    )
    found = runs(tmp_path, {"base.yaml": value})
    assert [each["batch.micro"] for each in found] == [4, 8]


SLIME = """
    ray job submit -- python3 train.py --actor-num-nodes 2 --actor-num-gpus-per-node 8 --colocate \\
      --num-layers 36 --hidden-size 2560 --num-attention-heads 32 --tensor-model-parallel-size 2 --sequence-parallel \\
      --num-rollout 100 --rollout-batch-size 32 --n-samples-per-prompt 8 --num-steps-per-rollout 2 {}
"""


def test_slime_trains_on_the_actors_gpus(tmp_path: Path) -> None:
    found = run(tmp_path, {"launch.sh": SLIME.format("")})
    assert shown(found, "framework", "frontend", *DEGREES) == ["megatron", "slime", 2, 1, 1, 8]
    assert shown(found, "launch.launcher", "launch.nodes", "launch.processes") == ["ray", 2, 16]
    assert shown(found, "batch.micro", "batch.global", "batch.accumulation") == [1, 128, 16]
    assert shown(found, "sharding.stage", "precision.compute") == [1, "bf16"]


def test_slime_packs_up_to_a_number_of_tokens(tmp_path: Path) -> None:
    found = run(tmp_path, {"launch.sh": SLIME.format("--use-dynamic-batch-size --max-tokens-per-gpu 9216")})
    assert shown(found, "batch.micro", "batch.accumulation", "batch.global") == [None, None, 128]


def test_the_product_of_two_keys_is_a_number(tmp_path: Path) -> None:
    (tmp_path / "grpo.yaml").write_text(
        "grpo: {num_prompts_per_step: 32, num_generations_per_prompt: 16}\n"
        "policy:\n"
        "  train_global_batch_size: ${mul:${grpo.num_prompts_per_step}, ${grpo.num_generations_per_prompt}}\n"
        "  megatron_cfg: {enabled: true, tensor_model_parallel_size: 4}\n"
        "cluster: {num_nodes: 1, gpus_per_node: 8}\n"
    )
    (found,) = check([tmp_path / "grpo.yaml"]).runs
    assert found.plan.integer("batch.global") == 512


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("", True),
        ("policy.generation.vllm_cfg.tensor_parallel_size=4", False),
        ("policy.generation.colocated.enabled=false", False),
        ("policy.generation.backend=megatron", False),
    ],
)
def test_an_engine_divides_the_gpus_that_it_shares(tmp_path: Path, words: str, told: bool) -> None:
    (tmp_path / "grpo.yaml").write_text(
        "grpo: {num_prompts_per_step: 32}\n"
        "policy:\n"
        "  dtensor_cfg: {enabled: true}\n"
        "  generation: {backend: vllm, vllm_cfg: {tensor_parallel_size: 3}, colocated: {enabled: true}}\n"
        "cluster: {num_nodes: 1, gpus_per_node: 8}\n"
    )
    (tmp_path / "run.sh").write_text(f"uv run examples/run_grpo.py --config grpo.yaml {words}\n")
    found = {each.message for each in check([tmp_path / "run.sh"]).findings}
    message = "8 processes are no multiple of 3, the TP of the engine that generates the answers on the same GPUs"
    assert (message in found) is told


PADDED = """
    policy:
      model_name: Qwen/Qwen2.5-7B
      train_global_batch_size: 128
      train_micro_batch_size: 1
      max_total_sequence_length: 4096
      make_sequence_length_divisible_by: {padded}
      dtensor_cfg: {{enabled: {tensors}, tensor_parallel_size: 4, context_parallel_size: 1, sequence_parallel: {cut}}}
      megatron_cfg:
        enabled: {megatron}
        tensor_model_parallel_size: 4
        pipeline_model_parallel_size: 1
        context_parallel_size: {context}
        sequence_parallel: {cut}
      dynamic_batching: {{enabled: {dynamic}}}
      sequence_packing: {{enabled: {packed}}}
    cluster: {{gpus_per_node: 8, num_nodes: 2}}
"""
PLAIN = {"padded": 2, "tensors": "true", "megatron": "false", "cut": "true", "context": 1}
PLAIN |= {"dynamic": "false", "packed": "false"}
MEGATRON = {"tensors": "false", "megatron": "true"}


@pytest.mark.parametrize(
    ("changed", "wrong"),
    [
        ({}, True),
        ({"padded": "${policy.dtensor_cfg.context_parallel_size}"}, True),
        ({"padded": "${mul:${policy.dtensor_cfg.context_parallel_size}, 2}"}, True),
        ({"padded": "${mul:${policy.dtensor_cfg.tensor_parallel_size}, 2}"}, False),
        ({"padded": 8}, False),
        ({"cut": "false"}, False),
        ({"dynamic": "true"}, False),
        ({"packed": "true"}, False),
        ({"packed": "${.packs}"}, False),
        (MEGATRON, True),
        ({**MEGATRON, "packed": "true"}, True),
        ({**MEGATRON, "dynamic": "true"}, False),
        ({**MEGATRON, "padded": 4}, False),
        ({**MEGATRON, "padded": 4, "packed": "true", "context": 2}, True),
        ({**MEGATRON, "padded": 16, "packed": "true", "context": 2}, False),
    ],
)
def test_what_samples_are_padded_to_divides_over_the_ranks(tmp_path: Path, changed, wrong: bool) -> None:
    (tmp_path / "dpo.yaml").write_text(dedent(PADDED.format(**{**PLAIN, **changed})))
    found = {each.rule for each in check([tmp_path]).findings if each.severity == "error"}
    assert ("seq-not-divisible" in found) is wrong


def test_words_say_what_samples_are_padded_to(tmp_path: Path) -> None:
    (tmp_path / "dpo.yaml").write_text(dedent(PADDED.format(**PLAIN)))
    launch = "uv run examples/run_dpo.py --config dpo.yaml policy.make_sequence_length_divisible_by={}\n"
    for padded, rules in ((8, []), (6, ["seq-not-divisible"])):
        (tmp_path / "run.sh").write_text(launch.format(padded))
        found = check([tmp_path / "run.sh"]).findings
        assert [each.rule for each in found if each.rule == "seq-not-divisible"] == rules
