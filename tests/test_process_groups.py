"""How long collectives wait, as a program says where it begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtlint.api import check
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


FREE = """import random
import socket
def free():
    with socket.socket() as probe:
        probe.bind(('', 0))
        return probe.getsockname()[1]
"""
PORT = "os.environ['MASTER_PORT'] = "


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (f"{PORT}str(free())\n{START}", "own-port"),
        (f"port = free()\n{PORT}f'{{port}}'\n{START}", "own-port"),
        (f"{PORT}str(random.randint(20000, 30000))\n{START}", "own-port"),
        (f"def setup():\n    {PORT}str(free())\n    {START}setup()\n", "own-port"),
        (f"random.seed(1)\n{PORT}str(random.randint(20000, 30000))\n{START}", "env"),
        (f"if rank == 0:\n    {PORT}str(free())\n{START}", "env"),
        (f"port = comm.bcast(free() if rank == 0 else None)\n{PORT}str(port)\n{START}", "env"),
        (f"{PORT}os.environ['PORT']\n{START}", "env"),
        (f"{PORT}'29500'\n{START}", "env"),
        (f"os.environ.setdefault('MASTER_PORT', str(free()))\n{START}", "env"),
        (f"import torch.multiprocessing as mp\n{PORT}str(free())\ndef work():\n    {START}mp.spawn(work)\n", None),
    ],
)
def test_a_port_that_each_process_chooses(text: str, word: str | None) -> None:
    program = link({"train.py": read_module(Source("train.py", f"import os\n{HEAD}{FREE}{text}loss.backward()\n"))})
    told = {claim.setting: claim.value for claim in group_claims(program)}
    found = told.get("launch.rendezvous")
    assert (found.value if isinstance(found, Value) else None) == word


@pytest.mark.parametrize(
    ("method", "host"),
    [
        ("'tcp://localhost:23456'", "localhost"),
        ("f'tcp://127.0.0.1:{port}'", "127.0.0.1"),
        ("'tcp://localhost:' + port", "localhost"),
        ("'tcp://localhost:%d' % port", "localhost"),
        ("'tcp://0.0.0.0:{}'.format(port)", "0.0.0.0"),
        ("'tcp://10.1.1.2:23456'", None),
        ("f'tcp://{head}:23456'", None),
        ("url", None),
    ],
)
def test_an_address_that_each_machine_takes_for_its_own(method: str, host: str | None) -> None:
    text = f"dist.init_process_group('nccl', init_method={method}, rank=rank, world_size=8)\n"
    program = link({"train.py": read_module(Source("train.py", f"{HEAD}{text}loss.backward()\n"))})
    told = {claim.setting: claim.value for claim in group_claims(program)}
    found = told.get("launch.rendezvous_host")
    assert (found.value if isinstance(found, Value) else None) == host


PARSED = """import argparse
import os
import torch.distributed as dist
parser = argparse.ArgumentParser()
parser.add_argument('--world_size', default=4, type=int)
args = parser.parse_args()
rank = int(os.environ['RANK'])
"""
TOLD = "dist.init_process_group('nccl', rank=rank, world_size=args.world_size)\n"
ASKED = "args.world_size = int(os.environ['WORLD_SIZE'])\n"
COUNTED = {
    "the default of an argument": TOLD,
    "a number": "dist.init_process_group('nccl', rank=rank, world_size=4)\n",
    "by position": "RANKS = 4\ndist.init_process_group('nccl', 'env://', None, RANKS, rank)\n",
    "by a helper": "def setup(rank, size):\n    dist.init_process_group('nccl', rank=rank, world_size=size)\n"
    "setup(rank, args.world_size)\n",
    "by a method": "class Job:\n    def __init__(self, args):\n        self.world_size = args.world_size\n"
    "        self.start()\n    def start(self):\n"
    "        dist.init_process_group('nccl', rank=rank, world_size=self.world_size)\nJob(args)\n",
    "where there are several": f"if args.world_size > 1:\n    {TOLD}",
    "in the environment": f"os.environ['WORLD_SIZE'] = '4'\n{START}",
    "made for the environment": f"os.environ['WORLD_SIZE'] = str(args.world_size)\n{START}",
    "to DeepSpeed": "import deepspeed\ndeepspeed.init_distributed(rank=rank, world_size=args.world_size)\n",
    "printed before": f"print(args)\n{TOLD}",
    "handed out after": f"{TOLD}import other\nother.build(args)\n",
}
UNCOUNTED = {
    "nothing": START,
    "no number": "dist.init_process_group('nccl', world_size=-1)\n",
    "what the environment says": f"{ASKED}{TOLD}",
    "what a function asks the environment": f"def ask(options):\n    options.{ASKED[5:]}ask(args)\n{TOLD}",
    "what the environment says if at all": f"if 'WORLD_SIZE' in os.environ:\n    {ASKED}{TOLD}",
    "what another function may change": f"from other import prepare\nprepare(args)\n{TOLD}",
    "what is set by name": f"setattr(args, 'world_size', int(os.environ['WORLD_SIZE']))\n{TOLD}",
    "what is set with others": f"vars(args).update(read())\n{TOLD}",
    "only what is not set": f"os.environ.setdefault('WORLD_SIZE', '4')\n{START}",
    "one rank alone": "dist.init_process_group('nccl', rank=0, world_size=4)\n",
    "without a launcher": f"if 'RANK' in os.environ:\n    {START}else:\n    {TOLD}",
    "ranks of its own": f"import torch.multiprocessing as mp\ndef work(rank):\n    {TOLD}mp.spawn(work, nprocs=4)\n",
    "several groups": f"if os.environ.get('SLURM_JOB_ID'):\n    {TOLD}else:\n    {START}",
}


@pytest.mark.parametrize(
    ("text", "counted"),
    [*((text, 4) for text in COUNTED.values()), *((text, None) for text in UNCOUNTED.values())],
    ids=[*COUNTED, *UNCOUNTED],
)
def test_how_many_ranks_a_program_waits_for(tmp_path: Path, text: str, counted: int | None) -> None:
    training = "from torch.nn.parallel import DistributedDataParallel as DDP\nDDP(net)(batch).backward()\n"
    (tmp_path / "train.py").write_text(f"{PARSED}{text}{training}")
    (tmp_path / "run.sh").write_text("torchrun --nproc_per_node 2 train.py\n")
    found = [each for each in check([tmp_path / "run.sh"]).findings if each.rule == "world-size-mismatch"]
    assert [each.severity for each in found] == (["error"] if counted else [])
    assert all("there are 4 ranks" in each.message for each in found)
