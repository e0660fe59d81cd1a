"""Lightning's Trainer that hydra makes of a config, started by srun: its devices are those of the composed config."""

import pytest

from dtlint.api import check

TRAIN = """
import hydra
import lightning as L
from hydra.utils import instantiate


@hydra.main(version_base="1.3", config_path="conf", config_name="train")
def main(cfg):
    trainer = {made}
    trainer.fit(instantiate(cfg.model))


main()
"""
MADE = "instantiate(cfg.trainer, callbacks=[])"
JOB = """#!/bin/bash
#SBATCH --nodes=4
#SBATCH --ntasks-per-node={tasks}
#SBATCH --gres=gpu:8
srun python -m ours.train trainer=many {words}
"""
MANY = "_target_: {target}\naccelerator: gpu\ndevices: {devices}\nnum_nodes: 4\nstrategy: ddp\nprecision: bf16-mixed\n"


def told(tree, made=MADE, tasks=1, words="", first="defaults:\n  - trainer: few\n", above="", **many):
    group = MANY.format(**{"target": "lightning.Trainer", "devices": 8, **many})
    files = {
        "job.sh": JOB.format(tasks=tasks, words=words),
        "ours/train.py": TRAIN.format(made=made),
        "ours/conf/trainer/many.yaml": group,
        "ours/conf/trainer/few.yaml": group.replace("devices: 8", "devices: 1"),
    }
    files |= {"ours/conf/train.yaml": first} if first else {}
    tree({name if name == "job.sh" else f"{above}{name}": text for name, text in files.items()})
    return [each.span.line for each in check(["job.sh"]).findings if each.rule == "slurm-tasks-mismatch"]


@pytest.mark.parametrize(
    "written",
    [
        {},
        {"target": "pytorch_lightning.Trainer"},
        {"devices": "auto"},
        {"devices": "[0, 1, 2, 3]"},
        {"made": "L.Trainer(**cfg.trainer)"},
        {"first": ""},
        {"above": "src/"},
        {"tasks": 4},
        {"tasks": 8, "words": "trainer.devices=4"},
    ],
    ids=["group", "package", "all", "list", "unpacked", "first config missing", "package in src", "tasks", "override"],
)
def test_tasks_that_do_not_fit_the_devices_are_told(tree, written):
    assert told(tree, **written) == [3]


@pytest.mark.parametrize(
    "written",
    [
        {"tasks": 8},
        {"words": "trainer.devices=1"},
        {"made": "instantiate(cfg.trainer, devices=1)"},
        {"made": "L.Trainer(**cfg.trainer, devices=1)"},
        {"devices": "${oc.env:GPUS}"},
        {"devices": "???"},
        {"target": "ours.Trainer"},
    ],
    ids=["tasks", "override", "argument", "argument beside", "variable", "to be given", "another class"],
)
def test_tasks_that_fit_or_may_are_not(tree, written):
    assert told(tree, **written) == []


def test_a_section_of_another_trainer_is_not_lightnings(tree):
    config = "data:\n  train: x.parquet\ntrainer:\n  project: p\n  total_epochs: 4\n  logger: [console]\n  nnodes: 1\n  device: cuda\n"
    program = """
import hydra
from hydra.utils import instantiate
from torch.distributed.fsdp import FullyShardedDataParallel

@hydra.main(config_path="conf", config_name="sft")
def main(config):
    data = instantiate(config.data)
    model = FullyShardedDataParallel(Net())
"""
    launch = "torchrun --nproc_per_node 8 train.py trainer.total_epochs=2\n"
    tree({"train.py": program, "conf/sft.yaml": config, "run.sh": launch})
    assert [each.rule for each in check(["run.sh"]).findings if each.rule == "unknown-setting"] == []
