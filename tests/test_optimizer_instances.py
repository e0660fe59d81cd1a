"""Several instances of Megatron's distributed optimizer: how many ranks hold the same parameters, of experts too."""

from __future__ import annotations

import pytest

from dtlint.api import check

WORDS = """
export CUDA_DEVICE_MAX_CONNECTIONS=1
{install}
torchrun --nproc_per_node {gpus} --standalone pretrain_gpt.py --tensor-model-parallel-size 2 {degrees} --num-experts 8 \\
  --num-layers 12 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 --max-position-embeddings 1024 --bf16 \\
  --micro-batch-size 1 --global-batch-size 64 --sequence-parallel --use-distributed-optimizer --overlap-grad-reduce \\
  --overlap-param-gather --num-distributed-optimizer-instances {instances}
"""
BRIDGE = """
from megatron.bridge.recipes.qwen import qwen3_30b_a3b_pretrain_config
from megatron.bridge.training.gpt_step import forward_step
from megatron.bridge.training.pretrain import pretrain

cfg = qwen3_30b_a3b_pretrain_config()
cfg.model.tensor_model_parallel_size = 1
cfg.model.pipeline_model_parallel_size = 1
cfg.model.context_parallel_size = 1
cfg.model.expert_model_parallel_size = 8
cfg.model.expert_tensor_parallel_size = 1
cfg.ddp.num_distributed_optimizer_instances = {instances}
pretrain(cfg, forward_step)
"""


def told() -> list[str]:
    return [each.message for each in check(["run.sh"]).findings if each.rule == "world-size-mismatch"]


@pytest.mark.parametrize(
    ("gpus", "degrees", "instances", "wrong"),
    [
        (4, "--expert-model-parallel-size 2", 2, True),
        (8, "--expert-model-parallel-size 2", 2, False),
        (4, "--expert-model-parallel-size 1", 2, False),
        (4, "--expert-model-parallel-size 2 --expert-tensor-parallel-size 1", 2, False),
        (8, "--expert-model-parallel-size 8 --expert-tensor-parallel-size 1", 2, True),
        (16, "--pipeline-model-parallel-size 2 --expert-model-parallel-size 4", 2, True),
        (16, "--expert-model-parallel-size 4", 2, False),
        (4, "--expert-model-parallel-size 2", 1, False),
    ],
)
def test_the_experts_ranks_divide_into_the_instances(tree, gpus, degrees, instances, wrong):
    tree({"run.sh": WORDS.format(gpus=gpus, degrees=degrees, instances=instances, install="")})
    assert [text for text in told() if "instances" in text] == told()
    assert bool(told()) is wrong


@pytest.mark.parametrize(("version", "wrong"), [("0.12.1", False), ("0.13.0", True)])
def test_older_cores_leave_the_experts_whole(tree, version, wrong):
    install = f"pip install megatron-core=={version}"
    text = WORDS.format(gpus=4, degrees="--expert-model-parallel-size 2", instances=2, install=install)
    tree({"run.sh": text})
    assert bool(told()) is wrong


@pytest.mark.parametrize(("instances", "wrong"), [(2, True), (1, False)])
def test_a_config_of_megatron_bridge(tree, instances, wrong):
    tree({"pretrain.py": BRIDGE.format(instances=instances), "run.sh": "torchrun --nproc_per_node 8 pretrain.py\n"})
    assert bool(told()) is wrong
