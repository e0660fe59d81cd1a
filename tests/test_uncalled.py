"""A fault in a method that nothing calls is a note in a repository checked as a whole, and an error for who names it."""

import pytest
from earned_rules import EARNED

from dtlint.api import check

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


def severities(paths=(".",)):
    found = check(list(paths), rules=EARNED).findings
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
    ("use", "severity"),
    [
        ("if args.keep:\n    print()\n", "note"),
        ("print(self.training_args.keep)\n", "note"),
        ("args.keep()\n", "error"),
        ("every(trainer.keep)\n", "error"),
    ],
)
@pytest.mark.parametrize("path", ["train.py", "tools/other.py"])
def test_a_setting_of_the_same_name_calls_no_method(tree, use, severity, path):
    files = {"own/trainer.py": TRAINER, "train.py": USE, "run.sh": LAUNCH, **BESIDE}
    tree({**files, path: files.get(path, "") + use})
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


@pytest.mark.parametrize(
    ("program", "severity"),
    [
        ("import own.trainer\n", "note"),
        (USE, "note"),
        (f"{USE}trainer.keep()\n", "error"),
    ],
)
def test_a_class_that_is_built_elsewhere_and_a_method_that_is_not_called(tree, program, severity):
    files = {"train.py": TRAINER + "if __name__ == '__main__':\n    run()\n", "tools/other.py": program}
    tree({**files, "run.sh": LAUNCH, **BESIDE})
    assert severities() == [severity]


WAITING = """
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Net(nn.Module):
    def __init__(self, config):
        self.step = 0
        self.first = -1
        self.warmup = config.warmup

    def count(self, step):
        self.step = step

    def forward(self, x):
        if self.training and {condition}:
            if dist.get_rank() == 0:
                dist.broadcast(x, 0)
        return x


{more}
def fit(config, data):
    model = DistributedDataParallel(Net(config))
    for x in data:
        model(x).sum().backward()


fit(config, data)
"""


def waiting(condition="self.step > self.warmup", more=""):
    return WAITING.format(condition=condition, more=more)


@pytest.mark.parametrize(
    ("program", "severity"),
    [
        (waiting(), "note"),
        (waiting("self.warmup < self.step"), "note"),
        (waiting("self.step >= self.warmup"), "error"),
        (waiting("self.step > -1"), "error"),
        (waiting("self.first < self.warmup"), "error"),
        (waiting(more="class More(Net):\n    def go(self):\n        self.step += 1\n"), "error"),
        (waiting(more="def count_on(model, step):\n    model.step = step\n"), "error"),
        (waiting(more="def count_on(model, step):\n    model.count(step)\n"), "error"),
        (waiting().replace("return x", "self.step += 1"), "error"),
        (waiting().replace("nn.Module", "Loop"), "error"),
        (waiting().replace("    def count", "    @on_step\n    def count"), "error"),
    ],
)
def test_a_counter_that_nothing_counts_is_waited_for_in_vain(tree, program, severity):
    tree({"train.py": program, "run.sh": LAUNCH, **BESIDE})
    assert severities() == [severity]


@pytest.mark.parametrize(("more", "severity"), [("", "note"), ("        self.announce(x)\n", "error")])
def test_all_calls_of_a_function_may_wait(tree, more, severity):
    text = waiting().replace(
        "if dist.get_rank() == 0:\n                dist.broadcast(x, 0)\n",
        f"self.announce(x)\n{more}",
    )
    announce = "    def announce(self, x):\n        if dist.get_rank() == 0:\n            dist.broadcast(x, 0)\n\n"
    tree({"train.py": text.replace("    def forward", f"{announce}    def forward"), "run.sh": LAUNCH, **BESIDE})
    assert severities() == [severity]


@pytest.mark.parametrize(
    ("elsewhere", "severity"),
    [
        ("model.module.count(3)\n", "error"),
        ("model.step = 3\n", "error"),
        ("setattr(model, 'step', 3)\n", "error"),
        ("class More(net.Net):\n    pass\n", "error"),
        ("self.step = 3\nprint(model.step == 3)\n", "note"),
    ],
)
def test_another_file_of_the_tree_may_count(tree, elsewhere, severity):
    tree({"train.py": waiting(), "tools/hooks.py": elsewhere, "run.sh": LAUNCH, **BESIDE})
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


def built_empty(body="pass", between="", reads="if args.model == 'a':", handed="args"):
    return f"""
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Args:
    def __init__(self):
        {body}


def load(args):
    import torch
    {reads}
        return torch.nn.Linear(2, 2)


def main():
    args = Args()
    rank = dist.get_rank()
    {between}
    net = load({handed})
    model = DistributedDataParallel(net)
    for x in data:
        model(x).sum().backward()
    if rank == 0:
        dist.barrier()


if __name__ == '__main__':
    main()
"""


