"""What is only a note: slower steps of a trial, and of a run that answers prompts between its steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtlint.api import check

NEMO_RL = """policy:
  train_global_batch_size: 64
  train_micro_batch_size: 1
  max_total_sequence_length: 4096
  precision: bfloat16
  model_name: Qwen/Qwen2.5-7B
  megatron_cfg: {{enabled: false}}
  dtensor_cfg: {{enabled: true, tensor_parallel_size: 1, activation_checkpointing: true}}
{algorithm}: {{max_num_steps: 1000}}
cluster: {{num_nodes: 2, gpus_per_node: 8}}
"""
CROSSING = "zero3-internode-comm"


def severity(folder: Path, name: str, algorithm: str) -> str | None:
    for old in folder.iterdir():
        old.unlink()
    (folder / name).write_text(NEMO_RL.format(algorithm=algorithm))
    return {found.rule: found.severity for found in check([folder / name]).findings}.get(CROSSING)


@pytest.mark.parametrize(
    ("name", "algorithm", "told"),
    [
        ("large.yaml", "sft", "warning"),
        ("large.yaml", "grpo", "note"),
        ("sft_smoke.yaml", "sft", "note"),
        ("tiny.yaml", "sft", "note"),
        ("latest.yaml", "sft", "warning"),
    ],
)
def test_a_share_of_the_step_is_a_note_where_steps_are_a_part(
    tmp_path: Path, name: str, algorithm: str, told: str
) -> None:
    assert severity(tmp_path, name, algorithm) == told


MEGATRON = """torchrun --nnodes 8 --nproc_per_node 8 --rdzv_backend c10d --rdzv_endpoint n0:29500 pretrain_gpt.py \\
  --use-distributed-optimizer --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 \\
  --max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 64 --bf16 --train-iters {steps}
"""


@pytest.mark.parametrize(("steps", "told"), [(10, "note"), (10000, "warning")])
def test_a_run_of_a_few_steps_is_a_trial(tmp_path: Path, steps: int, told: str) -> None:
    (tmp_path / "run.sh").write_text(MEGATRON.format(steps=steps))
    assert {found.rule: found.severity for found in check([tmp_path]).findings}["no-overlap"] == told


OPENRLHF = """deepspeed --num_gpus 8 --module openrlhf.cli.{program} --pretrain Qwen/Qwen2.5-7B --zero_stage 3 \\
  --micro_train_batch_size 1 --train_batch_size 64 --max_len 4096
"""


@pytest.mark.parametrize(("program", "answers"), [("train_ppo_ray", True), ("train_sft", False)])
def test_openrlhf_answers_prompts_in_ppo(tmp_path: Path, program: str, answers: bool) -> None:
    (tmp_path / "run.sh").write_text(OPENRLHF.format(program=program))
    assert all(bool(run.plan.collection("run.answers")) is answers for run in check([tmp_path]).runs)


def test_the_optimizer_of_openrlhfs_forks_counts(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text(OPENRLHF.format(program="train_sft").rstrip() + " --optimizer adamw_torch_4bit\n")
    (run,) = check([tmp_path]).runs
    assert run.plan.word("optimizer.name") == "adamw_torch_4bit"


@pytest.mark.parametrize(("optimizer", "known"), [("adamw_torch_4bit", True), ("zeta_step", False)])
def test_what_an_unknown_optimizer_keeps_is_not_guessed(tmp_path: Path, optimizer: str, known: bool) -> None:
    start = OPENRLHF.format(program="train_sft").replace("Qwen/Qwen2.5-7B", "Qwen/Qwen3-30B-A3B")
    start = start.replace("--num_gpus 8", "--num_gpus 1").rstrip()
    (tmp_path / "run.sh").write_text(f"{start} --optimizer {optimizer}\n")
    rules = {found.rule for found in check([tmp_path]).findings}
    assert ("undersized-memory-oom" in rules) is known
