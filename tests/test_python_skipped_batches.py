"""Batches that a rank skips by what they hold, while the others go backward: exceptions, nothing made, a condition."""

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
from net import Net, loader, optimizer, settings
class Empty(RuntimeError):
    pass
def checked(labels):
    if labels.max() < 1:
        raise Empty("nothing")
def pick(labels, count):
    kept = []
    for row in labels:
        if row.sum() > 0:
            kept.append(row)
    if not kept:
        raise Empty("nothing")
    return kept
def find(labels):
    rows = labels.nonzero()
    if len(rows) == 0:
        return None
    return rows
def load(path):
    if not path.exists():
        raise Empty(path)
    return path
model = DDP(Net().cuda())
"""
LOOP = """
for i, (images, labels) in enumerate(loader):
    images = images.cuda()
    {body}
    model(images).backward()
    optimizer.step()
"""


def causes(body: str, loop: str = LOOP) -> list[object]:
    """Why ranks part in a loop."""
    text = HEAD + loop.format(body=body.replace("\n", "\n    "))
    found = code.collections(link({"train.py": read_module(Source("train.py", text))})).get("code.divergences", ())
    return [value.value for each in found if isinstance(value := each.fields["cause"], Value)]


def caught(tried: str, taken: str = "Empty", done: str = "continue", after: str = "") -> str:
    return f"try:\n    {tried}\nexcept {taken}:\n    {done}\n{after}"


@pytest.mark.parametrize(
    "body",
    [
        caught("kept = pick(labels, 3)"),
        caught("kept = pick(labels, 3)", "Exception as error", "print(error)\n    continue"),
        caught("kept = pick(labels, 3)", "RuntimeError"),
        caught("kept = pick(labels, 3)", "(KeyError, Empty)", "break"),
        caught("checked(labels)"),
        caught("if labels.sum() == 0: raise Empty"),
        caught("kept = pick(labels, 3)", done="kept = None", after="if kept is None:\n    continue\n"),
        "wanted = labels.cuda()\n" + caught("kept = pick(count=3, labels=wanted)"),
    ],
)
def test_an_exception_that_the_batch_of_a_rank_raises(body: str) -> None:
    assert causes(body) == ["raised"]


@pytest.mark.parametrize(
    "body",
    [
        caught("kept = pick(labels, 3)", done="kept = [0]"),
        caught("kept = pick(labels, 3)", done="raise"),
        caught("kept = pick(labels, 3)", "KeyError"),
        caught("kept = pick(settings.rows, 3)"),
        caught("path = load(settings.path)"),
        caught("kept = find(labels)"),
        caught("kept = pick(labels, 3)", done="kept = None", after="bad = agree(kept)\nif kept is None:\n    pass\n"),
        caught("kept = pick(labels, 3)", done="bad = 1", after="dist.all_reduce(bad)\nif bad:\n    continue\n"),
        caught("kept = pick(i, 3)"),
    ],
)
def test_an_exception_that_all_ranks_meet_or_that_skips_nothing(body: str) -> None:
    assert causes(body) == []


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("found = find(labels)\nif found is None:\n    continue", True),
        ("found = find(labels)\nif not found:\n    continue", True),
        ("found = find(settings.rows)\nif found is None:\n    continue", False),
        ("found = find(labels)\nif found is None:\n    print(i)", False),
        ("if (labels > 0).sum() == 0:\n    continue", True),
        ("positive = labels > 0\nif not positive.any():\n    continue", True),
        ("chosen = torch.where(labels != -100)[0]\nif len(chosen) == 0:\n    continue", True),
        ("count = (labels > 0).sum()\ndist.all_reduce(count)\nif count == 0:\n    continue", False),
        ("if len(labels) < 8:\n    continue", False),
        ("if i > 8:\n    continue", False),
        ("if (labels > 0).sum() == 0:\n    print(i)", False),
        ("if not (labels > 0).any():\n    raise ValueError", False),
    ],
)
def test_a_batch_with_nothing_to_learn_is_skipped(body: str, told: bool) -> None:
    assert causes(body) == (["picked"] if told else [])


def test_batches_by_their_number() -> None:
    loop = "batches = iter(loader)\nfor step in range(100):\n    {batch}\n    {{body}}\n    model(images).backward()\n"
    own, alike = "images, labels = next(batches)", "images, labels = step, step"
    assert causes(caught("pick(labels, 3)"), loop.format(batch=own)) == ["raised"]
    assert causes(caught("pick(labels, 3)"), loop.format(batch=alike)) == []


def test_a_rank_that_makes_up_what_it_skipped() -> None:
    loop = "step = 0\nwhile step < 100:\n    images, labels = next(loader)\n    {body}\n    model(images).backward()\n    step += 1\n"
    assert causes(caught("pick(labels, 3)"), loop) == ["counted"]


def test_without_a_wrapper_nothing_waits() -> None:
    head = HEAD.replace("DDP(Net().cuda())", "Net().cuda()")
    text = head + LOOP.format(body=caught("kept = pick(labels, 3)").replace("\n", "\n    "))
    assert code.collections(link({"train.py": read_module(Source("train.py", text))})).get("code.divergences", ()) == ()


STEPS = """
def train_step(images):
    {first}
    loss = model(images).mean()
    loss.backward()
for images, labels in loader:
    try:
        train_step(images)
    except {taken}:
        {done}
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("first", "taken", "done", "told"),
    [
        ("pass", "RuntimeError", "continue", True),
        ("pass", "RuntimeError as error", "optimizer.zero_grad()", True),
        ("pass", "RuntimeError", "raise", False),
        ("pass", "KeyboardInterrupt", "break", False),
        ("images = agree_by_all_reduce(images)", "RuntimeError", "continue", False),
    ],
)
def test_an_exception_of_a_function_that_goes_backward(first: str, taken: str, done: str, told: bool) -> None:
    text = HEAD + STEPS.format(first=first, taken=taken, done=done)
    found = code.collections(link({"train.py": read_module(Source("train.py", text))})).get("code.divergences", ())
    assert len(found) == int(told)
