"""The loss scale of fp16: `code.loss_scales` and `code.unscaled_units`, traps included."""

from __future__ import annotations

import pytest

from dtlint.frameworks import code
from dtlint.languages.python import link, read_module
from dtlint.source import Source
from dtlint.value import Value

DDP = """
import torch
from torch.nn.parallel import DistributedDataParallel
from net import Net, batches, optimizer
model = DistributedDataParallel(Net().cuda())
"""
SCALER = "scaler = torch.amp.GradScaler('cuda')\n"
PASS = "for x in batches:\n    scaler.scale(model(x)).backward()\n"
CLIP = "    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
STEP = "    scaler.step(optimizer)\n    scaler.update()\n"
AUTOCAST = "for x in batches:\n    with {context}:\n        loss = model(x)\n    loss.backward()\n"


def faults(text: str) -> list[object]:
    members = code.collections(link({"train.py": read_module(Source("train.py", text))})).get("code.loss_scales", ())
    values = (member.fields["fault"] for member in members)
    return [value.value for value in values if isinstance(value, Value)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (SCALER + PASS + CLIP + STEP, ["clipped"]),
        (SCALER.replace("norm", "value") + PASS + CLIP.replace("norm", "value") + STEP, ["clipped"]),
        (SCALER + PASS + "    scaler.unscale_(optimizer)\n" + CLIP + STEP, []),
        (SCALER + PASS + STEP + CLIP, []),
        (SCALER.replace("'cuda'", "'cuda', enabled=False") + PASS + CLIP + STEP, []),
        (SCALER.replace("'cuda'", "'cuda', enabled=args.fp16") + PASS + CLIP + STEP, []),
        (SCALER + PASS + CLIP.replace("1.0", "1.0 * scaler.get_scale()") + STEP, []),
    ],
)
def test_clipping_under_the_scale(text: str, found: list[str]) -> None:
    assert faults(DDP + text) == found


@pytest.mark.parametrize(
    ("context", "found"),
    [
        ("torch.autocast('cuda', dtype=torch.float16)", ["absent"]),
        ("torch.autocast('cuda')", ["absent"]),
        ("torch.cuda.amp.autocast()", ["absent"]),
        ("torch.cuda.amp.autocast(True)", ["absent"]),
        ("torch.cuda.amp.autocast(False)", []),
        ("torch.cuda.amp.autocast(enabled=args.amp)", []),
        ("torch.autocast('cuda', torch.bfloat16)", []),
        ("torch.autocast('cpu')", []),
        ("torch.autocast('cuda', dtype=chosen)", []),
    ],
)
def test_half_precision_without_a_scale(context: str, found: list[str]) -> None:
    assert faults(DDP + AUTOCAST.format(context=context)) == found


def test_a_scale_that_something_else_applies() -> None:
    text = AUTOCAST.format(context="torch.autocast('cuda')")
    assert faults(DDP + text.replace("loss.backward()", "scale_loss(loss).backward()")) == []
    assert faults(DDP.replace("DistributedDataParallel(Net().cuda())", "Net().cuda()") + text) == []


def test_half_precision_that_is_only_measured() -> None:
    text = "for x in batches:\n    model(x).backward()\nwith torch.autocast('cuda'):\n    shown = model(x)\n"
    assert faults(DDP + text) == []


FSDP = """
import torch
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision
from net import Net, batches, optimizer, policy
model = FullyShardedDataParallel(Net(), policy, mixed_precision=MixedPrecision(param_dtype=torch.{dtype}))
"""


@pytest.mark.parametrize(("dtype", "found"), [("float16", ["plain"]), ("half", ["plain"]), ("bfloat16", [])])
def test_a_scaler_that_knows_no_shards(dtype: str, found: list[str]) -> None:
    assert faults(FSDP.format(dtype=dtype) + SCALER + PASS + STEP) == found


@pytest.mark.parametrize(
    ("dtype", "rest", "found"),
    [("float16", "", 1), ("bfloat16", "", 0), ("float16", "scaler = ShardedGradScaler()\n", 0)],
)
def test_units_of_half_precision(dtype: str, rest: str, found: int) -> None:
    text = FSDP.format(dtype=dtype) + rest + "for x in batches:\n    model(x).backward()\n"
    program = link({"train.py": read_module(Source("train.py", text))})
    assert len(code.collections(program).get("code.unscaled_units", ())) == found
