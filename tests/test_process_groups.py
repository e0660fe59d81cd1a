"""How long collectives wait, as a program says where it begins."""

from __future__ import annotations

import pytest

from dtlint.frameworks.process_groups import group_claims, timeout_claims
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


SET = "os.environ['MASTER_ADDR'] = 'localhost'\n"
START = "dist.init_process_group('nccl')\n"
BY_FILE = "dist.init_process_group('nccl', init_method='file:///shared/x')\n"
SPAWNED = f"import torch.multiprocessing as mp\ndef work(rank):\n    {SET}    {START}mp.spawn(work, nprocs=4)\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (SET + START, {"launch.rendezvous": "env", "launch.rendezvous_host": "localhost"}),
        (
            "def setup():\n    os.environ.update({'MASTER_ADDR': '127.0.0.1'})\n    " + START + "setup()\n",
            {"launch.rendezvous": "env", "launch.rendezvous_host": "127.0.0.1"},
        ),
        ("dist.init_process_group('nccl', 'env://')\n", {"launch.rendezvous": "env"}),
        ("os.environ.setdefault('MASTER_ADDR', 'localhost')\n" + START, {"launch.rendezvous": "env"}),
        ("if not os.environ.get('SLURM_JOB_ID'):\n    " + SET + START, {"launch.rendezvous": "env"}),
        (SET + "if slurm:\n    os.environ['MASTER_ADDR'] = head\n" + START, {"launch.rendezvous": "env"}),
        ("os.environ['MASTER_ADDR'] = head\n" + START, {"launch.rendezvous": "env"}),
        (SET + BY_FILE, {}),
        (SET + "dist.init_process_group('nccl', store=store, rank=0, world_size=2)\n", {}),
        (SPAWNED, {}),
    ],
)
def test_where_ranks_meet(text: str, found: dict[str, str]) -> None:
    program = link({"train.py": read_module(Source("train.py", f"import os\n{HEAD}{text}loss.backward()\n"))})
    told = {claim.setting: claim.value for claim in group_claims(program)}
    assert {name: value.value for name, value in told.items() if isinstance(value, Value)} == found
