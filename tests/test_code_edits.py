"""Edits of training code: each silences its finding, changes nothing else, and leaves a file that Python takes."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dtlint.api import check_set, options_of
from dtlint.config import Config
from dtlint.fix import Fixed, Texts, fix
from dtlint.runs import read_runs

HEAD = """\
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler
from net import Net, data, policy, save, batches, optimizer

dist.init_process_group("nccl")
torch.cuda.set_device(dist.get_rank() % 8)
"""

Fix = Callable[[str], str]


@pytest.fixture
def fixed(tmp_path: Path) -> Fix:
    """A program's text after every remedy, unsafe ones too."""
    return lambda text: _fixed(tmp_path, text, True)


@pytest.fixture
def safely_fixed(tmp_path: Path) -> Fix:
    return lambda text: _fixed(tmp_path, text, False)


def _fixed(folder: Path, text: str, unsafe: bool) -> str:
    file = folder / "train.py"
    file.write_bytes(text.encode())

    def check(texts: Texts) -> object:
        return check_set(read_runs([folder], options_of({})._replace(texts=texts)), Config())

    found: Fixed = fix(check, unsafe)  # type: ignore[arg-type]
    return found.texts.get(file.resolve(), text)


EPOCHS = """\
model = DDP(Net().cuda())
sampler = DistributedSampler(data)
loader = DataLoader(data, 8, sampler=sampler)
for epoch in range(9):
    for batch in loader:
        model(batch).backward()
        optimizer.step()
"""
CLIP = """\
model = FSDP(Net().cuda(), auto_wrap_policy=policy)
for batch in batches:
    model(batch).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
"""
LOSS = """\
world = dist.get_world_size()
model = DDP(Net().cuda())
for batch in batches:
    loss = model(batch).mean()
    (loss / world).backward()
    optimizer.step()
"""
WAIT = """\
model = DDP(Net().cuda())
for batch in batches:
    model(batch).backward()
    optimizer.step()
if dist.get_rank() == 0:
    save(model)
    dist.barrier()
"""
SYNCED = """\
model = DDP(Net().cuda())
for batch in batches:
    model(batch).backward()
    optimizer.step()
    torch.cuda.synchronize()
"""


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        pytest.param(EPOCHS, "9):\n", "9):\n    sampler.set_epoch(epoch)\n", id="a sampler is told the epoch"),
        pytest.param(
            EPOCHS.replace("sampler = DistributedSampler(data)\n", "").replace("=sampler", "=DistributedSampler(data)"),
            "9):\n",
            "9):\n    loader.sampler.set_epoch(epoch)\n",
            id="a sampler that only its loader knows",
        ),
        pytest.param(
            CLIP, "nn.utils.clip_grad_norm_(model.parameters(), 1", "model.clip_grad_norm_(1", id="FSDP clips"
        ),
        pytest.param(
            CLIP.replace("(model.parameters(), 1.0)", "(\n        model.parameters(),\n        max_norm=1.0,\n    )"),
            "nn.utils.clip_grad_norm_(\n        model.parameters(),\n        max_norm=1.0,\n    )",
            "model.clip_grad_norm_(max_norm=1.0,\n    )",
            id="FSDP clips, over several lines",
        ),
        pytest.param(LOSS, "(loss / world).", "(loss).", id="a loss is not divided"),
        pytest.param(
            LOSS.replace("(loss / world).", "loss = (loss + 1) / world\n    loss."),
            "(loss + 1) / world",
            "(loss + 1)",
            id="a sum is not divided",
        ),
        pytest.param(
            LOSS.replace("(loss / world).", "loss /= world  # mean\n    loss."),
            "    loss /= world  # mean\n",
            "",
            id="a statement that divides goes",
        ),
        pytest.param(
            LOSS.replace("(loss / world).", "(world * loss)."),
            "(world * loss)",
            "(loss)",
            id="a loss is not multiplied",
        ),
        pytest.param(WAIT, "    dist.barrier()\n", "dist.barrier()\n", id="a barrier for all ranks"),
        pytest.param(SYNCED, "    torch.cuda.synchronize()\n", "", id="no wait for the GPU"),
        pytest.param(
            EPOCHS.replace("\n", "\r\n"), "9):\r\n", "9):\r\n    sampler.set_epoch(epoch)\r\n", id="lines that end CRLF"
        ),
    ],
)
def test_one_change(fixed: Fix, text: str, before: str, after: str) -> None:
    assert text.count(before) == 1
    assert fixed(HEAD + text) == HEAD + text.replace(before, after)


