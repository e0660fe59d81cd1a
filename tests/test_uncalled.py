"""A fault in a method that nothing calls is a note in a repository checked as a whole, and an error for who names it."""

import pytest

from dtlint.api import check
from dtlint.rulebook.load import built_in

TRAINER = """
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Base:
    def save(self):
        print("saved")


class Trainer(Base):
    def __init__(self, model):
        dist.init_process_group("nccl")
        self.model = DistributedDataParallel(model)

    def fit(self, data):
        for x in data:
            self.model(x).sum().backward()

    def keep(self):
        if dist.get_rank() == 0:
            dist.barrier()
"""
LAUNCH = "torchrun --nproc_per_node 8 train.py\n"
BESIDE = {
    "other.py": "from torch.nn.parallel import DistributedDataParallel\nDistributedDataParallel(m)(x).backward()\n",
    "more.sh": "torchrun --nproc_per_node 8 other.py\n",
}
USE = "from own.trainer import Trainer\ntrainer = Trainer(model)\ntrainer.fit(data)\n"


RULES = [rule._replace(judged=None) for rule in built_in()]
"""The rules as if each had earned its severity."""


def severities(paths=(".",)):
    found = check(list(paths), rules=RULES).findings
    return [each.severity for each in found if each.rule == "collective-rank-guarded"]


@pytest.mark.parametrize(
    ("program", "severity"),
    [
        (USE, "note"),
        (f"{USE}trainer.keep()\n", "error"),
        (f"{USE}call(trainer, 'keep')\n", "error"),
        (f"{USE}getattr(importlib.import_module(name), kind)()\n", "error"),
        ("import own.trainer\n", "note"),
        ("from own.trainer import Trainer\n", "note"),
        ("from own.trainer import Trainer\nclass Mine(Trainer):\n    def go(self):\n        self.keep()\n", "error"),
    ],
)
def test_nothing_in_the_program_calls_it(tree, program, severity):
    tree({"own/trainer.py": TRAINER, "train.py": program, "run.sh": LAUNCH, **BESIDE})
    assert severities() == [severity]


@pytest.mark.parametrize(
    "base",
    ["Base", "object", "hub.SavingMixin", "Generic[T]"],
)
@pytest.mark.parametrize(("unknown", "severity"), [("", "note"), (", lightning.Callback", "error")])
def test_a_class_from_elsewhere_calls_what_is_built_on_it(tree, base, unknown, severity):
    text = TRAINER.replace("class Trainer(Base)", f"class Trainer({base}{unknown})")
    tree({"own/trainer.py": text, "train.py": USE, "run.sh": LAUNCH, **BESIDE})
    assert severities() == [severity]


@pytest.mark.parametrize("decorator", ["registry.register", "torch.compile()"])
def test_a_decorator_hands_a_method_on(tree, decorator):
    text = TRAINER.replace("    def keep", f"    @{decorator}\n    def keep")
    tree({"own/trainer.py": text, "train.py": USE, "run.sh": LAUNCH, **BESIDE})
    assert severities() == ["error"]


@pytest.mark.parametrize(
    ("elsewhere", "severity"),
    [("trainer.keep()\n", "error"), ("class More(own.Trainer):\n    pass\n", "note"), ("keep()\n", "note")],
)
def test_another_file_of_the_tree_may_call_it(tree, elsewhere, severity):
    files = {"own/trainer.py": TRAINER, "train.py": USE, "tools/last.py": elsewhere}
    tree({**files, "run.sh": LAUNCH, **BESIDE})
    assert severities() == [severity]


def test_who_names_the_file_is_told(tree):
    tree({"own/trainer.py": TRAINER, "train.py": USE, "run.sh": LAUNCH})
    assert severities(["own/trainer.py", "run.sh"]) == ["error"]
