"""Exchanges whose cost is small or not known: hidden ones, those of a part that trains, and of packed batches."""

from __future__ import annotations

import pytest

from dtlint.api import check

FSDP = """torchrun --nproc_per_node 8 train.py --model_name_or_path local/model --bf16 True --output_dir out \\
  --per_device_train_batch_size {micro} --model_max_length 2048 --gradient_accumulation_steps 4 \\
  --fsdp "full_shard auto_wrap" --fsdp_transformer_layer_cls_to_wrap LlamaDecoderLayer --gradient_checkpointing True
"""
STAGE_2 = '{"zero_optimization": {"stage": 2, "overlap_comm": false}, "bf16": {"enabled": true}}'
LLAVA = """torchrun --nproc_per_node 8 llava/train/train.py --deepspeed ds.json --model_name_or_path Qwen/Qwen2-7B \\
  --bf16 True --output_dir out --per_device_train_batch_size 1 --model_max_length 2048 {part}
"""
VERL = """python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=1024 \\
  data.max_prompt_length=512 data.max_response_length=512 actor_rollout_ref.model.path=Qwen/Qwen2-72B \\
  actor_rollout_ref.actor.ppo_mini_batch_size=256 actor_rollout_ref.actor.use_dynamic_bsz=True \\
  actor_rollout_ref.actor.ppo_max_token_len_per_gpu=24000 actor_rollout_ref.rollout.n=5 \\
  actor_rollout_ref.model.enable_gradient_checkpointing=True trainer.n_gpus_per_node=8 trainer.nnodes=4
"""


def told(rule):
    findings = check(["."]).findings
    return [(each.severity, [remedy.text for remedy in each.remedies]) for each in findings if each.rule == rule]


@pytest.mark.parametrize(("micro", "severity"), [(1, "warning"), (16, "note")])
def test_a_gather_beside_the_recomputation_of_many_tokens_is_a_note(tree, micro, severity):
    tree({"run.sh": FSDP.format(micro=micro), "requirements.txt": "transformers==4.46.3\n"})
    ((found, _),) = told("fsdp-redundant-allgather")
    assert found == severity


@pytest.mark.parametrize(("accelerate", "named"), [("0.22.0", True), ("0.30.0", False)])
def test_the_remedy_names_the_release_of_accelerate_that_has_it(tree, accelerate, named):
    tree({"run.sh": FSDP.format(micro=1), "requirements.txt": f"transformers==4.33.1\naccelerate=={accelerate}\n"})
    ((_, remedies),) = told("fsdp-redundant-allgather")
    assert any("Accelerate 0.23" in text for text in remedies) is named


@pytest.mark.parametrize(
    ("part", "severities"),
    [
        ('--mm_tunable_parts="mm_vision_tower,mm_mlp_adapter"', []),
        ('--mm_tunable_parts="mm_vision_tower,mm_mlp_adapter,mm_language_model"', ["warning"]),
        ("--tune_mm_mlp_adapter True", []),
        ("", ["warning"]),
    ],
)
def test_of_gradients_of_an_unknown_part_it_is_not_told_that_they_cost(tree, part, severities):
    tree({"run.sh": LLAVA.format(part=part), "ds.json": STAGE_2})
    assert [found for found, _ in told("no-overlap")] == severities


def test_where_samples_are_packed_nobody_counts_the_gathers(tree):
    tree({"run.sh": VERL})
    assert told("zero3-internode-comm") == []
