"""A loss that is divided by an accumulation of 1 is as it was: where the tree sets no other number, that is a note."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtlint.api import check

PROGRAM = """from accelerate import Accelerator
from net import Net, batches, optimizer
from settings import config

accelerator = Accelerator(gradient_accumulation_steps=config.TRAIN.ACCUM_STEPS)
model, optimizer = accelerator.prepare(Net(), optimizer)
for batch in batches:
    with accelerator.accumulate(model):
        loss = model(batch) / config.TRAIN.ACCUM_STEPS
        accelerator.backward(loss)
        optimizer.step()
"""
NODE = "from yacs.config import CfgNode\n\nconfig = CfgNode()\nconfig.TRAIN = CfgNode()\nconfig.TRAIN.ACCUM_STEPS = 1\n"
FIELDS = "import configs\n\n\nclass Train:\n    ACCUM_STEPS: int = 1\n\n\nconfig = configs.load(Train)\n"
LAUNCH = "accelerate launch --multi_gpu --num_machines 1 --num_processes 8 train.py"


def severities(*paths: str) -> list[str]:
    return [
        each.severity for each in check([Path(path) for path in paths]).findings if each.rule == "grad-accum-conflict"
    ]


@pytest.mark.parametrize("settings", [NODE, FIELDS])
@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({}, "note"),
        ({"conf/small.yaml": "TRAIN:\n  ACCUM_STEPS: 1  # one batch\n"}, "note"),
        ({"conf/large.yaml": "TRAIN:\n  ACCUM_STEPS: 16\n"}, "error"),
        ({"README.md": "    accelerate launch train.py TRAIN.ACCUM_STEPS 4\n"}, "error"),
        ({"run.sh": f"{LAUNCH} TRAIN.ACCUM_STEPS $STEPS\n"}, "error"),
        ({"options.py": "parser.add_argument('--accum-steps', type=int)\n"}, "error"),
    ],
    ids=["alone", "the same", "a config", "a command line", "a variable", "an option"],
)
def test_an_accumulation_that_the_tree_sets_to_one(tree, settings: str, other: dict[str, str], told: str) -> None:
    tree({"train.py": PROGRAM, "settings.py": settings, "run.sh": f"{LAUNCH}\n", **other})
    assert severities(".") == [told]


@pytest.mark.parametrize(("flag", "told"), [("", ["note"]), (" --accum 8", ["error"]), (" --accum 1", ["note"])])
def test_an_accumulation_that_the_launch_passes(tree, flag: str, told: list[str]) -> None:
    options = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--accum', type=int, default=1)\n"
    text = PROGRAM.replace("config.TRAIN.ACCUM_STEPS", "args.accum").replace(
        "from settings import config\n", f"{options}args = p.parse_args()\n"
    )
    tree({"train.py": text, "run.sh": f"{LAUNCH}{flag}\n"})
    assert severities(".") == told


def test_a_number_that_nothing_in_the_tree_sets_may_be_any(tree) -> None:
    tree({"train.py": PROGRAM, "run.sh": f"{LAUNCH}\n"})
    assert severities(".") == ["error"]
