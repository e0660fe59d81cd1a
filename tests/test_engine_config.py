"""Engines of DeepSpeed that take their config from the command line: what it holds is never DeepSpeed's default."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtlint.runs import Options, read_runs
from dtlint.runs.model import RunSet
from dtlint.value import Unknown

PROGRAM = """import argparse, deepspeed
from net import Net

parser = argparse.ArgumentParser()
parser = deepspeed.add_config_arguments(parser)
args = parser.parse_args()
model = Net()
engine, *_ = deepspeed.initialize(args=args, model=model, model_parameters=model.parameters()CONFIG)
"""
JSON = '{"train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": true}, "zero_optimization": {"stage": 2}}'
HELD = ("sharding.stage", "precision.compute", "batch.accumulation", "batch.micro")


def runs(folder: Path, *asked: str, config: str = "", **files: str) -> RunSet:
    for name, text in {"train.py": PROGRAM.replace("CONFIG", config), "ds.json": JSON, **files}.items():
        (folder / name).write_text(text)
    return read_runs([folder / name for name in asked], Options())


def test_without_a_launch_what_the_config_holds_is_unknown(tmp_path: Path) -> None:
    (run,) = runs(tmp_path, "train.py").runs
    assert run.plan.value("framework") == "deepspeed"
    found = [run.plan.get(name) for name in HELD]
    assert all(isinstance(each, Unknown) for each in found)
    assert "the command line that starts the program" in str(found[0])


def test_so_it_is_of_a_launch_that_names_none(tmp_path: Path) -> None:
    (run,) = runs(tmp_path, "run.sh", **{"run.sh": "deepspeed --num_gpus 8 train.py\n"}).runs
    assert isinstance(run.plan.get("sharding.stage"), Unknown)


def test_and_where_the_program_makes_it_unseen(tmp_path: Path) -> None:
    (run,) = runs(tmp_path, "train.py", config=", config=made()").runs
    found = run.plan.get("sharding.stage")
    assert isinstance(found, Unknown)
    assert "not written out" in found.reason


@pytest.mark.parametrize(
    ("asked", "launch"),
    [
        (("run.sh",), "deepspeed --num_gpus 8 train.py --deepspeed_config ds.json\n"),
        (("run.sh", "ds.json"), "deepspeed --num_gpus 8 train.py\n"),
    ],
    ids=["named", "beside"],
)
def test_a_launch_tells_it(tmp_path: Path, asked: tuple[str, ...], launch: str) -> None:
    (run,) = runs(tmp_path, *asked, **{"run.sh": launch}).runs
    assert [run.plan.value(name) for name in HELD] == [2, "bf16", 1, 2]


def test_what_the_config_leaves_out_has_its_default(tmp_path: Path) -> None:
    (run,) = runs(tmp_path, "train.py", config=', config={"train_batch_size": 8}').runs
    assert run.plan.value("sharding.stage") == 0


def test_the_argument_may_name_a_file_by_itself(tmp_path: Path) -> None:
    named = PROGRAM.replace("parser = deepspeed", 'parser.add_argument("--deepspeed_config", default="ds.json")\n#')
    launch = "deepspeed --num_gpus 8 train.py"
    files = {"train.py": named.replace("CONFIG", ""), "run.sh": f"{launch}\n"}
    (run,) = runs(tmp_path, "run.sh", **files).runs
    assert run.plan.value("sharding.stage") == 2
    files["run.sh"] = f"{launch} --deepspeed_config other.json\n"
    (run,) = runs(tmp_path, "run.sh", **files, **{"other.json": JSON.replace("2}", "3}")}).runs
    assert run.plan.value("sharding.stage") == 3


def test_program_and_config_of_one_folder_are_one_run(tmp_path: Path) -> None:
    found = runs(tmp_path, "train.py", "ds.json")
    (run,) = found.runs
    assert run.plan.value("sharding.stage") == 2
    assert any("stands beside it and was taken as its DeepSpeed config" in remark for remark in found.remarks)


@pytest.mark.parametrize("config", [', config="other.json"', ', config={"train_batch_size": 8}'])
def test_a_program_that_has_one_takes_no_other(tmp_path: Path, config: str) -> None:
    found = runs(tmp_path, "train.py", "ds.json", config=config, **{"other.json": JSON})
    assert len(found.runs) == 2


def test_of_two_configs_nobody_knows_which_it_takes(tmp_path: Path) -> None:
    found = runs(tmp_path, "train.py", "ds.json", "other.json", **{"other.json": JSON})
    assert len(found.runs) == 3
