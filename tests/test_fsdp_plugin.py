"""Accelerate's FullyShardedDataParallelPlugin in a program: its fields, and what the launcher says beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtlint.plan import Plan
from dtlint.runs import Options, read_runs

PROGRAM = """import torch
from accelerate import Accelerator, FullyShardedDataParallelPlugin
from torch.distributed.fsdp import CPUOffload, ShardingStrategy
from net import Net, batches, policy
plugin = FullyShardedDataParallelPlugin(FIELDS)
accelerator = Accelerator(mixed_precision="bf16", TAKEN)
model = accelerator.prepare(Net())
optimizer = accelerator.prepare(torch.optim.AdamW(model.parameters()))
for batch in batches:
    accelerator.backward(model(batch))
    optimizer.step()
"""
FILE = "distributed_type: FSDP\nnum_machines: 1\nnum_processes: 8\nfsdp_config:\n"
KEYS = "  fsdp_sharding_strategy: SHARD_GRAD_OP\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
STRATEGY = 'sharding_strategy="FULL_SHARD"'


def plan_of(folder: Path, fields: str, keys: str = "", taken: str = "fsdp_plugin=plugin") -> Plan:
    launch = "--config_file acc.yaml" if keys else "--multi_gpu --num_machines 1 --num_processes 8"
    (folder / "train.py").write_text(PROGRAM.replace("FIELDS", fields).replace("TAKEN", taken), encoding="utf-8")
    (folder / "acc.yaml").write_text(FILE + keys, encoding="utf-8")
    (folder / "run.sh").write_text(f"accelerate launch {launch} train.py\n", encoding="utf-8")
    (run,) = read_runs([folder / "run.sh"], Options({})).runs
    return run.plan


@pytest.mark.parametrize(
    ("fields", "setting", "value"),
    [
        (STRATEGY, "framework", "fsdp"),
        (STRATEGY, "sharding.stage", 3),
        (STRATEGY, "sharding.units", "none"),
        ("sharding_strategy=ShardingStrategy.SHARD_GRAD_OP", "sharding.stage", 2),
        ("sharding_strategy=3", "sharding.stage", 0),
        (f"{STRATEGY}, auto_wrap_policy=policy(Net)", "sharding.units", "wrapped"),
        (f'{STRATEGY}, auto_wrap_policy="NO_WRAP"', "sharding.units", "none"),
        (f"{STRATEGY}, cpu_offload=CPUOffload(offload_params=True)", "sharding.offload_parameters", "cpu"),
        (f"{STRATEGY}, cpu_offload=True", "sharding.offload_optimizer", "cpu"),
        (f'{STRATEGY}, backward_prefetch="BACKWARD_POST"', "sharding.prefetch", "backward_post"),
        (f"{STRATEGY}, activation_checkpointing=True", "checkpointing.activations", "full"),
        ("fsdp_version=2, reshard_after_forward=False", "sharding.reshard_after_forward", False),
    ],
)
def test_fields_of_the_plugin(tmp_path: Path, fields: str, setting: str, value: object) -> None:
    assert plan_of(tmp_path, fields).value(setting) == value


def test_a_plugin_that_no_accelerator_takes_says_nothing(tmp_path: Path) -> None:
    assert plan_of(tmp_path, STRATEGY, taken="step_scheduler_with_optimizer=False").value("framework") == "ddp"


def test_a_plugin_beside_a_config_says_nothing_of_sharding(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, "state_dict_config=None", KEYS)
    assert (plan.value("sharding.stage"), plan.value("sharding.units")) == (2, "wrapped")


def test_its_fields_count_before_the_launcher_and_the_launcher_before_what_it_takes_unasked(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, STRATEGY, KEYS)
    assert (plan.value("sharding.stage"), plan.value("sharding.units")) == (3, "wrapped")
    named = [member.fields["setting"].value for member in plan.collection("config.conflicts")]  # type: ignore[attr-defined]
    assert named == ["sharding.stage"]
