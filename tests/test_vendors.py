"""Whose accelerators a launch is for, and what is not said of a run on another vendor's."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtlint.api import check
from dtlint.value import Value

LAUNCH = """#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-task=1
{line}
srun python train.py
"""


def vendor(folder: Path, line: str) -> object:
    (folder / "run.sh").write_text(LAUNCH.format(line=line))
    (run,) = check([folder]).runs
    found = run.plan.get("cluster.vendor")
    return found.value if isinstance(found, Value) else None


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("module load PrgEnv-gnu rocm/6.3.1", "amd"),
        ("ml craype-accel-amd-gfx90a", "amd"),
        ("export HSA_FORCE_FINE_GRAIN_PCIE=1", "amd"),
        ("export HCCL_CONNECT_TIMEOUT=7200", "ascend"),
        ("export PYTORCH_NPU_ALLOC_CONF=expandable_segments:True", "ascend"),
        ("source /usr/local/Ascend/ascend-toolkit/set_env.sh", "ascend"),
        ("source /opt/conda/bin/activate train", None),
        ("export NEURON_RT_EXEC_TIMEOUT=100", "neuron"),
        ("export CCL_ATL_TRANSPORT=mpi", "intel"),
        ("module load cuda/12.1 gcc", None),
        ("export NCCL_DEBUG=WARN CUDA_HOME=/usr/local/cuda", None),
        ("echo module load rocm", None),
    ],
)
def test_variables_and_modules_tell_the_vendor(tmp_path: Path, line: str, told: str | None) -> None:
    assert vendor(tmp_path, line) == told


def test_nvlink_is_not_missed_on_cards_of_another_vendor(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text(LAUNCH.format(line="module load rocm"))
    assert "gpu-binding" not in {finding.rule for finding in check([tmp_path]).findings}
    (tmp_path / "run.sh").write_text(LAUNCH.format(line="module load cuda"))
    assert "gpu-binding" in {finding.rule for finding in check([tmp_path]).findings}


def test_no_price_is_taken_from_nvidias_cards(tmp_path: Path) -> None:
    megatron = (
        "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 "
        "--seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 16 --bf16 "
        "--pipeline-model-parallel-size 8 --vocab-size 32000\n"
    )
    (tmp_path / "run.sh").write_text(megatron)
    (priced,) = [found for found in check([tmp_path]).findings if found.rule == "pipeline-bubble"]
    assert priced.cost.seconds_per_step is not None
    (tmp_path / "run.sh").write_text(f"export HIP_VISIBLE_DEVICES=0,1,2,3,4,5,6,7\n{megatron}")
    (unpriced,) = [found for found in check([tmp_path]).findings if found.rule == "pipeline-bubble"]
    assert unpriced.cost.seconds_per_step is None


MOE = """[parallelism]
tensor_parallel_degree = 1
expert_parallel_degree = 32
data_parallel_shard_degree = 32
[training]
local_batch_size = 1
[job]
{key} = "{value}"
"""
START = "torchrun --nnodes 4 --nproc_per_node 8 --rdzv_endpoint n0:1 -m {program} --job.config_file moe.toml\n"


@pytest.mark.parametrize(
    ("program", "value", "told"),
    [
        ("torchtitan.train", "torchtitan.config", None),
        ("torchtitan_npu.entry", "torchtitan.config", "ascend"),
        ("torchtitan.train", "torchtitan_npu.config", "ascend"),
    ],
)
def test_packages_of_a_vendor_leave_its_fast_domain_open(
    tmp_path: Path, program: str, value: str, told: str | None
) -> None:
    (tmp_path / "moe.toml").write_text(MOE.format(key="custom_config_module", value=value))
    (tmp_path / "run.sh").write_text(START.format(program=program))
    report = check([tmp_path])
    assert {run.plan.word("cluster.vendor") for run in report.runs} == {told}
    assert {run.plan.integer("cluster.nvlink_domain") for run in report.runs} == {None if told else 8}
    crossing = [found for found in report.findings if found.rule == "ep-crosses-node"]
    assert [found.severity for found in crossing] == ([] if told else ["note"])
    assert all("--overlap-moe" not in remedy.text for found in crossing for remedy in found.remedies)


@pytest.mark.parametrize(
    ("line", "severity"),
    [("export NEURON_RT_EXEC_TIMEOUT=100", "note"), ("module load rocm", "error"), ("export NCCL_DEBUG=WARN", "error")],
)
def test_uneven_heads_are_a_note_in_a_port_to_other_accelerators(tmp_path: Path, line: str, severity: str) -> None:
    (tmp_path / "run.sh").write_text(
        f"{line}\ntorchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size 8 --num-layers 4"
        " --hidden-size 4544 --num-attention-heads 71 --seq-length 1024 --max-position-embeddings 1024"
        " --micro-batch-size 1 --global-batch-size 8 --bf16\n"
    )
    (found,) = [finding for finding in check([tmp_path]).findings if finding.rule == "heads-not-divisible"]
    assert found.severity == severity


def test_sequence_parallelism_stands_in_the_product_that_is_told(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text(
        "python3 -m verl.trainer.main_ppo actor_rollout_ref.actor.ulysses_sequence_parallel_size=4"
        " actor_rollout_ref.actor.strategy=fsdp trainer.n_gpus_per_node=2 trainer.nnodes=1\n"
    )
    (found,) = [finding for finding in check([tmp_path]).findings if finding.rule == "world-size-mismatch"]
    assert "4 GPUs (TP 1 x PP 1 x CP 1 x SP 4), the launch starts 2" in found.message
