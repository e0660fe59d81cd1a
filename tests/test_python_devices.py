"""Models that every rank puts on the first GPU of its machine: `code.shared_devices`."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtlint.api import check
from dtlint.frameworks.pytorch import program as pytorch
from dtlint.languages.python import link, read_module
from dtlint.rulebook.finding import Finding
from dtlint.source import Source

HEAD = """
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from net import Net
local_rank = int(os.environ["LOCAL_RANK"])
"""
START = 'dist.init_process_group("nccl")\n'
MODEL = "model = DDP(Net().cuda())\n"


def moved(text: str, **others: str) -> list[str]:
    modules = {"train.py": read_module(Source("train.py", HEAD + text))}
    modules.update({f"{name}.py": read_module(Source(f"{name}.py", other)) for name, other in others.items()})
    found = pytorch.read(link(modules)).collections.get("code.shared_devices", ())
    return [str(getattr(member.fields["moved"], "value", "?")) for member in found]


SHARED = {
    "in the call": (MODEL, "Net().cuda()"),
    "to a word": ('model = DDP(Net().to("cuda"))\n', 'Net().to("cuda")'),
    "to a device": ('model = Net().to(torch.device("cuda"))\nmodel = DDP(model)\n', 'Net().to(torch.device("cuda"))'),
    "where there is a GPU": (
        'device = "cuda" if torch.cuda.is_available() else "cpu"\nmodel = Net()\nmodel.to(device)\nmodel = DDP(model)\n',
        "model.to(device)",
    ),
    "behind a conversion": ("model = Net().cuda()\nmodel = DDP(model.to(torch.bfloat16))\n", "Net().cuda()"),
    "set too late": (MODEL + "torch.cuda.set_device(local_rank)\n", "Net().cuda()"),
    "with norms across ranks": (
        "net = torch.nn.SyncBatchNorm.convert_sync_batchnorm(Net().cuda())\nmodel = DDP(net, device_ids=[local_rank])\n",
        "Net().cuda()",
    ),
}


@pytest.mark.parametrize(("text", "call"), SHARED.values(), ids=SHARED)
def test_a_model_on_cuda_without_a_number(text: str, call: str) -> None:
    assert moved(START + text) == [call]


@pytest.mark.parametrize(
    "text",
    ["import wandb\nwandb.init(project='p')\n", "torch.nn.init.zeros_(w)\n", "def init(net):\n    pass\n\n\ninit(1)\n"],
)
def test_what_is_started_that_sets_no_device(text: str) -> None:
    assert moved(text + START + MODEL) == ["Net().cuda()"]


SENT = {
    "moved": ("seed = torch.ones(1).cuda()\ndist.broadcast(seed, src=0)\n", ["torch.ones(1).cuda()"]),
    "made there": (
        'count = torch.zeros(1, device="cuda")\ndist.all_reduce(count)\n',
        ['torch.zeros(1, device="cuda")'],
    ),
    "in a helper": (
        "def total(value):\n    whole = torch.tensor(value).cuda()\n    dist.all_reduce(whole)\n    return whole\ntotal(1)\n",
        ["torch.tensor(value).cuda()"],
    ),
    "objects": ("dist.all_gather_object(found, mine)\n", ["dist.all_gather_object(found, mine)"]),
    "moved with a number": ("dist.broadcast(torch.ones(1).cuda(local_rank), src=0)\n", []),
    "over a group": ("dist.all_reduce(torch.ones(1).cuda(), group=cpus)\n", []),
    "objects from a device": ("dist.broadcast_object_list(found, src=0, device=local_rank)\n", []),
    "set before": ("torch.cuda.set_device(local_rank)\ndist.broadcast(torch.ones(1).cuda(), src=0)\n", []),
    "a tensor from elsewhere": ("dist.all_reduce(loss)\n", []),
    "a trainer of another package": (
        "from tools import BigTrainer\ndist.broadcast(torch.ones(1).cuda(), src=0)\n",
        [],
    ),
    "a trainer in sight": (
        "class Trainer:\n    pass\nTrainer()\ndist.broadcast(torch.ones(1).cuda(), src=0)\n",
        ["torch.ones(1).cuda()"],
    ),
}


@pytest.mark.parametrize(("text", "expected"), SENT.values(), ids=SENT)
def test_what_the_ranks_send_each_other(text: str, expected: list[str]) -> None:
    assert moved(START + text + "model = DDP(Net().to(local_rank))\n") == expected


def test_objects_go_by_gloo_where_there_is_one() -> None:
    text = "dist.all_gather_object(found, mine)\nmodel = DDP(Net().to(local_rank))\n"
    assert moved('dist.init_process_group("cpu:gloo,cuda:nccl")\n' + text) == []


APART = {
    "the device is set": "torch.cuda.set_device(local_rank)\n" + START + MODEL,
    "the device is set by accelerators' own call": "torch.accelerator.set_device_index(local_rank)\n" + START + MODEL,
    "the group is told": 'dist.init_process_group("nccl", device_id=torch.device(local_rank))\n' + MODEL,
    "the group may be told": 'dist.init_process_group("nccl", **options())\n' + MODEL,
    "the model has a number": START + "model = DDP(Net().cuda(local_rank))\n",
    "the device has a number": START + 'model = DDP(Net().to(f"cuda:{local_rank}"))\n',
    "the device is made of two": START + 'model = DDP(Net().to(torch.device("cuda", local_rank)))\n',
    "the device comes from outside": START + "def wrap(device):\n    return DDP(Net().to(device))\n",
    "the model stays on the CPU": START + "model = DDP(Net())\n",
    "the backend is another": 'dist.init_process_group("gloo")\n' + MODEL,
    "the backend is not known": 'dist.init_process_group(os.environ["BACKEND"])\n' + MODEL,
    "a variable shows one GPU": 'os.environ["CUDA_VISIBLE_DEVICES"] = str(local_rank)\n' + START + MODEL,
    "a mesh sets the device": (
        "from torch.distributed.device_mesh import init_device_mesh\n"
        'mesh = init_device_mesh("cuda", (8,))\n' + START + MODEL
    ),
    "a package sets it": "import accelerate\n" + START + MODEL,
    "a helper that is not read may set it": "from tools import setup_device\nsetup_device()\n" + START + MODEL,
    "a package that is not read is started": "import engine\nengine.init(tensor=2)\n" + START + MODEL,
    "a part of such a package is": START + "from engine import core as eng\neng.initialize_workers()\n" + MODEL,
    "a variable of ROCm shows one GPU": 'os.environ["HIP_VISIBLE_DEVICES"] = str(local_rank)\n' + START + MODEL,
    "a device of numba": START + "from numba import cuda\ncuda.select_device(local_rank)\n" + MODEL,
    "with a device": START + "with torch.cuda.device(local_rank):\n    model = DDP(Net().cuda())\n",
}


@pytest.mark.parametrize("text", APART.values(), ids=APART)
def test_a_program_whose_ranks_may_stand_apart(text: str) -> None:
    assert moved(text) == []


def test_the_device_may_be_set_in_another_file() -> None:
    helper = "import torch\n\n\ndef start(rank):\n    torch.cuda.set_device(rank)\n"
    assert moved("from helper import start\nstart(local_rank)\n" + START + MODEL, helper=helper) == []


SET = "torch.cuda.set_device(local_rank)\n"
SHARE = """
def shared(value):
    if not dist.is_initialized():
        return value
    box = [value]
    dist.broadcast_object_list(box, src=0)
    return box[0]
