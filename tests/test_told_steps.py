"""Accumulation whose step is told to the call that goes backward, and whose length a caller passes (DT409)."""

from __future__ import annotations

from pathlib import Path

import pytest
from python_texts import program_of

from dtlint.api import check
from dtlint.frameworks import code
from dtlint.value import Value

HEAD = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP
from nets import Net, batches
"""
SCALER = """
class Scaler:
    def __init__(self):
        self.scaler = torch.cuda.amp.GradScaler()
    def __call__(self, loss, optimizer, clip=None, update=True):
        self.scaler.scale(loss).backward()
        if STEPS:
            self.scaler.step(optimizer)
            self.scaler.update()
"""
LOOP = """
def train(model, optimizer, scaler, every):
    for i, batch in enumerate(batches):
        scaler(model(batch) / every, optimizer, TOLD)
model = DDP(Net().cuda())
optimizer = torch.optim.AdamW(model.parameters())
for epoch in range(3):
    train(model, optimizer, Scaler(), EVERY)
"""


def accumulations(text: str) -> list[object]:
    found = code.collections(program_of(HEAD, text)).get("code.unskipped_exchanges", ())
    return [value.value for each in found if isinstance(value := each.fields["accumulation"], Value)]


def scaled(told: str = "update=(i + 1) % every == 0", steps: str = "update", every: str = "8") -> str:
    return SCALER.replace("STEPS", steps) + LOOP.replace("TOLD", told).replace("EVERY", every)


@pytest.mark.parametrize("told", ["update=(i + 1) % every == 0", "clip=1, update=not (i + 1) % every"])
def test_a_scaler_is_told_when_to_step(told: str) -> None:
    assert accumulations(scaled(told)) == [8]


@pytest.mark.parametrize(
    "text",
    [
        scaled("clip=1"),
        scaled("update=True"),
        scaled(every="1"),
        scaled(every="pick()"),
        scaled(steps="True"),
        scaled(steps="clip"),
        scaled().replace("scaler(model", "with model.no_sync():\n            model(batch)\n        scaler(model"),
        scaled().replace("DDP(Net().cuda())", "Net().cuda()"),
        scaled().replace("Scaler(), EVERY", "made(), 8").replace("Scaler(), 8", "made(), 8"),
    ],
    ids=["unasked", "always", "each batch", "unknown", "unguarded", "by another", "no_sync", "one GPU", "a stranger"],
)
def test_scalers_that_step_in_each_batch_or_nobody_knows(text: str) -> None:
    assert accumulations(text) == []


def test_a_function_is_told_too() -> None:
    helper = "\ndef go(loss, opt, last):\n    loss.backward()\n    if last:\n        opt.step()\n"
    loop = LOOP.replace("scaler(model(batch) / every, optimizer, TOLD)", "go(model(batch), optimizer, i % every == 7)")
    assert accumulations(helper + loop.replace("Scaler()", "None").replace("EVERY", "8")) == [8]


PLAIN = """
def train(model, optimizer, every):
    for i, batch in enumerate(batches):
        model(batch).backward()
        if (i + 1) % every == 0:
            optimizer.step()
            optimizer.zero_grad()
model = DDP(Net().cuda())
optimizer = torch.optim.AdamW(model.parameters())
"""


@pytest.mark.parametrize(
    ("calls", "found"),
    [
        ("train(model, optimizer, 8)", [8]),
        ("train(model, optimizer, every=4)", [4]),
        ("train(model, optimizer, 1)", []),
        ("train(model, optimizer, 8)\ntrain(model, optimizer, 1)", []),
        ("train(model, optimizer, pick())", []),
    ],
)
def test_a_caller_passes_the_number_of_batches(calls: str, found: list[int]) -> None:
    assert accumulations(f"{PLAIN}{calls}\n") == found


@pytest.mark.parametrize(("words", "told"), [("--accum_iter 4", True), ("", False)])
def test_the_launch_says_it(tmp_path: Path, words: str, told: bool) -> None:
    parser = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--accum_iter', type=int, default=1)\n"
    text = parser + "args = p.parse_args()\n" + HEAD + scaled(every="args.accum_iter")
    (tmp_path / "train.py").write_text(text)
    (tmp_path / "run.sh").write_text(f"torchrun --nproc_per_node 8 train.py {words}\n")
    assert ("ddp-no-sync-missing" in {each.rule for each in check([tmp_path / "run.sh"]).findings}) is told
