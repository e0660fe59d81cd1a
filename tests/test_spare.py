"""Configs of an engine that lie in a tree whose launches take others: judged as files, not as runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtlint.api import check

HALF = '{"train_micro_batch_size_per_gpu": 4, "bf16": {"enabled": true}, "zero_optimization": {"stage": 1}}'
WHOLE = '{"train_micro_batch_size_per_gpu": 4, "fp16": {"enabled": false}, "zero_optimization": {"stage": 1}}'
TWIN = {"train.sh": "deepspeed --num_gpus 8 train.py --deepspeed_config half.json\n", "half.json": HALF}
ACCELERATE = """compute_environment: LOCAL_MACHINE
distributed_type: DEEPSPEED
mixed_precision: 'no'
num_machines: 1
num_processes: 8
deepspeed_config:
  zero_stage: 3
"""


def found(*paths: str) -> list[tuple[str, str]]:
    return [(each.rule, each.span.path) for each in check([Path(path) for path in paths]).findings]


def test_the_twin_of_the_config_that_is_launched(tree) -> None:
    tree({**TWIN, "whole.json": WHOLE})
    assert ("fp32-training", "whole.json") not in found(".")
    remark = "1 warning about speed is not told: no launch here takes the config"
    assert remark in check([Path()]).remarks


def test_a_file_that_the_user_names_speaks(tree) -> None:
    tree({**TWIN, "whole.json": WHOLE})
    assert ("fp32-training", "whole.json") in found("whole.json")


@pytest.mark.parametrize(
    "others",
    [
        {},
        {"predict.sh": "deepspeed --num_gpus 8 predict.py --deepspeed_config half.json\n", "half.json": HALF},
    ],
    ids=["no launch", "a launch that does not train"],
)
def test_a_config_of_a_tree_without_a_launch_that_trains_speaks(tree, others: dict[str, str]) -> None:
    tree({**others, "whole.json": WHOLE})
    assert ("fp32-training", "whole.json") in found(".")


def test_an_example_of_a_library_beside_launches_of_another_engine(tree) -> None:
    launch = "torchrun --nproc_per_node 8 train.py --bf16 True --output_dir out --per_device_train_batch_size 1\n"
    tree({"train.sh": launch, "lib/examples/zero3.yaml": ACCELERATE})
    assert "lib/examples/zero3.yaml" not in [path for _, path in found(".")]


def test_what_is_wrong_in_the_file_itself_stays(tree) -> None:
    inert = '{"bf16": {"enabled": true}, "zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}}}'
    unknown = '{"bf16": {"enabled": true}, "zero_optimization": {"stage": 2, "overlap_com": true}}'
    tree({**TWIN, "inert.json": inert, "unknown.json": unknown})
    rules = found(".")
    assert ("inert-setting", "inert.json") in rules
    assert ("unknown-setting", "unknown.json") in rules


def test_a_config_that_one_of_the_launches_takes_speaks(tree) -> None:
    launch = "deepspeed --num_gpus 8 train.py --deepspeed_config whole.json\n"
    tree({**TWIN, "other.sh": launch, "whole.json": WHOLE})
    assert ("fp32-training", "whole.json") in found(".")
