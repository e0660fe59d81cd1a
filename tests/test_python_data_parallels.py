"""Models that one process spreads over several GPUs: `code.data_parallels`."""

from __future__ import annotations

import pytest

from dtlint.frameworks.pytorch import program as pytorch
from dtlint.languages.python import link, read_module
from dtlint.source import Source
from dtlint.value import Value

HEAD = "import torch\nfrom torch import nn\nfrom net import Net, args\nmodel = Net().cuda()\n"


def devices(text: str) -> list[object]:
    program = link({"train.py": read_module(Source("train.py", HEAD + text))})
    members = pytorch.read(program).collections.get("code.data_parallels", ())
    values = [member.fields["devices"] for member in members]
    return [value.value if isinstance(value, Value) else "?" for value in values]


FOUND: dict[str, list[object]] = {
    "model = nn.DataParallel(model)\n": ["?"],
    "model = torch.nn.parallel.DataParallel(model, device_ids=[0, 1])\n": [2],
    "if torch.cuda.device_count() > 1:\n    model = nn.DataParallel(model)\n": ["?"],
    "model = nn.DataParallel(model, device_ids=args.gpus)\n": ["?"],
    "if args.multi_gpu:\n    model = nn.DataParallel(model)\n": [],
    "if torch.cuda.device_count() > 1 and not args.ddp:\n    model = nn.DataParallel(model)\n": [],
    "if not args.distributed:\n    if torch.cuda.device_count() > 1:\n        model = nn.DataParallel(model)\n": [],
    "if isinstance(model, nn.DataParallel):\n    model = model.module\n": [],
    "if False:\n    model = nn.DataParallel(model)\n": [],
}


@pytest.mark.parametrize(("text", "found"), FOUND.items(), ids=list(FOUND))
def test_calls_that_run_wherever_there_are_gpus(text: str, found: list[object]) -> None:
    assert devices(text) == found