@pytest.mark.parametrize(
    ("program", "severity"),
    [
        (built_empty(), "note"),
        (built_empty(reads="if args.model.large and ready:"), "note"),
        (built_empty(reads='"""A net."""\n    if args.model:'), "note"),
        (built_empty(between="print(args.model)"), "note"),
        (built_empty(body="self.model = 'a'"), "error"),
        (built_empty(between="args.model = 'a'"), "error"),
        (built_empty(between="fill(args)"), "error"),
        (built_empty(between="Args.model = 'a'"), "error"),
        (built_empty(reads="if ready and args.model:"), "error"),
        (built_empty(reads="if getattr(args, 'model', 'a') == 'a':"), "error"),
        (built_empty(handed="parsed(args)"), "error"),
        (built_empty().replace("class Args:", "class Args(Parsed):"), "error"),
    ],
)
def test_a_program_that_reads_what_an_object_lacks_stops_before(tree, program, severity):
    tree({"train.py": program, "run.sh": LAUNCH, **BESIDE})
    assert severities() == [severity]


def test_in_a_tree_of_one_program_too(tree):
    tree({"own/trainer.py": TRAINER, "train.py": USE, "run.sh": LAUNCH})
    assert severities() == ["note"]


def test_who_names_the_file_is_told(tree):
    tree({"own/trainer.py": TRAINER, "train.py": USE, "run.sh": LAUNCH})
    assert severities(["own/trainer.py", "run.sh"]) == ["error"]


MEASURED = """
import torch

__all__ = ["count", "speed"]


def count(model):
    return sum(p.numel() for p in model.parameters())


def speed(model, rounds):
    for _ in range(rounds):
        model(x).sum().backward()
        torch.cuda.synchronize()


def compare(models):
    return [speed(model, 5) for model in models]
"""
COUNTS = """
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from own import count
{more}

dist.init_process_group("nccl")
model = DistributedDataParallel(Net())
count(model)
for x in data:
    model(x).sum().backward()
    optimizer.step()
"""
PACKAGE = "from .measured import count, speed\n"


def synchronised(paths=("run.sh",)):
    return [each.severity for each in check(list(paths), rules=EARNED).findings if each.rule == "sync-every-step"]


@pytest.mark.parametrize(
    ("more", "severity"),
    [
        ("", "note"),
        ("from own import speed", "note"),
        ("other.speed(model)", "note"),
        ("print('speed', 'the speed of it')", "note"),
        ("from own import speed\nspeed(model, n)", "warning"),
        ("from own.measured import speed as go\ngo(model, n)", "warning"),
        ("import own.measured\nown.measured.compare([model])", "warning"),
        ("from own import measured\nmeasured.speed(model, n)", "warning"),
        ("from own.measured import compare\nstart(compare)", "warning"),
        ("start('own.measured.speed')", "warning"),
        ("from own import measured\ngetattr(measured, what)(model)", "warning"),
        ("globals()[what](model)", "warning"),
    ],
)
def test_a_function_that_the_launched_program_does_not_come_to(tree, more, severity):
    files = {"own/__init__.py": PACKAGE, "own/measured.py": MEASURED, "train.py": COUNTS.format(more=more)}
    tree({**files, "run.sh": LAUNCH})
    assert synchronised() == [severity]


@pytest.mark.parametrize(
    ("elsewhere", "severity"),
    [
        ("from own import speed\nspeed(model, 9)\n", "warning"),
        ("from own.measured import compare\ncompare([model])\n", "warning"),
        ("def speed(model):\n    pass\n\n\nspeed(model)\n", "note"),
        ("from own import speed\n", "note"),
        ("from own import speed\nspeed(model\n", "warning"),
    ],
)
def test_another_file_of_the_tree_may_call_a_function(tree, elsewhere, severity):
    files = {"own/__init__.py": PACKAGE, "own/measured.py": MEASURED, "train.py": COUNTS.format(more="")}
    tree({**files, "run.sh": LAUNCH, "tools/other.py": elsewhere})
    assert synchronised() == [severity]


@pytest.mark.parametrize(("decorator", "severity"), [("@register\n", "warning"), ("@torch.no_grad()\n", "note")])
def test_a_decorator_may_hand_a_function_on(tree, decorator, severity):
    measured = MEASURED.replace("def speed", f"{decorator}def speed")
    files = {"own/__init__.py": PACKAGE, "own/measured.py": measured, "train.py": COUNTS.format(more="")}
    tree({**files, "run.sh": LAUNCH})
    assert synchronised() == [severity]


def test_a_function_of_the_entry_is_told(tree):
    tree({"train.py": COUNTS.format(more=MEASURED).replace("from own import count\n", ""), "run.sh": LAUNCH})
    assert synchronised() == ["warning"]


def test_who_names_the_file_of_a_function_is_told(tree):
    files = {"own/__init__.py": PACKAGE, "own/measured.py": MEASURED, "train.py": COUNTS.format(more="")}
    tree({**files, "run.sh": LAUNCH})
    assert synchronised(["own/measured.py", "run.sh"]) == ["warning"]