@pytest.mark.parametrize("text", [EPOCHS, CLIP, LOSS], ids=["the order of samples", "the norm", "the gradients"])
def test_what_changes_the_training_is_not_safe(safely_fixed: Fix, text: str) -> None:
    assert safely_fixed(HEAD + text) == HEAD + text


@pytest.mark.parametrize("text", [WAIT, SYNCED], ids=["a barrier", "a synchronisation"])
def test_what_leaves_the_training_is_safe(safely_fixed: Fix, text: str) -> None:
    assert safely_fixed(HEAD + text) != HEAD + text


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            EPOCHS.replace(
                "sampler = DistributedSampler(data)\n",
                "sampler = None\nif dist.get_world_size() > 1:\n    sampler = DistributedSampler(data)\n",
            ),
            id="a sampler that may be None",
        ),
        pytest.param(EPOCHS + "for epoch in range(3):\n    save(model)\n", id="two loops over epochs"),
        pytest.param(
            EPOCHS.replace("    for batch in loader", "    save(model); print(1)\n    for batch in loader")
            .replace("9):\n    save", "9): save")
            .replace(
                "print(1)\n    for batch in loader:\n        model(batch).backward()\n        optimizer.step()",
                "model(next(iter(loader))).backward(); optimizer.step()",
            ),
            id="a loop on one line",
        ),
        pytest.param(CLIP.replace("1.0)", "1.0, error_if_nonfinite=True)"), id="an option that the method lacks"),
        pytest.param(CLIP.replace("1.0)", "(1.0))"), id="a norm in brackets"),
        pytest.param(LOSS.replace("loss / world", "loss / ( # of ranks /\n    world)"), id="a comment beside the sign"),
        pytest.param(WAIT.replace("    dist.barrier()\n", "    dist.barrier(); print(1)\n"), id="two on a line"),
        pytest.param(WAIT + "else:\n    print(0)\n", id="a branch for the others"),
        pytest.param(WAIT.replace("    save(model)\n", ""), id="nothing else in the branch"),
        pytest.param(SYNCED.replace("synchronize()", "empty_cache()"), id="memory that may be wanted back"),
    ],
)
def test_what_is_not_plain_is_left_alone(fixed: Fix, text: str) -> None:
    assert fixed(HEAD + text) == HEAD + text


@pytest.mark.parametrize("text", [WAIT, SYNCED, CLIP], ids=["errors", "warnings", "errors that change the training"])
def test_one_mistake_in_two_places_is_mended_in_both(fixed: Fix, text: str) -> None:
    again = text.replace("model", "other")
    assert fixed(HEAD + text + again) == fixed(HEAD + text) + fixed(HEAD + again)[len(HEAD) :]


def test_a_notebook_is_left_alone(tmp_path: Path) -> None:
    lines = ",".join(f'"{line}\\n"' for line in (HEAD + SYNCED).replace('"', '\\"').splitlines())
    text = f'{{"cells": [{{"cell_type": "code", "source": [{lines}]}}], "metadata": {{}}, "nbformat": 4}}'
    file = tmp_path / "train.ipynb"
    file.write_text(text)
    found = fix(lambda texts: check_set(read_runs([tmp_path], options_of({})._replace(texts=texts)), Config()), True)
    assert found.texts == {}
    assert [finding.rule for finding in found.report.findings] == ["sync-every-step"]


COMMENTS = st.sampled_from(["", "  # why not", "  # é, ü", "\t# a / b * c"])
BLANKS = st.sampled_from(["", "\n", "# a line\n", "\n\n"])
INDENTS = st.sampled_from(["    ", "  ", "\t"])
NEWLINES = st.sampled_from(["\n", "\r\n"])
PROGRAMS = st.sampled_from([EPOCHS, CLIP, LOSS, WAIT, SYNCED])


@given(PROGRAMS, COMMENTS, BLANKS, INDENTS, NEWLINES, st.booleans())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_one_line_changes_however_a_program_is_written(
    tmp_path: Path, program: str, comment: str, blank: str, indent: str, newline: str, inside: bool
) -> None:
    body = "".join(f"{line}{comment}\n{blank}" for line in program.splitlines())
    if inside:
        body = "def main():\n" + "".join(f"    {line}\n" if line else "\n" for line in body.splitlines()) + "main()\n"
    text = (HEAD + body).replace("    ", indent).replace("\n", newline)
    changed = _fixed(tmp_path, text, True)
    before, after = text.splitlines(keepends=True), changed.splitlines(keepends=True)
    ast.parse(changed)
    assert changed != text
    assert len(set(before) ^ set(after)) <= 2
    assert abs(len(before) - len(after)) <= 1
    assert _fixed(tmp_path, changed, True) == changed
