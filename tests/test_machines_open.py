"""An error that another number of machines mends is a note where that number is the default of a variable."""

import pytest

from dtlint.api import check

LAUNCH = """NODES={nodes}
torchrun --nproc_per_node 8 --nnodes $NODES --node_rank ${{RANK:-0}} --master_addr ${{MASTER_ADDR:-localhost}} pretrain_gpt.py \\
  --tensor-model-parallel-size {tensor} --pipeline-model-parallel-size {stages} --num-layers 48 --hidden-size 4096 \\
  --num-attention-heads 48 --seq-length 4096 --micro-batch-size 1 --bf16
"""


@pytest.mark.parametrize(
    "nodes",
    ["${WORLD_SIZE:-1}", "${NNODES:-1}", "${PET_NNODES:-1}", "${MLP_WORKER_NUM:-${WORLD_SIZE:-1}}"],
)
def test_the_default_of_a_variable(tree, nodes):
    tree({"run.sh": LAUNCH.format(nodes=nodes, tensor=8, stages=4)})
    assert severities() == ["note"]


def test_a_scheduler_tells_its_own_variable(tree):
    tree({"run.sh": LAUNCH.format(nodes="${SLURM_NNODES:-1}", tensor=8, stages=4)})
    assert severities() == []


def test_what_is_written_is_certain(tree):
    tree({"run.sh": LAUNCH.format(nodes="1", tensor=8, stages=4)})
    assert severities() == ["error"]


def test_what_no_number_of_machines_mends(tree):
    """Degrees of 4 x 3 x 2 are 24 processes; 16 on each machine make 16, 32, 48 ..."""
    mesh = "[parallelism]\ndata_parallel_shard_degree = 3\ntensor_parallel_degree = 4\npipeline_parallel_degree = 2\n"
    launch = "torchrun --nnodes ${NNODES:-1} --nproc_per_node 16 -m torchtitan.train --job.config_file conf.toml\n"
    tree({"run.sh": launch, "conf.toml": f"[training]\nlocal_batch_size = 8\nseq_len = 2048\n\n{mesh}"})
    assert severities() == ["error"]


@pytest.mark.parametrize(
    ("nodes", "gpus", "severity"),
    [
        ("${NNODES:-1}", "8", "note"),
        ("${NNODES:-1}", "${GPUS:-8}", "note"),
        ("1", "8", "error"),
        ("1", "${GPUS:-8}", "error"),
    ],
)
def test_a_tool_that_counts_nodes_times_gpus(tree, nodes, gpus, severity):
    actor = "actor_rollout_ref.actor.megatron"
    words = (
        "python3 -m verl.trainer.main_ppo --config-name=ppo_megatron_trainer actor_rollout_ref.model.path=Qwen/Qwen2.5-7B"
        f" {actor}.tensor_model_parallel_size=4 {actor}.pipeline_model_parallel_size=4"
        f" trainer.nnodes={nodes} trainer.n_gpus_per_node={gpus}\n"
    )
    tree({"run.sh": words})
    assert severities() == [severity]


def severities() -> list[str]:
    return [finding.severity for finding in check(["run.sh"]).findings if finding.rule == "world-size-mismatch"]