"""
MAIN = "def main():\n    {0}\n    {1}\n    {2}\nif __name__ == '__main__':\n    " + START + "    main()\n"
SHARED_CALL, GIVEN = "shared(1)", "model = DDP(Net().to(local_rank))"
BOX = ["dist.broadcast_object_list(box, src=0)"]
LATER = {
    "after a helper": (SHARE + MAIN.format(SHARED_CALL, SET, GIVEN), BOX),
    "after a helper of a helper": (
        SHARE + "def name():\n    return shared(1)\n" + MAIN.format("name()", SET, GIVEN),
        BOX,
    ),
    "in a helper of its own": (
        SHARE + "def use_gpu():\n    torch.cuda.set_device(local_rank)\n" + MAIN.format(SHARED_CALL, "use_gpu()", GIVEN),
        BOX,
    ),
    "in the constructor of a trainer": (
        SHARE + "class Runner:\n    def __init__(self):\n        torch.cuda.set_device(local_rank)\n"
        + MAIN.format(SHARED_CALL, "Runner()", GIVEN),
        BOX,
    ),
    "after a tensor in a helper": (
        "def seed():\n    whole = torch.ones(1).cuda()\n    dist.broadcast(whole, src=0)\n"
        + MAIN.format("seed()", SET, GIVEN),
        ["torch.ones(1).cuda()"],
    ),
    "before the helper": (SHARE + MAIN.format(SET, SHARED_CALL, GIVEN), []),
    "before all": (SHARE + SET + MAIN.format(SHARED_CALL, GIVEN, "pass"), []),
    "by who calls": (SHARE + MAIN.format(SHARED_CALL, GIVEN, "pass").replace("    main()", f"    {SET}    main()"), []),
    "before one of two": (
        SHARE + "def use_gpu():\n    torch.cuda.set_device(local_rank)\nuse_gpu()\n"
        + MAIN.format(SHARED_CALL, "use_gpu()", GIVEN),
        [],
    ),
    "after a helper that some runs call": (
        SHARE + MAIN.format("if os.environ.get('NAMED'):\n        shared(1)", SET, GIVEN),
        [],
    ),
    "in what nothing calls": (SHARE + f"def other():\n    {SET}" + MAIN.format(SHARED_CALL, GIVEN, "pass"), []),
    "after a barrier": (MAIN.format("dist.barrier()", SET, GIVEN), []),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), LATER.values(), ids=LATER)
def test_a_device_that_is_set_behind_what_the_ranks_exchange(text: str, expected: list[str]) -> None:
    assert moved(text) == expected


LOCAL = 'local = int(os.environ["SLURM_LOCALID"])\n'
NUMBERED = {
    "set": LOCAL + "torch.cuda.set_device(local)\n",
    "of a device": 'local = int(os.getenv("SLURM_LOCALID", "0"))\ndevice = torch.device("cuda", local)\n',
    "kept in an object": "class Ranks:\n    def __init__(self):\n        self.local = int(os.environ['SLURM_LOCALID'])\n\n"
    "ranks = Ranks()\ntorch.cuda.set_device(ranks.local)\n",
    "handed on": "def init(args):\n    args.gpu = int(os.environ.get('SLURM_LOCALID'))\n    torch.cuda.set_device(args.gpu)\n\n"
    "init(args)\n",
    "as one launcher of several tells it": "def init(args):\n    if 'RANK' in os.environ:\n"
    "        args.gpu = int(os.environ['LOCAL_RANK'])\n    elif 'SLURM_PROCID' in os.environ:\n"
    "        args.gpu = int(os.environ['SLURM_LOCALID'])\n    else:\n        return\n"
    "    torch.cuda.set_device(args.gpu)\n\nfrom net import args\ninit(args)\n",
    "under Slurm": 'if "SLURM_LOCALID" in os.environ:\n    local = int(os.environ["SLURM_LOCALID"])\nelse:\n    local = 0\n'
    "torch.cuda.set_device(local)\n",
    "by the name of a device": LOCAL
    + 'device = torch.device(f"cuda:{local}" if torch.cuda.is_available() else "cpu")\n',
    "by a name that is put together": LOCAL + 'torch.cuda.set_device("cuda:{}".format(local))\n',
    "of the wrapper": LOCAL + "other = DDP(Net().to(local), device_ids=[local])\n",
    "handed on in the environment": "os.environ['LOCAL_RANK'] = os.environ['SLURM_LOCALID']\n"
    "torch.cuda.set_device(int(os.environ['LOCAL_RANK']))\n",
    "handed on where no launcher is": "if 'SLURM_PROCID' in os.environ:\n"
    "    os.environ.setdefault('LOCAL_RANK', os.environ['SLURM_LOCALID'])\n"
    "torch.cuda.set_device(int(os.environ.get('LOCAL_RANK', 0)))\n",
    "handed on by a helper": "class Env:\n    def __init__(self):\n        self._fill()\n"
    "        self.local = int(os.environ['LOCAL_RANK'])\n\n"
    "    def _fill(self):\n        number = int(os.environ['SLURM_LOCALID'])\n"
    "        os.environ.update({'RANK': os.environ['SLURM_PROCID'], 'LOCAL_RANK': str(number)})\n\n"
    "torch.cuda.set_device(Env().local)\n",
    "under a flag of the command": "import argparse\nparser = argparse.ArgumentParser()\n"
    "parser.add_argument('--spread', action='store_true')\nargs = parser.parse_args()\n"
    "if args.spread:\n    torch.cuda.set_device(int(os.environ['SLURM_LOCALID']))\n",
}
OTHERWISE = {
    "of those that it sees": LOCAL + "torch.cuda.set_device(local % torch.cuda.device_count())\n",
    "the first": LOCAL + "torch.cuda.set_device(0)\n",
    "where there is more than one": LOCAL + "if torch.cuda.device_count() > 1:\n    torch.cuda.set_device(local)\n",
    "under a flag that the command does not pass": "import argparse\nparser = argparse.ArgumentParser()\n"
    "parser.add_argument('--all', action='store_true')\nargs = parser.parse_args()\n"
    "if args.all:\n    torch.cuda.set_device(int(os.environ['SLURM_LOCALID']))\n",
    "by the name of the first": LOCAL + 'device = torch.device("cuda:0")\n',
    "of GPUs that it shows itself": LOCAL
    + 'os.environ["CUDA_VISIBLE_DEVICES"] = "0,1"\ntorch.cuda.set_device(local)\n',
}


UNSAID = {
    "of another launcher": 'torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))\n',
    "the one that it sets itself": "os.environ['LOCAL_RANK'] = '0'\nlocal = os.environ['SLURM_LOCALID']\n"
    "torch.cuda.set_device(int(os.environ['LOCAL_RANK']))\n",
    "the rest of the number": "number = int(os.environ['SLURM_LOCALID']) % torch.cuda.device_count()\n"
    "os.environ['LOCAL_RANK'] = str(number)\ntorch.cuda.set_device(int(os.environ['LOCAL_RANK']))\n",
    "handed on where nothing comes": "def fill():\n"
    "    if False:\n        os.environ['LOCAL_RANK'] = os.environ['SLURM_LOCALID']\n\n"
    "torch.cuda.set_device(int(os.environ['LOCAL_RANK']))\n",
}


def bindings(folder: Path, taken: str) -> list[Finding]:
    """What gpu-binding says where four tasks a node see one GPU each and take theirs by `taken`."""
    (folder / "job.sh").write_text(
        "#!/bin/bash\n#SBATCH --ntasks-per-node=4\n#SBATCH --gpus-per-task=1\nsrun python train.py --spread\n"
    )
    program = f"{HEAD.replace('local_rank', 'unused')}{taken}{START}model = DDP(Net().cuda())\nmodel(1).backward()\n"
    (folder / "train.py").write_text(program)
    return [each for each in check([folder / "job.sh"]).findings if each.rule == "gpu-binding"]


@pytest.mark.parametrize(
    ("taken", "stops"),
    [*((text, True) for text in NUMBERED.values()), *((text, False) for text in OTHERWISE.values())],
    ids=[*NUMBERED, *OTHERWISE],
)
def test_tasks_that_see_one_gpu_take_the_one_with_their_number(tmp_path: Path, taken: str, stops: bool) -> None:
    found = bindings(tmp_path, taken)
    assert [each.severity for each in found] == ["error" if stops else "warning"]
    # the others lose NVLink alone
    assert ("3 find no such device" in found[0].message) is stops


@pytest.mark.parametrize("taken", UNSAID.values(), ids=UNSAID)
def test_of_tasks_that_take_another_number_nothing_is_said(tmp_path: Path, taken: str) -> None:
    assert bindings(tmp_path, taken) == []


SHARD = "from torch.distributed.fsdp import fully_shard\nfrom torch.distributed.device_mesh import init_device_mesh\n"
MESH = 'mesh = init_device_mesh("cuda", (8,), mesh_dim_names=("shard",))\n'
SHARDED = {
    "on cuda before the mesh": ("model = Net().cuda()\n" + MESH + "fully_shard(model, mesh=mesh)\n", "Net().cuda()"),
    "without a mesh": ('model = Net()\nmodel.to("cuda")\nfully_shard(model)\n', 'model.to("cuda")'),
    "over a part of the mesh": (
        "model = Net().cuda()\n" + MESH + 'fully_shard(model, mesh=mesh["shard"])\n',
        "Net().cuda()",
    ),
    "made in a block": (
        'with torch.device("cuda"):\n    model = Net()\n' + MESH + "fully_shard(model, mesh=mesh)\n",
        'torch.device("cuda")',
    ),
    "made in a block of a variable": (
        'device = torch.device("cuda")\nwith device:\n    model = Net()\nfully_shard(model)\n',
        "device",
    ),
    "made and wrapped in a block": ('with torch.device("cuda"):\n    model = DDP(Net())\n', 'torch.device("cuda")'),
    "made by a function": (
        'def build():\n    with torch.device("cuda"):\n        net = Net()\n    return net\nmodel = build()\n'
        + MESH
        + "fully_shard(model)\n",
        'torch.device("cuda")',
    ),
    "moved before a function makes the mesh": (
        "def mesh():\n    return " + MESH.partition(" = ")[2] + "def build():\n    return Net().cuda()\n"
        "model = build()\nfully_shard(model, mesh=mesh())\n",
        "Net().cuda()",
    ),
    "handed to a function": (
        "def shard(model):\n    fully_shard(model)\nnet = Net().cuda()\nshard(net)\n",
        "Net().cuda()",
    ),
}


@pytest.mark.parametrize(("text", "call"), SHARDED.values(), ids=SHARDED)
def test_a_model_that_fsdp_shards_on_the_first_gpu(text: str, call: str) -> None:
    assert call in moved(SHARD + START + text)


SHARDED_APART = {
    "the mesh comes first": MESH + "model = Net().cuda()\nfully_shard(model, mesh=mesh)\n",
    "the mesh comes from elsewhere": "from tools import mesh\nmodel = Net().cuda()\nfully_shard(model, mesh=mesh)\n",
    "the model is moved under a condition": "if cuda:\n    model = Net().cuda()\n" + MESH + "fully_shard(model)\n",
    "the model has no tensors yet": 'with torch.device("meta"):\n    model = Net()\nfully_shard(model)\n',
    "the model stays on the CPU": "model = Net()\nfully_shard(model)\n",
    "the block has a number": "with torch.device('cuda', local_rank):\n    model = Net()\nfully_shard(model)\n",
    "it is moved on": 'with torch.device("cuda"):\n    model = Net()\nmodel.to(local_rank)\nfully_shard(model)\n',
    "the device is set": "torch.cuda.set_device(local_rank)\nmodel = Net().cuda()\n" + MESH + "fully_shard(model)\n",
    "one call hands over another": "def shard(model):\n    fully_shard(model)\nshard(Net().cuda())\nshard(Net())\n",
}


@pytest.mark.parametrize("text", SHARDED_APART.values(), ids=SHARDED_APART)
def test_fsdp_shards_models_whose_ranks_may_stand_apart(text: str) -> None:
    assert moved(SHARD + START + text) == []
