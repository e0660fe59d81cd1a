"""Collectives that a rank leaves out by what its own batch holds: by how many samples of a kind, by its loss."""

from __future__ import annotations

import pytest

from dtlint.frameworks import Member, code
from dtlint.languages.python import link, read_module
from dtlint.source import Source
from dtlint.value import Value

HEAD = """
import torch
import torch.distributed as dist
def reduce_mean(value):
    if not dist.is_initialized():
        return value
    dist.all_reduce(value)
    return value
class Head(torch.nn.Module):
    def loss(self, scores, labels, targets):
        {body}
"""
STEP = """
import math
import sys
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
model = DDP(net)
def train_step(batch):
    loss = criterion(model(batch))
    {body}
for batch in loader:
    train_step(batch)
"""
MODULE = """
from lightning.pytorch import LightningModule
import torch
class Net(LightningModule):
    def measured(self, batch):
        loss = criterion(self.model(batch))
        {told}
        return loss, 1
    def training_step(self, batch, index):
        loss, count = self.measured(batch)
        if torch.isnan(loss):
            return None
        counts = self.all_gather(count)
        self.manual_backward(loss / counts.sum())
"""
MEAN = "reduce_mean, which leads to all_reduce"


def causes(text: str) -> list[tuple[object, object]]:
    """The collective that is left out, and why."""
    program = link({"train.py": read_module(Source("train.py", text))})
    found = code.collections(program).get("code.divergences", ())
    return [(_told(each, "call"), _told(each, "cause")) for each in found]


def _told(member: Member, name: str) -> object:
    value = member.fields[name]
    return value.value if isinstance(value, Value) else None


def lines(*body: str, indent: int) -> str:
    return f"\n{' ' * indent}".join(body)


@pytest.mark.parametrize(
    "body",
    [
        ("positive = (labels > 0).nonzero()", "if len(positive) > 0:", "    reduce_mean(len(positive))"),
        ("mask = (labels >= 0) & (labels < 9)", "if mask.sum() > 0:", "    reduce_mean(mask.sum())"),
        ("mask = labels.ge(0)", "if mask.any():", "    reduce_mean(mask.sum())"),
        ("positive = torch.where(labels > 0)[0]", "if positive.numel() > 0:", "    reduce_mean(scores)"),
        ("positive = torch.nonzero(labels > 0)[:, 0]", "if positive.shape[0]:", "    reduce_mean(scores)"),
        ("chosen = scores[targets != 255]", "if len(chosen) == 0:", "    return 0", "reduce_mean(scores)"),
        ("if torch.sum(labels == 1).item() > 0:", "    reduce_mean(scores)"),
    ],
)
def test_samples_that_a_comparison_picks_part_the_ranks(body: tuple[str, ...]) -> None:
    assert causes(HEAD.format(body=lines(*body, indent=8))) == [(MEAN, "picked")]


@pytest.mark.parametrize(
    "body",
    [
        ("mask = labels > 0", "if mask.any():", "    reduce_mean(scores)", "else:", "    reduce_mean(scores)"),
        ("count = reduce_mean((labels > 0).sum())", "if count > 0:", "    reduce_mean(scores)"),
        ("count = (labels > 0).sum()", "dist.all_reduce(count)", "if count > 0:", "    reduce_mean(scores)"),
        ("labels = gather_all(labels)", "if (labels > 0).any():", "    reduce_mean(scores)"),
        ("unused = self.cluster_size < 2", "if unused.any():", "    reduce_mean(scores)"),
        ("mask = labels > 0", "if mask.any():", "    dist.all_reduce(scores, group=self.group)"),
        ("if not (labels > 0).any():", "    raise ValueError", "reduce_mean(scores)"),
        ("if len(labels) > 0:", "    reduce_mean(scores)"),
        ("if labels is not None:", "    reduce_mean(scores)"),
        ("if (labels > 0).any():", "    print(scores)", "reduce_mean(scores)"),
    ],
)
def test_what_the_ranks_agree_on_or_have_alike_parts_none(body: tuple[str, ...]) -> None:
    assert causes(HEAD.format(body=lines(*body, indent=8))) == []


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (("if not torch.isfinite(loss):", "    return", "dist.barrier()", "loss.backward()"), True),
        (("value = loss.item()", "if math.isnan(value):", "    return", "dist.barrier()", "loss.backward()"), True),
        (("loss_value = loss.item()", "if math.isnan(loss_value):", "    return", "dist.barrier()"), False),
        (("if loss.isnan().any():", "    return", "loss.backward()", "dist.barrier()"), True),
        (("if not torch.isfinite(loss):", "    raise ValueError", "dist.barrier()", "loss.backward()"), False),
        (("if not torch.isfinite(loss):", "    sys.exit(1)", "dist.barrier()", "loss.backward()"), False),
        (("dist.all_reduce(loss)", "if loss.isnan():", "    return", "dist.barrier()", "loss.backward()"), False),
        (("if torch.isnan(grad_norm):", "    return", "dist.barrier()", "loss.backward()"), False),
        (("if loss.isnan():", "    loss = loss * 0", "dist.barrier()", "loss.backward()"), False),
    ],
)
def test_a_rank_that_returns_by_its_loss_leaves_the_others_in_a_collective(body: tuple[str, ...], told: bool) -> None:
    assert causes(STEP.format(body=lines(*body, indent=4))) == ([("barrier", "loss")] if told else [])


@pytest.mark.parametrize(("told", "parts"), [("pass", True), ("loss = self.all_gather(loss).mean()", False)])
def test_the_loss_of_a_method_is_followed_into_it(told: str, parts: bool) -> None:
    assert causes(MODULE.format(told=told)) == ([("all_gather", "loss")] if parts else [])


