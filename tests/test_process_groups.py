"""How long collectives wait, as a program says where it begins."""

from __future__ import annotations

import pytest

from dtlint.frameworks.process_groups import timeout_claims
from dtlint.languages.python import link, read_module
from dtlint.source import Source
from dtlint.value import Value

HEAD = "from datetime import timedelta\nimport deepspeed\nimport torch.distributed as dist\nimport accelerate\n"


def seconds(text: str) -> list[object]:
    program = link({"train.py": read_module(Source("train.py", HEAD + text + "loss.backward()\n"))})
    return [claim.value.value for claim in timeout_claims(program) if isinstance(claim.value, Value)]


@pytest.mark.parametrize(
    ("call", "found"),
    [
        ("dist.init_process_group('nccl', timeout=timedelta(minutes=30))", [1800]),
        ("dist.init_process_group('nccl', timeout=timedelta(0, 90))", [90]),
        ("wait = timedelta(hours=1, seconds=5)\ndist.init_process_group('nccl', timeout=wait)", [3605]),
        ("deepspeed.init_distributed(timeout=timedelta(seconds=60))", [60]),
        ("accelerate.InitProcessGroupKwargs(timeout=timedelta(minutes=2))", [120]),
        ("dist.init_process_group('nccl', timeout=timedelta(minutes=args.wait))", []),
        ("dist.init_process_group('nccl', timeout=chosen())", []),
        ("dist.init_process_group('nccl')", []),
    ],
)
def test_timeouts_that_are_written_out(call: str, found: list[float]) -> None:
    assert seconds(f"{call}\n") == found


def test_a_module_of_helpers_tells_nothing() -> None:
    text = HEAD + "def start():\n    dist.init_process_group('nccl', timeout=timedelta(minutes=1))\n"
    assert list(timeout_claims(link({"utils.py": read_module(Source("utils.py", text))}))) == []
