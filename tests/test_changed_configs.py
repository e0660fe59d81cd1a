"""DeepSpeed configs that no launch names, in a tree whose program sets keys in the config that it loads."""

from __future__ import annotations

from pathlib import Path

from dtlint.api import check

CONFIG = """\
{
  "train_micro_batch_size_per_gpu": 4,
  "fp16": {"enabled": true},
  "bf16": {"enabled": true},
  "zero_optimization": {"stage": 2}
}
"""
TRAIN = """\
import json
import deepspeed
from settings import arguments, fitted

args = arguments()
with open(args.config_path) as file:
    config = fitted(json.load(file), args)
engine, *_ = deepspeed.initialize(model=model, config=config)
for batch in loader:
    engine.backward(engine(batch))
    engine.step()
"""
SETTINGS = """\
import argparse

def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--config-path")
    parser.add_argument("--fp16", action="store_true")
    parser.add_argument("--bf16", action="store_true")
    return parser.parse_args()

def fitted(config, args):
    SETS
    return config
"""
SWITCHES = """if args.fp16:
        config["bf16"]["enabled"] = False
    else:
        config["fp16"]["enabled"] = False"""


def errors(folder: Path, sets: str, launch: str = "") -> list[str]:
    (folder / "configs").mkdir()
    (folder / "configs" / "zero2.json").write_text(CONFIG)
    (folder / "train.py").write_text(TRAIN)
    (folder / "settings.py").write_text(SETTINGS.replace("SETS", sets))
    if launch:
        (folder / "run.sh").write_text(f"{launch}\ndeepspeed other.py --deepspeed_config missing.json\n")
    return [found.message for found in check([folder]).findings if found.rule == "setting-type"]


BOTH = "'enabled' takes one of fp16 and bf16, not true"
LAUNCH = "deepspeed --num_gpus 8 train.py --bf16 --config-path $STAGE.json"


def test_what_the_program_of_a_launch_sets_is_not_known(tmp_path: Path) -> None:
    assert errors(tmp_path, SWITCHES, LAUNCH) == []


def test_what_a_program_without_a_launch_sets_is_not_known(tmp_path: Path) -> None:
    assert errors(tmp_path, SWITCHES) == []


def test_what_it_leaves_alone_stands(tmp_path: Path) -> None:
    assert errors(tmp_path, 'config["train_micro_batch_size_per_gpu"] = 8', LAUNCH) == [BOTH]
