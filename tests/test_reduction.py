"""The sum of the gradients at the end of a step: over which ranks, how often, and when it is worth a warning."""

from __future__ import annotations

import json
from pathlib import Path

from dtlint.api import check
from dtlint.facts import fact
from dtlint.plan import Plan

MOE = """torchrun --nnodes {nodes} --nproc_per_node 8 --rdzv_backend c10d --rdzv_endpoint n0:29500 pretrain_gpt.py \\
  --tensor-model-parallel-size 2 --sequence-parallel --context-parallel-size 4 --num-experts 64 \\
  --expert-model-parallel-size 8 --expert-tensor-parallel-size 1 --moe-token-dispatcher-type alltoall --bf16 --use-distributed-optimizer \\
  --micro-batch-size 1 --global-batch-size {batch}
"""


def plan_of(folder: Path, text: str) -> Plan:
    (folder / "run.sh").write_text(text)
    (run,) = check([folder / "run.sh"]).runs
    return run.plan


def severities(folder: Path) -> dict[str, str]:
    return {found.rule: found.severity for found in check([folder]).findings}


def test_dense_gradients_and_those_of_experts_are_summed_over_groups_of_their_own(tmp_path: Path) -> None:
    """16 ranks: TP 2 x CP 4 leaves DP 2, so DP x CP is 8; EP 8 leaves two ranks with the same experts."""
    plan = plan_of(tmp_path, MOE.format(nodes=2, batch=64))
    assert fact(plan, "communication.gradient_ranks") == 8
    assert fact(plan, "communication.expert_gradient_ranks") == 2
    assert fact(plan, "topology.gradient_nodes") == 2
    assert fact(plan, "communication.exchange_microbatches") == 32


def onebit(optimizer: str) -> str:
    return json.dumps(
        {
            "train_batch_size": 4096,
            "train_micro_batch_size_per_gpu": 16,
            "optimizer": {"type": optimizer, "params": {"lr": 0.001}},
            "fp16": {"enabled": True},
        }
    )


def test_optimizers_that_exchange_by_themselves_want_no_overlap_and_no_zero(tmp_path: Path) -> None:
    (tmp_path / "hostfile").write_text("a slots=8\nb slots=8\n")
    (tmp_path / "run.sh").write_text("deepspeed --hostfile hostfile train.py --deepspeed_config ds.json\n")
    for optimizer, speaks in (("OneBitLamb", False), ("ZeroOneAdam", False), ("Lamb", True)):
        (tmp_path / "ds.json").write_text(onebit(optimizer))
        assert ("no-overlap" in severities(tmp_path)) is speaks, optimizer


def test_an_exchange_that_many_microbatches_share_is_a_note(tmp_path: Path) -> None:
    """No shape is told, so the share of the step is not known."""
    switched = "policy: {{train_global_batch_size: {batch}, train_micro_batch_size: 1, precision: bfloat16,\n"
    switched += "  megatron_cfg: {{enabled: true, tensor_model_parallel_size: 4, context_parallel_size: 4,\n"
    switched += "    distributed_data_parallel_config: {{overlap_grad_reduce: false}}}}}}\n"
    switched += "cluster: {{num_nodes: 4, gpus_per_node: 8}}\n"
    for batch, severity in ((8, "warning"), (512, "note")):
        (tmp_path / "grpo.yaml").write_text(switched.format(batch=batch))
        assert severities(tmp_path)["no-overlap"] == severity, batch
