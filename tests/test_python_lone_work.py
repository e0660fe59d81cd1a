"""Long work of the first rank for which the others wait: `code.lone_work`."""

from __future__ import annotations

import pytest

from dtlint.frameworks.pytorch import program as pytorch
from dtlint.languages.python import link, read_module
from dtlint.source import Source
from dtlint.value import Value

HEAD = "import torch.distributed as dist\nfrom helpers import first_rank_talks, zero_first, args, data, tok\n"


def lone_work(text: str) -> list[object]:
    program = link({"train.py": read_module(Source("train.py", HEAD + text))})
    members = pytorch.read(program).collections.get("code.lone_work", ())
    return [value.value for member in members if isinstance(value := member.fields["call"], Value)]


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("with args.main_process_first(desc='map'):\n    data = data.map(tok)\n", ["map"]),
        ("with args.local_main_process_first(), open('x') as log:\n    data = data.map(tok)\n", ["map"]),
        ("with zero_first(0):\n    if 1:\n        data.save_to_disk('x')\n", ["save_to_disk"]),
        ("def f():\n    with args.main_process_first():\n        return data.map(tok)\nf()\n", ["map"]),
        ("with args.main_process_first():\n    tok = data.tokenizer()\ndata.map(tok)\n", []),
        ("with first_rank_talks():\n    data.map(tok)\n", []),
        ("turn = args.main_process_first()\ndata.map(tok)\n", []),
    ],
)
def test_contexts_that_let_the_first_rank_go_first(text: str, calls: list[object]) -> None:
    assert lone_work(text) == calls


FETCHES = """
import torch
import torchvision


def download_all(root):
    kind = torchvision.datasets.{kind}
    kind(root, train=True, download=True)
    {more}


if dist.get_rank() == 0:
    download_all("data")
dist.barrier()
model = torch.nn.parallel.DistributedDataParallel(model)
for x in data:
    model(x).backward()
"""


@pytest.mark.parametrize(
    ("kind", "more", "calls"),
    [
        ("CIFAR10", "kind(root, train=False, download=True)", []),
        ("ImageNet", "kind(root, train=False, download=True)", ["download_all"]),
        ("CIFAR10", "snapshot_download('some/corpus')", ["download_all"]),
    ],
)
def test_what_fetches_a_small_data_set_is_soon_through(kind: str, more: str, calls: list[object]) -> None:
    assert lone_work(FETCHES.format(kind=kind, more=more)) == calls
