"""Batches that have to hold whole parts: all answers to a prompt, a pipeline's micro-batches, a step of a roll-out."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtlint.api import check

RULE = "batch-not-divisible"
OWN = "class OwnTrainer(Trainer):\n    pass\n"
PROGRAM = """from transformers import HfArgumentParser, Trainer
from trl import GRPOConfig, GRPOTrainer
{more}
(arguments,) = HfArgumentParser(GRPOConfig).parse_args_into_dataclasses()
{trainer}(model=load(), args=arguments, train_dataset=data()).train()
"""


def answers(
    folder: Path, arguments: str, program: str | None = None, launcher: str = "torchrun --nproc_per_node 3"
) -> bool:
    """Whether the launch is said to fail for its batch."""
    if program is not None:
        (folder / "grpo.py").write_text(program)
    line = f"{launcher} grpo.py --bf16 --output_dir out --max_completion_length 256 {arguments}\n"
    (folder / "run.sh").write_text(line)
    return any(each.rule == RULE and each.severity == "error" for each in check([folder]).findings)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("--num_generations 4 --per_device_train_batch_size 2 --gradient_accumulation_steps 1", True),
        ("--num_generations 6 --per_device_train_batch_size 2 --gradient_accumulation_steps 1", False),
        # whole groups in a step: releases differ
        ("--num_generations 4 --per_device_train_batch_size 2 --gradient_accumulation_steps 2", False),
        ("--num_generations 4 --per_device_train_batch_size 2 --steps_per_generation 4", False),
        ("--num_generations 4 --per_device_train_batch_size 2 --generation_batch_size 24", False),
        ("--num_generations $COUNT --per_device_train_batch_size 2", False),
        ("--num_generations 4 --per_device_train_batch_size $MICRO", False),
    ],
)
def test_answers_to_a_prompt_make_up_the_batch_of_all_ranks(tmp_path: Path, arguments: str, told: bool) -> None:
    assert answers(tmp_path, arguments) is told


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("per_device_train_batch_size=3, gradient_accumulation_steps=2", True),
        ("per_device_train_batch_size=3, gradient_accumulation_steps=2, num_generations=6", False),
        ("per_device_train_batch_size=2, gradient_accumulation_steps=4", False),
        ("per_device_train_batch_size=3, gradient_accumulation_steps=2, steps_per_generation=8", False),
        ("per_device_train_batch_size=3, gradient_accumulation_steps=2, **more", False),
        ("gradient_accumulation_steps=2", False),
    ],
)
def test_answers_to_a_prompt_are_eight_where_nothing_is_told(tmp_path: Path, arguments: str, told: bool) -> None:
    program = f"""from trl import GRPOConfig, GRPOTrainer