METRIC = """
import lightning.pytorch as pl
import torch
from torchmetrics import Metric
from torchmetrics.detection import MeanAveragePrecision
class Hits(Metric):
    def update(self, hits):
        self.hits += hits
    def compute(self):
        return self.hits
class Net(pl.LightningModule):
    def __init__(self):
        self.measure = {measure}
        self.kept, self.count = [], 0
    def validation_step(self, batch, index):
        images, targets, _ = batch
        found = self.model(images)
        {step}
    def scores(self):
        return torch.cat(self.kept)
    def on_validation_epoch_end(self):
        {end}
"""
PRECISION = "MeanAveragePrecision()"
KEPT = 'kept = [i for i, t in enumerate(targets) if len(t["boxes"]) > 0]'
FEED = "self.measure.update([found[i] for i in kept], [targets[i] for i in kept])"
STATES = [
    (PRECISION, (KEPT, "if kept:", f"    {FEED}"), ("if len(self.measure.groundtruth_labels) > 0:", "    self.measure.compute()"), "compute"),
    (PRECISION, (KEPT, "if not kept: return", FEED), ("if not self.measure.update_called: return", "self.measure.compute()"), "compute"),
    ("Hits()", (KEPT, "if len(kept) > 0: self.measure(found)"), ("if self.measure.hits > 0:", "    self.log('a', self.measure.compute())"), "compute"),
    ("0", ("for t in targets:", "    if len(t['boxes']) == 0: continue", "    self.kept.append(t)"), ("if self.kept:", "    self.all_gather(self.scores())"), "all_gather"),
    ("0", ("mask = targets > 0", "if mask.any(): self.count += 1"), ("if self.count > 0:", "    self.all_gather(self.count)"), "all_gather"),
    ("0", ("mask = targets > 0", "self.count += mask.sum().item()"), ("if self.count > 0:", "    self.all_gather(self.count)"), "all_gather"),
    ("0", ("mask = targets > 0", "if mask.any(): self.kept = True"), ("if self.kept:", "    self.all_gather(self.count)"), "all_gather"),
    ("0", ("mask = targets > 0", "if not mask.any():", "    return", "self.kept.extend(found[mask])"), ("if len(self.kept) == 0: return", "self.all_gather(self.scores())"), "all_gather"),
]  # fmt: skip


@pytest.mark.parametrize(("measure", "step", "end", "call"), STATES, ids=range(len(STATES)))
def test_what_a_rank_has_collected_of_some_batches_only(
    measure: str, step: tuple[str, ...], end: tuple[str, ...], call: str
) -> None:
    text = METRIC.format(measure=measure, step=lines(*step, indent=8), end=lines(*end, indent=8))
    assert causes(text) == [(call, "collected")]


ALIKE = [
    # each batch is taken in, whatever it holds
    (PRECISION, ("self.measure.update(found, targets)",), ("if len(self.measure.groundtruth_labels) > 0:", "    self.measure.compute()")),
    (PRECISION, (KEPT, f"if kept: {FEED}", "self.measure.update(found, targets)"), ("if self.measure.update_called:", "    self.measure.compute()")),
    ("0", ("self.kept.append(found)",), ("if self.kept:", "    self.all_gather(self.scores())")),
    ("0", (KEPT, "if kept: self.kept.append(found)", "else: self.kept.append(images)"), ("if self.kept:", "    self.all_gather(self.scores())")),
    ("0", ("self.count += len(targets)",), ("if self.count > 0:", "    self.all_gather(self.count)")),
    ("0", ("self.kept = True",), ("if self.kept:", "    self.all_gather(self.count)")),
    # a condition that all ranks answer alike
    (PRECISION, ("if index % 2 == 0: self.measure.update(found, targets)",), ("if self.measure.update_called:", "    self.measure.compute()")),
    ("0", ("names = [n for n in self.hparams.labels if n != 'label']", "if names: self.kept.append(found)"), ("if self.kept:", "    self.all_gather(self.scores())")),
    # all ranks compute, or the metric is each rank's own
    (PRECISION, (KEPT, f"if kept: {FEED}"), ("self.measure.compute()",)),
    ("MeanAveragePrecision(sync_on_compute=False)", (KEPT, f"if kept: {FEED}"), ("if self.measure.update_called:", "    self.measure.compute()")),
    # the ranks agree
    ("0", (KEPT, "if kept: self.count += 1"), ("if self.all_gather(self.count).sum() > 0:", "    self.all_gather(self.scores())")),
    (PRECISION, (KEPT, f"if kept: {FEED}"), ("if self.measure.update_called:", "    self.measure.compute()", "else:", "    self.measure.compute()")),
]  # fmt: skip


@pytest.mark.parametrize(("measure", "step", "end"), ALIKE, ids=range(len(ALIKE)))
def test_what_all_ranks_collect_parts_none(measure: str, step: tuple[str, ...], end: tuple[str, ...]) -> None:
    text = METRIC.format(measure=measure, step=lines(*step, indent=8), end=lines(*end, indent=8))
    assert causes(text) == []


@pytest.mark.parametrize(
    ("kept", "told"),
    [
        ("[i for i, t in enumerate(targets) if len(t['boxes']) > 0]", True),
        ("[t for t in targets if t['labels'].numel()]", True),
        ("[t for t in targets if t is not None]", False),
        ("[p for p in self.parameters() if p.grad is not None]", False),
        ("[n for n in self.label_names if n != 'label']", False),
        ("[t for t in targets]", False),
    ],
)
def test_samples_that_a_comprehension_keeps_part_the_ranks(kept: str, told: bool) -> None:
    body = (f"kept = {kept}", "if kept:", "    reduce_mean(len(kept))")
    assert causes(HEAD.format(body=lines(*body, indent=8))) == ([(MEAN, "picked")] if told else [])
