"""Key and value heads divide over TP in every framework that refuses the rest, and are shared where one shares them."""

import pytest

from dtlint.api import check

MEGATRON = (
    "torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size {tensor} --num-layers 32 --hidden-size 4096"
    " --num-attention-heads 32 {groups} --seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 --bf16 {more}\n"
)
TITAN = """[model]
name = "llama3"
flavor = "8B"
[training]
local_batch_size = 2
seq_len = 8192
[parallelism]
tensor_parallel_degree = {tensor}
"""
DEEPSPEED = "--deepspeed --deepspeed_config ds.json"


def files(framework: str, tensor: int) -> dict[str, str]:
    if framework == "torchtitan":
        launch = "torchrun --nnodes 2 --nproc_per_node 8 -m torchtitan.train --job.config_file conf.toml\n"
        return {"run.sh": launch, "conf.toml": TITAN.format(tensor=tensor)}
    groups, more = ("--num-key-value-heads 4", DEEPSPEED) if framework == "megatron-deepspeed" else ("", "")
    groups = groups or "--group-query-attention --num-query-groups 4"
    return {"run.sh": MEGATRON.format(tensor=tensor, groups=groups, more=more), "ds.json": '{"train_batch_size": 8}'}


@pytest.mark.parametrize(
    ("framework", "tensor", "fires"),
    [
        ("torchtitan", 8, False),
        ("torchtitan", 16, True),
        ("megatron-deepspeed", 4, False),
        ("megatron-deepspeed", 8, True),
        ("megatron", 8, False),
    ],
)
def test_a_rank_has_whole_key_and_value_heads(tree, framework: str, tensor: int, fires: bool) -> None:
    """Llama 3 8B has 8 of them, the others here 4; Megatron's releases since 0.16 let several ranks hold one."""
    tree(files(framework, tensor))
    found = [each.message for each in check(["run.sh"]).findings if each.rule == "heads-not-divisible"]
    assert [("key-value" in message) for message in found] == ([True] if fires else [])