arguments = GRPOConfig("out", {arguments})
GRPOTrainer(model=load(), args=arguments, train_dataset=data()).train()
"""
    (tmp_path / "grpo.py").write_text(program)
    (tmp_path / "run.sh").write_text("torchrun --nproc_per_node 1 grpo.py\n")
    found = [each for each in check([tmp_path]).findings if each.rule == RULE and each.severity == "error"]
    assert bool(found) is told


def test_a_remedy_leaves_at_least_two_answers(tmp_path: Path) -> None:
    """TRL asks for two at least (trl 0.18.0 trainer/grpo_config.py)."""
    (tmp_path / "grpo.py").write_text(PROGRAM.format(more="", trainer="GRPOTrainer"))
    arguments = "--num_generations 16 --per_device_train_batch_size 1 --gradient_accumulation_steps 4 --output_dir out"
    (tmp_path / "run.sh").write_text(f"torchrun --nproc_per_node 1 grpo.py --bf16 {arguments}\n")
    (found,) = [each for each in check([tmp_path]).findings if each.rule == RULE]
    assert [remedy.text for remedy in found.remedies] == ["16 samples a rank: 1 x 16 hold whole groups of 16"]


@pytest.mark.parametrize(
    ("program", "told"),
    [
        (PROGRAM.format(more="", trainer="GRPOTrainer"), True),
        (PROGRAM.format(more=OWN, trainer="OwnTrainer"), False),
        (PROGRAM.format(more="from trainers import Answering", trainer="Answering"), False),
        (PROGRAM.format(more="from unsloth import FastLanguageModel", trainer="GRPOTrainer"), False),
    ],
    ids=["TRL's trainer", "an own one", "one from elsewhere", "made larger"],
)
def test_the_program_tells_whose_trainer_it_is(tmp_path: Path, program: str, told: bool) -> None:
    arguments = "--num_generations 4 --per_device_train_batch_size 2 --gradient_accumulation_steps 1"
    assert answers(tmp_path, arguments, program) is told


def test_the_answers_in_a_file_of_arguments(tmp_path: Path) -> None:
    lines = ("bf16: true", "output_dir: out", "num_generations: 4", "per_device_train_batch_size: 2")
    (tmp_path / "grpo.yaml").write_text("\n".join(lines) + "\n")
    (tmp_path / "run.sh").write_text("torchrun --nproc_per_node 3 grpo.py --config grpo.yaml\n")
    (found,) = (each for each in check([tmp_path]).findings if each.rule == RULE)
    assert (found.span.path.rpartition("/")[2], found.span.line) == ("grpo.yaml", 3)


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ("data.train_batch_size=16 actor_rollout_ref.actor.ppo_mini_batch_size=32", True),
        ("data.train_batch_size=32 actor_rollout_ref.actor.ppo_mini_batch_size=32", False),
        (
            "data.train_batch_size=16 actor_rollout_ref.actor.ppo_mini_batch_size=32 "
            "actor_rollout_ref.actor.use_dynamic_bsz=True",
            False,
        ),
        ("data.train_batch_size=$PROMPTS actor_rollout_ref.actor.ppo_mini_batch_size=32", False),
    ],
)
def test_a_roll_out_is_at_least_what_one_step_takes(tmp_path: Path, keys: str, told: bool) -> None:
    line = f"python3 -m verl.trainer.main_ppo {keys} actor_rollout_ref.rollout.n=2 "
    counts = "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 trainer.nnodes=1 trainer.n_gpus_per_node=8\n"
    (tmp_path / "run.sh").write_text(line + counts)
    assert any(each.rule == RULE for each in check([tmp_path]).findings) is told


def test_the_roll_out_of_easyr1(tmp_path: Path) -> None:
    head = "data:\n  rollout_batch_size: {}\nworker:\n  actor:\n    global_batch_size: 128\n"
    rest = "    micro_batch_size_per_device_for_update: 4\n  rollout:\n    n: 4\ntrainer: {nnodes: 1, n_gpus_per_node: 8}\n"
    for prompts, told in ((64, True), (128, False)):
        (tmp_path / "config.yaml").write_text(head.format(prompts) + rest)
        assert any(each.rule == RULE for each in check([tmp_path]).findings) is told


@pytest.mark.parametrize(
    ("local", "part", "expected"),
    [
        (14, "pipeline_parallel_microbatch_size = 4", [RULE]),
        (16, "pipeline_parallel_microbatch_size = 4", []),
        (14, "", []),
    ],
)
def test_a_pipelines_parts_make_up_the_local_batch(tmp_path: Path, local: int, part: str, expected: list[str]) -> None:
    text = f"[training]\nlocal_batch_size = {local}\n[parallelism]\npipeline_parallel_degree = 2\n{part}\n"
    (tmp_path / "conf.toml").write_text(f'[model]\nname = "llama3"\nflavor = "8B"\n{text}')
    (tmp_path / "run.sh").write_text("torchrun --nproc_per_node 8 -m torchtitan.train --job.config_file conf.toml\n")
    found = [each.rule for each in check([tmp_path]).findings if each.severity == "error"]
    assert found == expected
