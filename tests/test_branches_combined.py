"""A default that all branches of a ladder share is not what the smallest of them is known to be started with."""

import pytest

from dtlint.api import check

LADDER = """{tensor}
case $1 in
  llama) SHAPE="--num-layers {layers} --hidden-size {hidden} --num-attention-heads 32" ;;
  gpt) SHAPE="--num-layers 24 --hidden-size 2048 --num-attention-heads 16" ;;
esac
export CUDA_DEVICE_MAX_CONNECTIONS=1
torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size $TP --sequence-parallel $SHAPE \\
  --seq-length 2048 --max-position-embeddings 2048 --vocab-size 32000 --micro-batch-size 1 --global-batch-size 64 --bf16 \\
  --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather
"""
OPTIONS = (
    'TP=8\nMODEL=$1\nshift\nwhile [[ $# -gt 0 ]]; do case $1 in --tp) TP="$2"; shift; shift;; esac; done\nset -- $MODEL'
)


@pytest.mark.parametrize(
    ("tensor", "layers", "hidden", "severity"),
    [
        ("TP=${TP:-8}", 80, 8192, "note"),
        ("TP=8", 80, 8192, "warning"),
        ("TP=${TP:-8}", 24, 2048, "warning"),
        (OPTIONS, 80, 8192, "note"),
    ],
)
def test_the_small_model_of_a_ladder(tree, tensor, layers, hidden, severity):
    """8 ranks cut the small model's 2048 into 256 each; where every branch is as small, the default is too large for all."""
    tree({"run.sh": LADDER.format(tensor=tensor, layers=layers, hidden=hidden)})
    found = [each.severity for each in check(["run.sh"]).findings if each.rule == "tp-too-large-for-model"]
    assert found == [severity]
