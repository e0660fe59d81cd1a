"""Exits of training loops by what an object remembers of this rank's own share of the samples."""

from __future__ import annotations

import pytest

from dtlint.frameworks import code
from dtlint.languages.python import link, read_module
from dtlint.source import Source
from dtlint.value import Value

HEAD = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler
from net import Net, train_set, valid_set
rank = dist.get_rank()
model = DDP(Net().cuda())
loader = DataLoader(train_set, sampler=DistributedSampler(train_set))
valid = DataLoader(valid_set, sampler=DistributedSampler(valid_set, shuffle=False))
"""
VALIDATE = """
def validate():
    total, seen = torch.zeros(1).cuda(), 0
    for x, y in valid:
        total += criterion(model(x), y)
        seen += len(x)
    return total.item() / seen
"""
STOPPER = """
class Stopper:
    def __init__(self, patience):
        self.patience, self.best, self.waited, self.stop = patience, None, 0, False
    def __call__(self, value):
        if self.best is None or value < self.best:
            self.best, self.waited = value, 0
        else:
            self.waited += 1
            if self.waited >= self.patience:
                self.stop = True
    def add(self, value):
        self.compare(value)
    def compare(self, value):
        self.waited = 0 if value < self.best else self.waited + 1
    @property
    def over(self):
        return self.waited > self.patience
    def is_over(self):
        return self.waited > self.patience
"""
METER = """
class Meter:
    def __init__(self):
        self.sum = self.count = self.avg = 0
    def update(self, value, n=1):
        self.sum += value * n
        self.count += n
        self.avg = self.sum / self.count
    @property
    def mean(self):
        return self.sum / self.count
"""
TURN = """
stopper = Stopper(3)
for epoch in range(9):
    for x, y in loader:
        criterion(model(x), y).backward()
    value = validate()
    {told}
    if {test}:
        break
"""


def exits(text: str) -> list[object]:
    """The conditions of exits that part the ranks by what each has measured."""
    program = link({"train.py": read_module(Source("train.py", HEAD + text))})
    fields = [member.fields for member in code.collections(program).get("code.divergences", ())]
    return [_plain(each["condition"]) for each in fields if _plain(each["cause"]) == "dealt"]


def _plain(value: object) -> object:
    return value.value if isinstance(value, Value) else None


@pytest.mark.parametrize(
    ("told", "test"),
    [
        ("stopper(value)", "stopper.stop"),
        ("stopper(value)", "stopper.waited >= 3"),
        ("stopper.add(value)", "stopper.over"),
        ("stopper.add(value)", "stopper.is_over()"),
        ("stopper.compare(value=value)", "epoch > 3 and stopper.is_over()"),
    ],
)
def test_a_stopper_that_each_rank_feeds_its_own_measure(told: str, test: str) -> None:
    assert exits(VALIDATE + STOPPER + TURN.format(told=told, test=test)) == [test]


@pytest.mark.parametrize(
    ("told", "test"),
    [
        ("dist.all_reduce(value)\n    stopper(value)", "stopper.stop"),
        ("value = average_over_ranks_sync(value)\n    stopper(value)", "stopper.stop"),
        ("stopper(value)\n    stopper.synchronize()", "stopper.stop"),
        ("stopper(value)\n    flag = torch.tensor(stopper.stop)\n    dist.broadcast(flag, 0)", "flag.item()"),
        ("stopper(epoch)", "stopper.stop"),
        ("stopper.add(value)", "stopper.patience > 9"),
        ("other(value)", "stopper.stop"),
    ],
)
def test_a_stopper_whose_measure_the_ranks_share_or_that_takes_another(told: str, test: str) -> None:
    assert exits(VALIDATE + STOPPER + TURN.format(told=told, test=test)) == []


@pytest.mark.parametrize("loop", ["DataLoader(valid_set)", "whole"])
def test_a_measure_of_the_whole_set_is_the_same_on_all_ranks(loop: str) -> None:
    text = VALIDATE.replace("in valid:", f"in {loop}:") + STOPPER
    assert exits(text + TURN.format(told="stopper(value)", test="stopper.stop")) == []


def test_a_sum_over_all_ranks_by_as_many_samples_on_each() -> None:
    text = VALIDATE.replace("    return", "    dist.all_reduce(total)\n    return")
    assert exits(text + STOPPER + TURN.format(told="stopper(value)", test="stopper.stop")) == []


METERED = """
def validate():
    meter = Meter()
    for x, y in valid:
        loss = criterion(model(x), y)
        meter.update(loss.item(), x.size(0))
    {told}
    return {result}
