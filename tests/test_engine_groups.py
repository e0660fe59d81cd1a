"""Engines of DeepSpeed that a program tells of its groups of ranks: their data parallelism is what these leave."""

from __future__ import annotations

import pytest

from dtlint.api import check
from dtlint.plan import Plan
from dtlint.value import Unknown

PROGRAM = """import argparse
import deepspeed
import mpu

parser = argparse.ArgumentParser()
parser.add_argument("--model-parallel-size", type=int, default=2)
parser.add_argument("--deepspeed_config")
args = parser.parse_args()
{starts}
engine, *_ = deepspeed.initialize(args=args, model=net, model_parameters=net.parameters(){groups})
for batch in data:
    engine.backward(engine(batch))
    engine.step()
"""
LAYERS = "def initialize_model_parallel(model_parallel_size_): pass\n"
STARTS = "mpu.initialize_model_parallel({size})"
CONFIG = '{"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 1}'


def plan(tree, starts: str, groups: str, more: str = "") -> Plan:
    tree(
        {
            "train.py": PROGRAM.format(starts=starts, groups=groups),
            "mpu/__init__.py": LAYERS,
            "ds.json": CONFIG,
            "run.sh": f"deepspeed --num_gpus 8 train.py --deepspeed_config ds.json{more}\n",
        }
    )
    return check(["run.sh"]).runs[0].plan


@pytest.mark.parametrize(
    ("size", "more", "tensor"),
    [
        ("args.model_parallel_size", " --model-parallel-size 4", 4),
        ("args.model_parallel_size", "", 2),
        ("tensor_model_parallel_size=8", "", 8),
    ],
)
def test_the_groups_that_it_makes_share_a_layer(tree, size: str, more: str, tensor: int) -> None:
    found = plan(tree, STARTS.format(size=size), ", mpu=mpu", more)
    names = ("parallel.tensor", "parallel.data", "batch.global")
    assert tuple(map(found.integer, names)) == (tensor, 8 // tensor, 4 * 8 // tensor)


def test_groups_of_a_size_that_is_not_told_leave_the_rest_unknown(tree) -> None:
    found = plan(tree, STARTS.format(size="sizes[model]"), ", mpu=mpu")
    assert isinstance(found.get("parallel.tensor"), Unknown)
    assert found.integer("parallel.data") is None


@pytest.mark.parametrize(
    ("starts", "groups"), [(STARTS.format(size=4), ""), (STARTS.format(size=4), ", mpu=None"), ("", "")]
)
def test_an_engine_that_is_told_of_none_trains_by_data_alone(tree, starts: str, groups: str) -> None:
    assert plan(tree, starts, groups).integer("parallel.data") == 8