"""


@pytest.mark.parametrize(
    ("told", "result", "parts"),
    [
        ("pass", "meter.avg", True),
        ("pass", "meter.mean", True),
        ("pass", "meter.count", False),
        ("meter.all_reduce()", "meter.avg", False),
        ("reduce_meters([meter])", "meter.avg", False),
    ],
)
def test_a_meter_over_the_share_of_a_rank(told: str, result: str, parts: bool) -> None:
    text = METER + METERED.format(told=told.replace("reduce_meters", "sync"), result=result) + "best = 9\n"
    found = exits(text + TURN.replace("stopper = Stopper(3)", "").format(told="pass", test="value > best"))
    assert found == (["value > best"] if parts else [])


KEPT = """
class Trainer:
    def __init__(self):
        self.model, self.best, self.waited = DDP(Net().cuda()), 0, 0
        self.stopper = Stopper(3)
    def epoch(self):
        for x, y in loader:
            criterion(self.model(x), y).backward()
    def validate(self):
        hits = 0
        for x, y in valid:
            hits += (self.model(x).argmax(-1) == y).sum().item()
        {after}
        self.stopper.add(hits)
        self.waited = 0 if hits > self.best else self.waited + 1
    def fit(self):
        for epoch in range(9):
            self.epoch()
            self.validate()
            if {test}:
                break
Trainer().fit()
"""


@pytest.mark.parametrize("test", ["self.stopper.is_over()", "self.stopper.over", "self.waited > 3"])
@pytest.mark.parametrize(("after", "parts"), [("pass", True), ("hits = self.all_reduce(hits)", False)])
def test_what_a_trainer_remembers_of_its_validation(test: str, after: str, parts: bool) -> None:
    assert exits(STOPPER + KEPT.format(after=after, test=test)) == ([test] if parts else [])


FIT = """
accelerator = Accelerator()
shared = accelerator.prepare(loader)
def ready(data):
    return data
def missed(scores):
    found = None
    if sum(scores) > 3:
        found = torch.ones(1)
    return found
scores = []
for step, batch in enumerate(shared):
    scores.append(model(batch).item())
    inputs = ready(batch) if args.include_inputs else None
    if {test}:
        dist.barrier()
    model(batch).sum().backward()
"""


@pytest.mark.parametrize(
    ("test", "cause"),
    [
        ("inputs is not None", None),
        ("ready(batch) is not None", None),
        ("inputs is None or args.all", None),
        ('"mask" in ready(batch)', None),
        ("ready(batch).shape[1] > 512", None),
        ("ready(batch).dtype == torch.int64", None),
        ("ready(step) % 100 == 0", None),
        ("ready(batch).max() > 512", "dealt"),
        ("sum(scores) > 3", "dealt"),
        ("missed(scores) is not None", "dealt"),
    ],
)
def test_whether_a_value_is_there_is_no_measure_of_it(test: str, cause: str | None) -> None:
    text = HEAD + "from accelerate import Accelerator\nfrom options import args\n" + FIT.format(test=test)
    found = code.collections(link({"train.py": read_module(Source("train.py", text))})).get("code.divergences", ())
    assert [_plain(each.fields["cause"]) for each in found] == ([] if cause is None else [cause])


BOUND = """
scores = []
found = None
for batch in loader:
    scores.append(model(batch).item())
if {asked}:
    found = torch.ones(1)
if found is not None:
    dist.barrier()
for batch in loader:
    model(batch).sum().backward()
"""


@pytest.mark.parametrize(
    ("asked", "cause"), [("sum(scores) > 3", "dealt"), ("rank == 0", "partial"), ("len(scores) > 3", None)]
)
def test_a_value_that_is_there_on_some_ranks(asked: str, cause: str | None) -> None:
    text = HEAD + BOUND.format(asked=asked)
    found = code.collections(link({"train.py": read_module(Source("train.py", text))})).get("code.divergences", ())
    assert [_plain(each.fields["cause"]) for each in found] == ([] if cause is None else [cause])
