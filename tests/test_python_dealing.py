"""How samples, features and weights come to the ranks: `code.loaders`, `code.shards`, `code.local_losses`,
`code.replicas`, `code.overscaled_losses`, `code.floored_batches`, `code.zero_no_syncs`, `code.zero_generations`, traps included.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dtlint.api import check
from dtlint.frameworks import code
from dtlint.frameworks.code.how_many import how_many
from dtlint.languages.python import link, read_module
from dtlint.languages.python.places import Budget, Place
from dtlint.source import Source
from dtlint.value import Value

HEAD = """
import itertools, os, torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from net import Net, batches, optimizer, read
world_size, rank = dist.get_world_size(), dist.get_rank()
model = DDP(Net().cuda())
"""


def found(collection: str, text: str, head: str = HEAD, **others: str) -> list[str]:
    """The first field of each member of a collection."""
    modules = {"train.py": read_module(Source("train.py", head + text))}
    modules.update({f"{name}.py": read_module(Source(f"{name}.py", other)) for name, other in others.items()})
    members = code.collections(link(modules)).get(collection, ())
    return [str(value.value) for item in members if isinstance(value := next(iter(item.fields.values())), Value)]


def loop(loader: str) -> str:
    return f"for x in {loader}:\n    model(x).loss.backward()\n    optimizer.step()\n"


UNDEALT = {
    "shuffled alike": ("torch.manual_seed(0)\n" + loop("DataLoader(read('a'), shuffle=True)"), "same"),
    "shuffled apart": (loop("DataLoader(read('a'), shuffle=True)"), "all"),
    "a seed that may not be set": (
        "if os.environ['SEED']:\n    torch.manual_seed(0)\n" + loop("DataLoader(read('a'), shuffle=True)"),
        "all",
    ),
    "in order": (
        "class Lines(Dataset):\n    def __getitem__(self, i):\n        return i\n" + loop("DataLoader(Lines())"),
        "same",
    ),
    "a dataset of a library": (
        "from torchvision.datasets import MNIST\n" + loop("DataLoader(MNIST('data', train=True))"),
        "same",
    ),
    "under a name, behind a progress bar": (
        "from tqdm import tqdm\nloader = DataLoader(read('a'), shuffle=True)\n" + loop("tqdm(enumerate(loader))"),
        "all",
    ),
    "handed to a function": (
        "def train(loader):\n    for x in loader:\n        model(x).loss.backward()\n"
        "train(DataLoader(read('a'), shuffle=True))\n",
        "all",
    ),
    "a sampler that knows of no ranks": (
        "from torch.utils.data import RandomSampler\ndata = read('a')\n"
        + loop("DataLoader(data, batch_size=8, sampler=RandomSampler(data))"),
        "all",
    ),
    "such a sampler under a name, seeded": (
        "torch.manual_seed(0)\nfrom torch.utils.data.sampler import RandomSampler\ndata = read('a')\n"
        "train_sampler = RandomSampler(data)\n" + loop("DataLoader(data, sampler=train_sampler)"),
        "same",
    ),
    "a sampler that keeps the order": (
        "data = read('a')\n" + loop("DataLoader(data, sampler=torch.utils.data.SequentialSampler(data))"),
        "same",
    ),
    "a step of its own function": (
        "def step(x):\n    model(x).loss.backward()\n"
        "for x in DataLoader(read('a'), shuffle=True):\n    step(x)\n",
        "all",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "kind"), UNDEALT.values(), ids=UNDEALT)
def test_samples_that_nobody_deals(text: str, kind: str) -> None:
    assert found("code.loaders", text) == [kind]


PREPARING = """
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader
from net import Net, optimizer, read
accelerator = Accelerator()
"""
TURN = "for x in loader:\n    accelerator.backward(model(x).loss)\n    optimizer.step()\n"


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        (
            "loader = DataLoader(read('a'), shuffle=True)\nmodel, o = accelerator.prepare(Net(), optimizer)\n",
            ["left out"],
        ),
        (
            "set_seed(3)\nloader = DataLoader(read('a'), shuffle=True)\nmodel = accelerator.prepare(Net())\n",
            ["left out, same"],
        ),
        (
            "loader = DataLoader(read('a'), shuffle=True)\nmodel, loader = accelerator.prepare(Net(), loader)\n",
            [],
        ),
        (
            "loader = DataLoader(read('a'), shuffle=True)\nmodel = accelerator.prepare(Net())\n"
            "dealt = accelerator.prepare_data_loader(loader)\n",
            [],
        ),
        (
            "loader = DataLoader(read('a'), shuffle=True)\nparts = [Net(), loader]\nmodel, _ = accelerator.prepare(*parts)\n",
            [],
        ),
        (
            "set_seed(3, device_specific=True)\nloader = DataLoader(read('a'), shuffle=True)\n"
            "model = accelerator.prepare(Net())\n",
            [],
        ),
        (
            "from torch.utils.data import DistributedSampler\ndata = read('a')\n"
            "loader = DataLoader(data, sampler=DistributedSampler(data))\nmodel = accelerator.prepare(Net())\n",
            [],
        ),
        (
            "data = read('a')[accelerator.process_index::accelerator.num_processes]\n"
            "loader = DataLoader(data, shuffle=True)\nmodel = accelerator.prepare(Net())\n",
            [],
        ),
    ],
)
def test_a_loader_that_an_accelerator_is_not_given(text: str, kinds: list[str]) -> None:
    kept = [kind for kind in found("code.loaders", text + TURN, PREPARING) if kind != "world"]
    assert kept == kinds


FABRIC = """
import lightning as L
from torch.utils.data import DataLoader
from net import Net, optimizer, read
fabric = L.Fabric(devices=8)
model, optimizer = fabric.setup(Net(), optimizer)
loader = DataLoader(read('a'), shuffle=True)
"""
FABRIC_TURN = "for x in loader:\n    fabric.backward(model(x).loss)\n    optimizer.step()\n"


@pytest.mark.parametrize(
    ("more", "kinds"),
    [
        ("", ["left out"]),
        ("L.seed_everything(3)\n", ["left out, same"]),
        ("loader = fabric.setup_dataloaders(loader)\n", []),
        ("if streams:\n    loader = streaming()\n", []),
        ("loader = fabric.setup_dataloaders(*loaders)\n", []),
    ],
)
def test_a_loader_that_a_fabric_is_not_given(more: str, kinds: list[str]) -> None:
    assert found("code.loaders", more + FABRIC_TURN, FABRIC) == kinds


DEALT = {
    "a seed of the rank": "torch.manual_seed(3 + rank)\n" + loop("DataLoader(read('a'), shuffle=True)"),
    "a sampler elsewhere": "from mine import RankSampler\n" + loop("DataLoader(read('a'), shuffle=True)"),
    "a sampler for each number of ranks": (
        "from torch.utils.data import DistributedSampler, RandomSampler\ndata = read('a')\n"
        "if world_size > 1:\n    sampler = DistributedSampler(data, seed=1)\nelse:\n    sampler = RandomSampler(data)\n"
        + loop("DataLoader(data, sampler=sampler)")
    ),
    "a sampler that somebody else makes": "sampler = pick(read('a'))\n"
    + loop("DataLoader(read('a'), sampler=sampler)"),
    "a sampler for one case, another's for the rest": (
        "from torch.utils.data import RandomSampler\ndata = read('a')\n"
        "train_sampler = RandomSampler(data) if world_size == 1 else pick(data)\n"
        + loop("DataLoader(data, sampler=train_sampler)")
    ),
    "a sampler that draws a share": (
        "from torch.utils.data import RandomSampler\ndata = read('a')\n"
        + loop("DataLoader(data, sampler=RandomSampler(data, num_samples=len(data) // world_size))")
    ),
    "a sampler with a seed of the rank": (
        "from torch.utils.data import RandomSampler\ndata = read('a')\n"
        "order = torch.Generator()\norder.manual_seed(rank)\n"
        + loop("DataLoader(data, sampler=RandomSampler(data, generator=order))")
    ),
    "a sampler of the file that the rank picks": (
        "from torch.utils.data import RandomSampler\nfiles = os.listdir('a')\n"
        "part = files[(3 + dist.get_rank()) % len(files)]\ndata = read(part)\n"
        + loop("DataLoader(data, sampler=RandomSampler(data))")
    ),
    "a sampler that Accelerate replaces": (
        "from accelerate import Accelerator\nfrom torch.utils.data import RandomSampler\ndata = read('a')\n"
        "loader = Accelerator().prepare(DataLoader(data, sampler=RandomSampler(data)))\n" + loop("loader")
    ),
    "a sampler that Lightning replaces": (
        "import lightning\nfrom torch.utils.data import RandomSampler\ndata = read('a')\n"
        + loop("DataLoader(data, sampler=RandomSampler(data))")
    ),
    "a batch sampler": loop("DataLoader(read('a'), batch_sampler=batches)"),
    "options that are not read": loop("DataLoader(read('a'), **options)"),
    "a slice by rank": "mine = read('a')[rank::world_size]\n" + loop("DataLoader(mine, shuffle=True)"),
    "a shard of a library": (
        "data = read('a').shard(num_shards=world_size, index=rank)\n" + loop("DataLoader(data, shuffle=True)")
    ),
    "a stream": (
        "from torch.utils.data import IterableDataset\n"
        "class Lines(IterableDataset):\n    def __iter__(self):\n        yield 1\n" + loop("DataLoader(Lines())")
    ),
    "a dataset out of sight, in order": loop("DataLoader(read('a'))"),
    "for evaluation": "for x in DataLoader(read('a'), shuffle=True):\n    print(model(x))\n",
    "samples made up on each rank": (
        "from torch.utils.data import TensorDataset\n"
        "def data():\n    return TensorDataset(torch.randn(8, 4))\n" + loop("DataLoader(data(), shuffle=True)")
    ),
    "a front end that deals": (
        "from accelerate import Accelerator\nloader = Accelerator().prepare(DataLoader(read('a'), shuffle=True))\n"
        + loop("loader")
    ),
    "DeepSpeed's own loader": (
        "import deepspeed\nloader = DataLoader(read('a'), shuffle=True)\n"
        "model, _, loader, _ = deepspeed.initialize(model=Net(), training_data=read('a'))\n" + loop("loader")
    ),
    "model parallelism beside": (
        "from torch.distributed.device_mesh import init_device_mesh\nmesh = init_device_mesh('cuda', (2, 4))\n"
        + loop("DataLoader(read('a'), shuffle=True)")
    ),
}


@pytest.mark.parametrize("text", DEALT.values(), ids=DEALT)
def test_samples_that_are_dealt_or_may_be(text: str) -> None:
    assert found("code.loaders", text) == []


PARTS = """
class Parts(Dataset):
    def __init__(self, conf, world, names):
        {init}
    def __getitem__(self, i):
        return self.rows[i]
    def __len__(self):
        return len(self.rows)
class Own(Parts):
    pass
{made}
"""
BY_CONFIG = "share = conf['world_rank'] % conf['shards']\n        self.rows = read(conf['path'])[share:share + 8]"


@pytest.mark.parametrize(
    ("init", "told"),
    [
        (BY_CONFIG, False),
        ("self.rows = np.array_split(read(conf), world)[rank]", False),
        ("self.rows = read(names[rank])", False),
        ("self.rows = read(f'{conf}/part-{rank}.h5')", False),
        ("self.rows = read('part-%d.h5' % dist.get_rank())", False),
        ("per = len(names) // world\n        first = per * rank\n        self.rows = names[first:first + per]", False),
        ("self.rows = read(conf)\n        print(f'{conf[\"rank\"]} of {world}')", True),
        ("self.rows = read(conf)\n        logging.info('rank %d' % conf['rank'])", True),
        ("self.rows = read(conf)\n        if conf['rank'] == 0:\n            print(names[0])", True),
        ("self.rows = read(conf, 'cuda:%d' % conf['rank'])", True),
        ("self.rows = read(conf)\n        self.seed = conf['rank_of_lora'] * 2", True),
    ],
)
def test_a_dataset_that_cuts_itself_by_rank(init: str, told: bool) -> None:
    for name in ("Parts", "Own"):
        made = loop(f"DataLoader({name}(conf), shuffle=True)")
        assert found("code.loaders", PARTS.format(init=init, made=made)) == (["all"] if told else []), name


@pytest.mark.parametrize(
    "several", ["world_size > 1", "args.distributed", "dist.is_initialized()", "args.local_rank != -1"]
)
@pytest.mark.parametrize("order", ["shuffle=True", "sampler=torch.utils.data.RandomSampler(data)"])
def test_the_loader_of_a_run_of_one_rank(several: str, order: str) -> None:
    text = "data = read('a')\nif {}:\n    loader = {}\nelse:\n    loader = {}\n" + loop("loader")
    assert found("code.loaders", text.format(several, "mine(data)", f"DataLoader(data, {order})")) == []
    assert found("code.loaders", text.format(several, f"DataLoader(data, {order})", "mine(data)")) == ["all"]


def test_one_process_needs_no_sampler() -> None:
    head = HEAD.replace("DDP(Net().cuda())", "Net().cuda()")
    assert found("code.loaders", loop("DataLoader(read('a'), shuffle=True)"), head) == []


SHARDS = {
    "a slice": loop("DataLoader(read('a')[rank::world_size])"),
    "a slice under a name": "mine = read('a')[dist.get_rank()::dist.get_world_size()]\n" + loop("DataLoader(mine)"),
    "a slice without a loader": loop("read('a')[rank::world_size]"),
    "a stream": (
        "from torch.utils.data import IterableDataset\n"
        "class Lines(IterableDataset):\n    def __iter__(self):\n"
        "        return iter(self.files[dist.get_rank()::dist.get_world_size()])\n" + loop("DataLoader(Lines())")
    ),
    "picked by indices": loop(
        "DataLoader(torch.utils.data.Subset(read('a'), range(rank, len(read('a')), world_size)))"
    ),
    "picked by a shard of the indices": (
        "indices = list(range(len(read('a'))))[rank::world_size]\n" + loop("DataLoader(read('a').select(indices))")
    ),
    "an iterator": loop("itertools.islice(read('a'), rank, None, world_size)"),
    "a library's": loop("DataLoader(read('a').shard(num_shards=world_size, index=rank))"),
    "a library's split": (
        "from datasets.distributed import split_dataset_by_node\n"
        + loop("DataLoader(split_dataset_by_node(read('a'), rank=rank, world_size=world_size))")
    ),
}


DATASETS = (
    "from datasets import load_dataset\nfrom datasets.distributed import split_dataset_by_node\n"
    "data = split_dataset_by_node(load_dataset('c4', streaming=True), rank=rank, world_size=world_size)\n"
)
CUT = "import math\nimport numpy as np\nids = read('a')\n"
SHARDS |= {
    "a library's split, through steps": DATASETS + loop("DataLoader(data.map(read).filter(len).with_format('torch'))"),
    "blocks of a length": CUT + loop("torch.split(ids, math.ceil(len(ids) / world_size))[rank]"),
    "blocks of a method, for a loader of graphs": (
        "import dgl\n"
        + CUT
        + "ranks = dist.get_world_size()\npart = ids.split(-(-len(ids) // ranks))[rank]\n"
        + loop("dgl.dataloading.NodeDataLoader(graph, part, sampler, batch_size=8, drop_last=False)")
    ),
    "a number of blocks": CUT + loop("DataLoader(torch.utils.data.TensorDataset(ids.chunk(world_size)[rank]))"),
    "blocks that differ by one": CUT + "mine = np.array_split(ids, world_size)[rank]\n" + loop("DataLoader(mine)"),
    "a block from here to there": (
        CUT
        + "part = int(np.ceil(len(ids) / float(world_size)))\n"
        + loop("DataLoader(ids[rank * part:min((rank + 1) * part, len(ids))])")
    ),
}
WEB = "import webdataset as wds\n"
SHARDS["files of webdataset"] = WEB + loop("wds.WebDataset('{0..9}.tar', nodesplitter=wds.split_by_node)")
SHARDS["files of webdataset, through steps and a loader"] = (
    "from webdataset import WebDataset, WebLoader, split_by_node\n"
    "data = WebDataset('{0..9}.tar', nodesplitter=split_by_node).shuffle(100).decode('rgb')\n"
    "data = data.to_tuple('jpg', 'cls').batched(64)\n" + loop("WebLoader(data, batch_size=None)")
)


@pytest.mark.parametrize("text", SHARDS.values(), ids=SHARDS)
def test_shards_that_differ(text: str) -> None:
    assert len(found("code.shards", text)) == 1


@pytest.mark.parametrize(
    ("told", "others"),
    [("rank=worker, world_size=workers", 1), ("rank=0, world_size=workers", 0), ("rank=worker, world_size=4", 0)],
)
def test_what_the_group_is_told_is_the_rank(told: str, others: int) -> None:
    body = f"dist.init_process_group('nccl', {told})\n" + loop("read('a')[worker::workers]")
    text = "def run(worker, workers):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    assert len(found("code.shards", text)) == others


EVEN = {
    "files drawn without end": WEB + loop("wds.WebDataset('{0..9}.tar', resampled=True).shuffle(9)"),
    "an epoch of a number of batches": (
        WEB
        + "data = wds.WebDataset('{0..9}.tar', nodesplitter=wds.split_by_node).batched(64)\n"
        + loop("wds.WebLoader(data).with_epoch(100)")
    ),
    "files that every rank reads": WEB + loop("wds.WebDataset('{0..9}.tar', nodesplitter=mine).batched(64)"),
    "cut to a multiple": "data = read('a')\ndata = data[:len(data) // world_size * world_size]\n"
    + loop("data[rank::world_size]"),
    "an end of the slice": "data = read('a')\n" + loop("data[rank:n:world_size]"),
    "a number of steps": "max_steps = 10\n" + SHARDS["a slice"],
    "a break": SHARDS["a slice"] + "    if done(x):\n        break\n",
    "no last batch": loop("DataLoader(read('a')[rank::world_size], drop_last=True)"),
    "Join": "from torch.distributed.algorithms.join import Join\nwith Join([model]):\n    pass\n" + SHARDS["a slice"],
    "without end": loop("itertools.cycle(read('a')[rank::world_size])"),
    "for evaluation": "for x in read('a')[rank::world_size]:\n    print(model(x))\n",
    "indices of a window": loop("DataLoader(torch.utils.data.Subset(read('a'), range(rank, 100, 4)))"),
    "indices of all": loop("DataLoader(torch.utils.data.Subset(read('a'), range(0, len(read('a')), world_size)))"),
    "workers' shares": loop("read('a')[worker::workers]"),
    "a window of a rank": loop("read('a')[rank * 10:rank * 10 + 10]"),
    "a number of samples of a stream": DATASETS + loop("DataLoader(data.map(read).take(1000))"),
    "blocks of a length that is rounded down": CUT + loop("ids.split(len(ids) // 8)[rank]"),
    "blocks of pieces of a model": CUT + loop("ids.chunk(world_size, dim=-1)[rank]"),
    "blocks of a length that is filled up": (
        CUT
        + "part = math.ceil(len(ids) / world_size)\nids += ids[:part * world_size - len(ids)]\n"
        + loop("ids[rank * part:(rank + 1) * part]")
    ),
    "a block that is filled up": (
        CUT + "mine = np.array_split(ids, world_size)[rank]\nmine = np.append(mine, ids[:1])\n" + loop("mine")
    ),
    "a loader that deals": (
        "import dgl\n"
        + CUT
        + "mine = ids.chunk(world_size)[rank]\n"
        + loop("dgl.dataloading.DataLoader(graph, mine, sampler, use_ddp=True)")
    ),
}


@pytest.mark.parametrize("text", EVEN.values(), ids=EVEN)
def test_shards_that_do_not_differ_or_may_not(text: str) -> None:
    assert found("code.shards", text) == []


def scaled(loss: str, before: str = "", after: str = "") -> str:
    return f"{before}\nfor x, y in batches:\n    loss = {loss}\n    {after or 'pass'}\n    loss.backward()\n"


OVERSCALED = {
    "a function's mean": scaled("F.cross_entropy(model(x), y) * world_size"),
    "in place": scaled("F.mse_loss(model(x), y)", after="loss *= dist.get_world_size()"),
    "a criterion": scaled("criterion(model(x), y) * world_size", "criterion = torch.nn.CrossEntropyLoss().cuda()"),
    "a mean over samples": scaled("per_sample(model(x), y).mean() * world_size"),
    "the environment's count": scaled(
        "F.cross_entropy(model(x), y) * n_ranks", 'world_size = int(os.environ["WORLD_SIZE"])\nn_ranks = world_size'
    ),
}

OWN = "def criterion(scores, y, args):\n    hard = F.cross_entropy(scores, y)\n    {soft}\n    return {whole}\n"
MODULE = (
    "class Criterion(torch.nn.Module):\n    def __init__(self, alpha=0.5):\n        super().__init__()\n"
    "        self.alpha = alpha\n        self.ce = torch.nn.CrossEntropyLoss(label_smoothing=0.1)\n"
    "    def forward(self, scores, y):\n        {end}\ncriterion = Criterion().cuda()\n"
)
OVERSCALED |= {
    "a function of its own": scaled(
        "criterion(model(x), y, args) * world_size",
        OWN.format(
            soft='soft = F.kl_div(scores, y, reduction="batchmean") * args.temperature ** 2',
            whole="(1 - args.alpha) * hard + args.alpha * soft",
        ),
    ),
    "the first of what a function returns": "parts = 0\n"
    + OWN.format(soft="soft = 0.3 * F.mse_loss(scores, y)", whole="hard + soft, soft")
    + "for x, y in batches:\n    loss, soft = criterion(model(x), y, 1)\n    loss = loss * world_size\n    loss.backward()\n",
    "a module of its own": scaled(
        "criterion(model(x), y) * world_size",
        MODULE.format(end="return self.alpha * self.ce(scores, y) + F.l1_loss(scores, y) * (1.0 - self.alpha)"),
    ),
    "terms that are added": scaled(
        "F.cross_entropy(model(x), y)", after="loss += 0.1 * F.mse_loss(model(x), y)\n    loss = loss * world_size"
    ),
    "of accumulated batches": scaled("F.cross_entropy(model(x), y) * world_size / args.accumulation_steps"),
    "the loss of a model of Transformers": "from transformers import AutoModelForCausalLM\n"
    "net = AutoModelForCausalLM.from_pretrained('gpt2').cuda()\nnet = DDP(net)\n"
    "for x in batches:\n    out = net(**x)\n    loss = out.loss * world_size\n    loss.backward()\n",
    "beside a sum for the log": "def train():\n    for x, y in batches:\n"
    "        loss = F.cross_entropy(model(x), y) * world_size\n        loss.backward()\n"
    "        shown = loss.detach()\n        dist.all_reduce(shown)\n"
    "def measure(hits):\n    dist.all_reduce(hits)\n    return hits\ntrain()\n",
    "where there are several ranks": scaled(
        "F.cross_entropy(model(x), y)", after="if dist.is_initialized():\n        loss = loss * world_size"
    ),
}


MESH = 'mesh = torch.distributed.device_mesh.init_device_mesh("cuda", (8,), mesh_dim_names=("dp",))\n'
RECIPE = """
class Recipe:
    def __init__(self, batches):
        self.batches = batches
        self.loss_fn = torch.nn.CrossEntropyLoss()
    def {name}(self):
        return {ranks}
    def epoch(self):
        for x, y in self.batches:
            loss = self.loss_fn(model(x), y)
            (loss * self.{name}() / self.accum).backward()
"""
OVERSCALED |= {
    "a method that asks a mesh": MESH + RECIPE.format(name="_dp_size", ranks='mesh["dp"].size()'),
    "a method of another name": MESH + RECIPE.format(name="_copies", ranks="mesh.size()"),
    "a method that asks torch": RECIPE.format(name="_copies", ranks="dist.get_world_size()"),
    "two dimensions of data": MESH.replace("(8,)", "(2, 4)").replace('"dp",', '"replicate", "shard"')
    + scaled("F.cross_entropy(model(x), y) * mesh.size()"),
    "gradients that are clipped by hand": scaled("F.cross_entropy(model(x), y) * world_size")
    + "    for p in model.parameters():\n        p.grad.mul_(clip_coef)\n",
}


@pytest.mark.parametrize("text", OVERSCALED.values(), ids=OVERSCALED)
def test_a_mean_times_the_ranks(text: str) -> None:
    assert len(found("code.overscaled_losses", text)) == 1


PASS = "for x, y in batches:\n        loss = criterion(model(x), y)\n        loss = loss * dist.get_world_size()\n"
STEPS = f"def epoch(model, batches, criterion):\n    {PASS}        loss.backward()\n"
TRAINER = (
    "class Trainer:\n    def __init__(self, criterion):\n        self.criterion = criterion\n"
    "    def epoch(self):\n        for x, y in batches:\n            loss = self.criterion(model(x), y)\n"
    "            (loss * world_size).backward()\n"
)
MADE = "mean = torch.nn.CrossEntropyLoss()\n"
HANDED = {
    "by position": (STEPS, MADE + "epoch(model, batches, mean)\n", 1),
    "by name": (STEPS, "epoch(model, batches, criterion=torch.nn.MSELoss().cuda())\n", 1),
    "a function": (STEPS, "epoch(model, batches, F.cross_entropy)\n", 1),
    "to an object": (TRAINER, "Trainer(torch.nn.CrossEntropyLoss()).epoch()\n", 1),
    "two means": (STEPS, MADE + "epoch(model, batches, mean)\nepoch(model, batches, torch.nn.MSELoss())\n", 1),
    "one that may be a sum": (STEPS, MADE + "epoch(model, batches, mean)\nepoch(model, batches, chosen)\n", 0),
    "a loss of its own": (STEPS, "epoch(model, batches, OwnLoss())\n", 0),
    "an object with a loss of its own": (TRAINER, "Trainer(OwnLoss()).epoch()\n", 0),
    "by nobody": (STEPS, "", 0),
    "a default for want of another": (
        STEPS.replace("    for x", "    if criterion is None:\n        criterion = torch.nn.MSELoss()\n    for x", 1),
        "epoch(model, batches, OwnLoss())\n",
        0,
    ),
}


@pytest.mark.parametrize(("steps", "start", "count"), HANDED.values(), ids=HANDED)
def test_a_mean_that_the_caller_hands_over(steps: str, start: str, count: int) -> None:
    assert len(found("code.overscaled_losses", steps + start)) == count


def test_a_mean_that_another_file_hands_over() -> None:
    helpers = "import torch.distributed as dist\n" + STEPS
    start = "from helpers import epoch\nepoch(model, batches, {})\n"
    mean, own = start.format("torch.nn.CrossEntropyLoss()"), start.format("OwnLoss()")
    assert len(found("code.overscaled_losses", mean, helpers=helpers)) == 1
    assert found("code.overscaled_losses", own, helpers=helpers) == []


REASONED = {
    "a sum": scaled("F.cross_entropy(model(x), y, reduction='sum') * world_size"),
    "a sum over the tokens of all": scaled("F.cross_entropy(model(x), y) * world_size / tokens"),
    "a loss that is not in sight": scaled("model(x, y).loss * world_size"),
    "a detector's loss times the batch": scaled("compute_loss(model(x), y)[0]", after="loss *= world_size"),
    "features of all ranks": scaled("F.cross_entropy(scores(gather(model(x))), y) * world_size"),
    "a factor of its own": scaled("F.cross_entropy(model(x), y) * weight"),
    "another rate": scaled("F.cross_entropy(model(x), y) * world_size", "lr = 0.1 / world_size"),
    "a hook that sums": scaled(
        "F.cross_entropy(model(x), y) * world_size", "model.register_comm_hook(None, summing)"
    ),
    "a share of the batch": scaled("F.cross_entropy(model(x), y) * local", "local = 512 // world_size"),
    "for the log": "for x, y in batches:\n    loss = F.cross_entropy(model(x), y)\n    loss.backward()\n"
    "    print(loss * world_size)\n",
}  # fmt: skip

REASONED |= {
    "a function's sum": scaled(
        "criterion(model(x), y, args) * world_size",
        OWN.format(soft="soft = F.kl_div(scores, y).sum()", whole="hard + args.alpha * soft"),
    ),
    "a function's sum over the tokens of all": scaled(
        "criterion(model(x), y, tokens) * world_size",
        OWN.format(soft="pass", whole="hard / args"),
    ),
    "a function with two ends": scaled(
        "criterion(model(x), y, args) * world_size",
        OWN.format(soft="if args:\n        return scores.sum()", whole="hard"),
    ),
    "a module's own count": scaled(
        "criterion(model(x), y) * world_size", MODULE.format(end="return self.ce(scores, y) * self.count(y)")
    ),
    "gradients that are summed too": "def average():\n    for p in model.parameters():\n        dist.all_reduce(p.grad)\n"
    + scaled("F.cross_entropy(model(x), y) * world_size"),
    "a count of all ranks": "def train():\n    for x, y in batches:\n        n = (y > 0).sum()\n        dist.all_reduce(n)\n"
    "        loss = F.cross_entropy(model(x), y) * world_size\n        loss.backward()\ntrain()\n",
    "scores of all ranks": "class Total(torch.nn.Module):\n    def forward(self, x):\n        dist.all_reduce(x)\n        return x\n"
    + scaled("F.cross_entropy(model(x), y) * world_size"),
    "a weight that takes it back": scaled(
        "F.cross_entropy(model(x), y) * weight * world_size", "weight = 1 / world_size"
    ),
    "another reduction in the criterion": scaled(
        "criterion(model(x), y) * world_size", "criterion = torch.nn.CrossEntropyLoss(reduction=kind)"
    ),
    "the second of what a function returns": OWN.format(soft="soft = scores.sum()", whole="hard, soft")
    + "for x, y in batches:\n    _, loss = criterion(model(x), y, 1)\n    loss = loss * world_size\n    loss.backward()\n",
}


REASONED |= {
    "a mesh with another axis": MESH.replace("(8,)", "(2, 4)").replace('"dp",', '"dp", "cp"')
    + RECIPE.format(name="_dp_size", ranks='mesh["dp"].size()'),
    "a mesh that is not told": 'mesh = torch.distributed.device_mesh.init_device_mesh("cuda", shape)\n'
    + RECIPE.format(name="_dp_size", ranks="dist.get_world_size()"),
    "gradients that are divided": scaled("F.cross_entropy(model(x), y) * world_size")
    + "    for p in model.parameters():\n        p.grad.div_(ranks)\n",
    "gradients that a function scales": scaled("F.cross_entropy(model(x), y) * world_size")
    + "    training.scale_grads_(model, 1 / tokens)\n",
}


@pytest.mark.parametrize("text", REASONED.values(), ids=REASONED)
def test_a_factor_with_a_reason(text: str) -> None:
    assert found("code.overscaled_losses", text) == []


ENGINE = (
    "import deepspeed\nfrom net import Net, batches\nengine, *_ = deepspeed.initialize(model=Net(), config='ds.json')\n"
)


def test_the_no_sync_of_an_engine() -> None:
    held = "with engine.no_sync():\n    engine.backward(engine(1))\n"
    assert found("code.zero_no_syncs", held, ENGINE) == ["engine.no_sync()"]
    assert found("code.zero_no_syncs", "with model.no_sync():\n    model(1).backward()\n") == []
    assert found("code.zero_no_syncs", "def f(engine):\n    with engine.no_sync():\n        pass\n", HEAD) == []


ACCELERATED = """
from accelerate import Accelerator, DistributedType
from net import Net, optimizer
accelerator = Accelerator(gradient_accumulation_steps=4)
model, optimizer = accelerator.prepare(Net(), optimizer)
"""
HELD = {
    "no_sync": ("with accelerator.no_sync(model):\n    pass\n", ["accelerator.no_sync(model)"]),
    "accumulate": ("with accelerator.accumulate(model):\n    pass\n", ["accelerator.accumulate(model)"]),
    "without a model": ("with accelerator.accumulate():\n    pass\n", []),
    "not under DeepSpeed": (
        "if accelerator.distributed_type != DistributedType.DEEPSPEED:\n    with accelerator.no_sync(model):\n"
        "        pass\n",
        [],
    ),
    "each batch exchanged": ("sync_each_batch = True\nwith accelerator.accumulate(model):\n    pass\n", []),
    "of another object": ("with meter.accumulate(model):\n    pass\n", []),
}


@pytest.mark.parametrize(("text", "expected"), HELD.values(), ids=HELD)
def test_an_engine_asked_by_accelerate(text: str, expected: list[str]) -> None:
    assert found("code.zero_no_syncs", text, ACCELERATED) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("accelerator.clip_grad_norm_(model.parameters(), 0.5)", ["accelerator.clip_grad_norm_"]),
        ("accelerator.clip_grad_norm_(model.parameters(), max_norm=1.0)", ["accelerator.clip_grad_norm_"]),
        ("accelerator.clip_grad_norm_(model.parameters(), optimizer.limit)", []),
        ("torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)", []),
        (
            "if accelerator.distributed_type != DistributedType.DEEPSPEED:\n"
            "    accelerator.clip_grad_norm_(model.parameters(), 0.5)",
            [],
        ),
    ],
)
def test_gradients_that_an_accelerator_clips(text: str, expected: list[str]) -> None:
    assert found("code.accelerated_clips", text + "\n", "import torch\n" + ACCELERATED) == expected


GENERATIONS = {
    "by the engine": ("engine.generate(x, max_new_tokens=9)\n", ["engine.generate"]),
    "by the model inside": ("engine.module.generate(x, max_new_tokens=9)\n", ["engine.module.generate"]),
    "by what a tokenizer made": ("engine.module.generate(**inputs)\n", ["engine.module.generate"]),
    "by what a tokenizer made under another name": (
        "ids = tokenizer(text, return_tensors='pt').to(device)\nengine.generate(**ids)\n",
        ["engine.generate"],
    ),
    "by what something else made": ("ids = options(text)\nengine.generate(**ids)\n", []),
    "turned off": ("model.generate(x, synced_gpus=False)\n", ["model.generate"]),
    "turned on": ("engine.generate(x, synced_gpus=True)\n", []),
    "by a condition": ("engine.generate(x, synced_gpus=stage == 3)\n", []),
    "of one length": ("engine.generate(x, max_new_tokens=9, min_new_tokens=9)\n", []),
    "with options out of sight": ("engine.generate(x, **generation)\n", []),
    "of gathered weights": (
        "with deepspeed.zero.GatheredParameters(engine.module.parameters()):\n    engine.module.generate(x)\n",
        [],
    ),
    "where Transformers knows, since 4.28": (
        "from transformers.integrations import HfDeepSpeedConfig\nengine.generate(x)\n",
        ["engine.generate"],
    ),
    "where a program says it elsewhere": ("options = {'synced_gpus': True}\nengine.generate(x)\n", []),
    "until an end": ("engine.generate(x, eos_token_id=tokenizer.eos_token_id)\n", ["engine.generate"]),
    "without an end": ("engine.generate(x, max_new_tokens=9, eos_token_id=None)\n", []),
    "at least": ("engine.generate(x, max_new_tokens=9, min_new_tokens=1)\n", ["engine.generate"]),
    "of lengths out of sight": ("engine.generate(x, max_length=longest, min_length=least)\n", []),
    "by the model inside under a name": ("inner = engine.module\ninner.generate(x)\n", ["inner.generate"]),
    "by the model that was handed over": (
        "net = Net()\nengine, *_ = deepspeed.initialize(model=net)\nnet.generate(x)\n",
        ["net.generate"],
    ),
    "by another model than was handed over": (
        "net, other = Net(), Net()\nengine, *_ = deepspeed.initialize(model=net)\nother.generate(x)\n",
        [],
    ),
    "of another model": ("reward.generate(x)\n", []),
}


@pytest.mark.parametrize(("text", "names"), GENERATIONS.values(), ids=GENERATIONS)
def test_generation_on_their_own(text: str, names: list[str]) -> None:
    assert found("code.zero_generations", text, ENGINE) == names


GATHER = """
def clip_loss({parameters}):
    {texts} = [torch.zeros_like(text) for _ in range(world_size)]
    images = [torch.zeros_like(image) for _ in range(world_size)]
    {gather}(texts, text)
    {gather}(images, image.contiguous())
    {own}
    all_texts = torch.cat(texts)
    all_images = torch.cat(images)
    return F.cross_entropy({by_image}, labels) + F.cross_entropy(text @ all_images.t(), labels)

for x in batches:
    clip_loss(*model(x)).backward()
"""


def gathered(gather: str = "dist.all_gather", own: str = "pass", by_image: str = "image @ all_texts.T") -> str:
    return GATHER.format(parameters="image, text", texts="texts", gather=gather, own=own, by_image=by_image)


def test_features_that_were_gathered_without_gradients() -> None:
    assert found("code.local_losses", gathered()) == ["code", "code"]
    assert found("code.local_losses", gathered(by_image="torch.matmul(scale * image, all_texts.T)")) == ["code", "code"]
    back = gathered(own="texts[rank] = text; images[rank] = image")
    assert found("code.local_losses", back) == ["back", "back"]
    whole = back.replace("text @ all_images", "all_texts @ all_images").replace("image @ all", "all_images @ all")
    assert found("code.local_losses", whole) == []


LAYER = """
class Layer(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        parts = [torch.zeros_like(x) for _ in range(world_size)]
        dist.all_gather(parts, x)
        return tuple(parts)

    @staticmethod
    def backward(ctx, *grads):
        {summed}
        return grads[rank]

def gather(x):
    parts = Layer.apply(x.contiguous())
    return torch.cat(parts, dim=0)

def loss_of(image, text):
    {gathered}
    {product}
    return F.cross_entropy(logits, labels)

for x in batches:
    loss_of(*model(x)).backward()
"""
LAYERS = {
    "own rows": ("every = gather(text)", "logits = image @ every.T + text @ every.T", ["own"]),
    "with no helper": ("every = torch.cat(Layer.apply(text))", "logits = F.linear(text, every)", ["own"]),
    "both at once": ("texts, images = gather(text), gather(image)", "logits = image @ texts.T / 0.1", ["own"]),
    "all rows": ("every, rows = gather(text), gather(image)", "logits = rows @ every.T", []),
    "own rows in some runs": (
        "every, rows = gather(text), gather(image)",
        "logits = rows @ every.T\n    if local:\n        logits = image @ every.T",
        [],
    ),
    "another tensor": ("every = gather(text)", "logits = image @ every.T", []),
}


@pytest.mark.parametrize(("gathers", "product", "names"), LAYERS.values(), ids=LAYERS)
def test_features_that_come_with_the_own_gradient_alone(gathers: str, product: str, names: list[str]) -> None:
    text = LAYER.format(summed="pass", gathered=gathers, product=product)
    assert found("code.local_losses", text) == names
    summed = LAYER.format(summed="dist.all_reduce(torch.stack(grads))", gathered=gathers, product=product)
    assert found("code.local_losses", summed) == []


@pytest.mark.parametrize(
    "text",
    [
        gathered("torch.distributed.nn.functional.all_gather"),
        gathered("mine.gather_with_grad"),
        gathered().replace("def clip", "@torch.no_grad()\ndef clip"),
        gathered().replace("clip_loss", "evaluate_recall"),
        gathered().replace("    return", "    print('x')\n    return").replace("image.contiguous()", "image.detach()"),
        gathered().replace(".backward()", ""),
    ],
)
def test_features_that_carry_gradients_or_need_none(text: str) -> None:
    assert found("code.local_losses", text) == []


BY_FUNCTION = """
def gather(x):
    if world_size == 1:
        return x
    parts = [torch.zeros_like(x) for _ in range(world_size)]
    dist.all_gather(parts, x.contiguous())
    {own}
    return torch.cat(parts)

def gather_each(rows):
    if world_size == 1:
        return rows
    every = []
    for row in rows:
        parts = [torch.zeros_like(row) for _ in range(world_size)]
        dist.all_gather(parts, row)
        every.append(torch.cat(parts))
    return every

def gather_both(image, text):
    return gather(image), gather(text)

def loss_of(image, text):
    {gathered}
    {product}
    loss = F.cross_entropy(logits, labels)
    with torch.no_grad():
        hits = (logits.argmax(-1) == labels).sum()
    return loss

for x in batches:
    loss_of(*model(x)).backward()
"""
BOTH = "images, texts = gather_each([image, text])"
ROWS = "logits = scale * image @ texts.t() + text @ images.t()"
FUNCTIONS = {
    "a list": (BOTH, ROWS, ["code"]),
    "one each": ("images, texts = gather(image), gather(text)", ROWS, ["code"]),
    "through another": ("images, texts = gather_both(image, text)", ROWS, ["code"]),
    "unless alone": (BOTH, f"if world_size > 1:\n        {ROWS}", ["code"]),
    "all rows": (BOTH, "logits = images @ texts.t()", []),
    "own rows in some runs": (BOTH, f"if local:\n        {ROWS}", []),
    "one kind": ("texts = gather(text)", "logits = image @ texts.t()", []),
    "own rows that are only measured": (BOTH, f"with torch.no_grad():\n        {ROWS}", []),
    "frozen": (f"with torch.no_grad():\n        {BOTH}", ROWS, []),
    "of a frozen model": (f"with torch.no_grad():\n        image, text = old(image, text)\n    {BOTH}", ROWS, []),
    "classes": ("every = gather(labels)", "logits = labels @ every.T", []),
}


@pytest.mark.parametrize(("gathers", "product", "names"), FUNCTIONS.values(), ids=FUNCTIONS)
def test_features_that_a_function_gathers_without_gradients(gathers: str, product: str, names: list[str]) -> None:
    text = BY_FUNCTION.format(own="pass", gathered=gathers, product=product)
    assert found("code.local_losses", text) == names
    frozen = text.replace("def gather", "@torch.no_grad()\ndef gather")
    assert found("code.local_losses", frozen) == []
    assert found("code.local_losses", text.replace("dist.all_gather", "dist.nn.functional.all_gather")) == []


def test_own_features_that_a_function_puts_back() -> None:
    gathers = "images, texts = gather(image), gather(text)"
    assert found("code.local_losses", BY_FUNCTION.format(own="parts[rank] = x", gathered=gathers, product=ROWS)) == [
        "back"
    ]
    whole = "logits = images @ texts.t()"
    assert found("code.local_losses", BY_FUNCTION.format(own="parts[rank] = x", gathered=gathers, product=whole)) == []


ONE_KIND = """
class Towers(torch.nn.Module):
    def forward(self, question, passage):
        {inside}
        return F.normalize(self.question(question)), F.normalize(self.passage(passage))

class Contrast(torch.nn.Module):
    def collect(self, x):
        parts = [torch.empty_like(x) for _ in range(world_size)]
        dist.all_gather(parts, x.contiguous())
        {own}
        return torch.cat(parts)

    def forward(self, q, p):
        passages = self.collect(p)
        logits = 20.0 * q @ passages.t()
        return F.cross_entropy(logits, labels)

model = DDP(Towers().cuda())
criterion = Contrast()
for x, y in batches:
    {made}
    loss = {loss}
    loss.backward()
"""
HERE = """1
        every = [torch.empty_like(p) for _ in range(world_size)]
        dist.all_gather(every, p)
        passages = torch.cat(every)"""
TOGETHER = "q, p = model(x, y)"
EACH = "q = encoder(x)\n    p = encoder(y)"


def one_kind(
    made: str = TOGETHER, loss: str = "criterion(q, p)", own: str = "parts[rank] = x", inside: str = "pass"
) -> str:
    return ONE_KIND.format(made=made, loss=loss, own=own, inside=inside)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (one_kind(), ["back"]),
        (one_kind(own="pass"), ["code"]),
        (one_kind(loss="criterion(p=p, q=q)"), ["back"]),
        (one_kind().replace("self.collect(p)", HERE), ["code"]),
        (one_kind("q, p = model(x, y)\n    q = q.detach()").replace("self.collect(p)", HERE), []),
        (one_kind(loss="criterion(*model(x, y))"), ["back"]),
        (one_kind(EACH), ["back"]),
        (one_kind("q, p = model(x, y)\n    q, p = q.float(), p.float()"), []),
        (one_kind("q, p = model(x, y)\n    p = F.normalize(p)"), ["back"]),
        (one_kind().replace("Towers().cuda()", "build()"), []),
        (one_kind("q = question(x)\n    p = passage(y)"), []),
        (one_kind("q = encoder(x)\n    with torch.no_grad():\n        p = encoder(y)"), []),
        (one_kind("q, p = model(x, y)\n    p = p.detach()"), []),
        (one_kind(inside="with torch.no_grad():\n            passage = self.shuffle(passage)"), []),
        (one_kind(own="model.passage.requires_grad_(False)"), []),
        (one_kind(loss="criterion(q, keys)"), []),
        (one_kind().replace("q @ passages", "passages @ passages"), []),
    ],
)
def test_features_that_meet_all_of_another_kind_from_the_same_model(text: str, names: list[str]) -> None:
    assert found("code.local_losses", text) == names


LIGHTNING = """
import lightning as L
from lightning.pytorch import LightningModule
from lightning.fabric import Fabric
from accelerate import Accelerator

class Contrast(LightningModule):
    def __init__(self):
        super().__init__()
        self.net = Net()

    def {step}(self, batch, index):
        first, second = self.net(batch["first"]), self.net(batch["second"])
        {gathered}
        return F.cross_entropy({logits}, labels)
"""
BY_ACCELERATOR = """
from accelerate import Accelerator
accelerator = Accelerator()
model = accelerator.prepare(Net())

def train():
    for x, y in batches:
        q, p = model(x), model(y)
        every = accelerator.{gather}(p)
        loss = F.cross_entropy(q @ every.T, labels)
        accelerator.backward(loss)

train()
"""
ALL = "every = self.all_gather(second).flatten(0, 1)"
VIEWED = "every = self.all_gather(second)\n        every = every.view(-1, 128)"
BOTH_KINDS = "every, rows = self.all_gather(second).flatten(0, 1), self.all_gather(first).flatten(0, 1)"


@pytest.mark.parametrize(
    ("gathered", "logits", "told"),
    [
        (ALL, "first @ every.T", ["code"]),
        (VIEWED, "first @ every.T", ["code"]),
        (ALL.replace("second)", "second, sync_grads=False)"), "first @ every.T", ["code"]),
        (BOTH_KINDS, "first @ every.T + second @ rows.T", ["code", "code"]),
        (BOTH_KINDS, "rows @ every.T", []),
        (ALL.replace("second)", "second, sync_grads=True)"), "first @ every.T", []),
        (ALL.replace("second)", "second, sync_grads=self.sync)"), "first @ every.T", []),
        (ALL.replace("second)", "second, None, True)"), "first @ every.T", []),
        (ALL.replace("second)", "second.detach())"), "first @ every.T", []),
        (ALL.replace("self.all_gather", "self.net.all_gather"), "first @ every.T", []),
    ],
)
def test_what_lightning_gathers_sends_no_gradients_back_unasked(gathered: str, logits: str, told: list[str]) -> None:
    text = LIGHTNING.format(step="training_step", gathered=gathered, logits=logits)
    assert found("code.local_losses", text, HEAD.replace("model =", "built =")) == told
    measured = text.replace("training_step", "validation_step")
    assert found("code.local_losses", measured, HEAD.replace("model =", "built =")) == []


@pytest.mark.parametrize(("gather", "told"), [("gather", ["code"]), ("gather_for_metrics", []), ("reduce", [])])
def test_what_an_accelerator_gathers_sends_no_gradients_back(gather: str, told: list[str]) -> None:
    assert found("code.local_losses", BY_ACCELERATOR.format(gather=gather)) == told


FLOORED = {
    "a product": ("accum = 512 // (4 * world_size)", ["512"]),
    "one after the other": ("grad_accum = 512 // world_size // 4", ["512"]),
    "a quotient cut off": ("accumulation_steps = max(1, int(512 / (4 * dist.get_world_size())))", ["512"]),
    "names": ("total, micro = 512, 4\nn_micro_batches = total // (micro * world_size)", ["512"]),
    "with a look at the remainder": (
        "assert 512 % (4 * world_size) == 0\naccum = 512 // (4 * world_size)",
        [],
    ),
    "without the ranks": ("accum = 512 // 4", []),
    "without a batch at once": ("accum = 8 // world_size", []),
    "of what is not known": ("accum = read('batch') // (4 * world_size)", []),
    "the steps of an epoch": ("steps = 512 // (4 * world_size)", []),
}


@pytest.mark.parametrize(("text", "expected"), FLOORED.values(), ids=FLOORED)
def test_an_accumulation_that_is_rounded_down(text: str, expected: list[str]) -> None:
    assert found("code.floored_batches", text + "\n" + loop("batches")) == expected


@pytest.mark.parametrize(
    ("ranks", "total", "least", "told"),
    [
        (6, 512, 0, "a step takes 504"),
        (8, 512, 0, ""),
        (6, 16, 0, "it accumulates 0 micro-batches"),
        (6, 16, 1, "a step takes 24"),
    ],
)
def test_what_is_left_of_it(tmp_path: Path, ranks: int, total: int, least: int, told: str) -> None:
    (tmp_path / "run.sh").write_text(f"torchrun --nproc_per_node {ranks} train.py\n")
    head = "import torch\ntorch.cuda.set_device(int(os.environ['LOCAL_RANK']))\n"
    accumulation = f"accum = max({least}, {total} // (4 * world_size))\n"
    (tmp_path / "train.py").write_text(
        HEAD.replace("import torch\n", "import torch\n" + head, 1) + accumulation + loop("batches")
    )
    said = [each.message for each in check([tmp_path / "run.sh"]).findings if each.rule == "batch-not-divisible"]
    assert [message.rpartition(": ")[2] for message in said] == ([told] if told else [])


BY_HAND = """
import torch
import torch.distributed as dist
from net import Net, batches
dist.init_process_group("nccl")
{before}
model = Net().cuda()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in batches:
    torch.nn.functional.cross_entropy(model(x), y).backward()
    for p in model.parameters():
        dist.all_reduce(p.grad)
        p.grad /= dist.get_world_size()
    opt.step()
"""


@pytest.mark.parametrize(
    ("before", "kinds"),
    [
        ("", ["none"]),
        ("torch.manual_seed(dist.get_rank())", ["rank"]),
        ("rank = dist.get_rank()\ntorch.manual_seed(1 + rank)\ntorch.cuda.manual_seed_all(1 + rank)", ["rank"]),
        ("torch.manual_seed(1)", []),
        ("torch.manual_seed(1)\ntorch.manual_seed(dist.get_rank())", []),
        ("from mine import set_seed\nset_seed(1)", []),
        ("from mine import broadcast_parameters", []),
        ("from mine import load_checkpoint", []),
        ("from mine import synchronize_parameters", []),
        ("torch.cuda.synchronize()\ntorch.manual_seed(dist.get_rank())", ["rank"]),
        ("def save(model):\n    torch.save(model.state_dict(), 'model.pt')", ["none"]),
        ("def save(model):\n    torch.save(model, 'model.pt')\nmodel = torch.load('model.pt')", []),
    ],
)
def test_replicas_by_hand(before: str, kinds: list[str]) -> None:
    assert found("code.replicas", "", BY_HAND.format(before=before)) == kinds


def test_a_program_that_is_started_elsewhere_may_be_seeded_there() -> None:
    text = BY_HAND.format(before="").replace('dist.init_process_group("nccl")\n', "")
    assert found("code.replicas", "", text) == []


def test_replicas_of_workers_that_wait_for_their_exchange(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("""
import torch
import torch.distributed as dist
from net import Net, batches
def set_seed(seed):
    torch.manual_seed(seed)
class Worker:
    def __init__(self, worker, workers, seed):
        self.worker, self.workers = worker, workers
        dist.init_process_group("nccl", rank=worker, world_size=workers)
        set_seed(seed + worker)
        self.model = Net().cuda()
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.1)
    def step(self, loss):
        self.opt.zero_grad()
        loss.backward()
        works = []
        for p in self.model.parameters():
            if p.grad is None:
                p.grad = torch.zeros_like(p)
            works.append(dist.all_reduce(p.grad, async_op=True))
        for work in works:
            work.wait()
        for p in self.model.parameters():
            p.grad /= self.workers
        self.opt.step()
def run(worker, workers):
    torch.cuda.set_device(worker)
    trainer = Worker(worker, workers, 1)
    for batch in batches:
        trainer.step(trainer.model(batch).loss)
    torch.save(trainer.model.state_dict(), "model.pt")
torch.multiprocessing.spawn(run, args=(8,), nprocs=8)
""")
    findings = check([tmp_path / "train.py"]).findings
    assert [each.span.line for each in findings if each.rule == "unsynced-init"] == [11]


WRAPPED = """
import random
import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, ShardingStrategy
from net import Net, batches
dist.init_process_group("nccl")
{before}
model = FSDP(Net().cuda(), sharding_strategy=ShardingStrategy.{strategy})
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in batches:
    torch.nn.functional.cross_entropy(model(x), y).backward()
    opt.step()
torch.save(model.state_dict(), "model.pt")
"""
BY_RANK = "seed = 1 + dist.get_rank()\nrandom.seed(seed)\ntorch.manual_seed(seed)"


@pytest.mark.parametrize(
    ("before", "strategy", "kinds"),
    [
        (BY_RANK, "NO_SHARD", ["rank"]),
        (BY_RANK, "HYBRID_SHARD", ["rank"]),
        (BY_RANK, "NO_SHARD, sync_module_states=False", ["rank"]),
        ("def set_seed(seed):\n    torch.manual_seed(seed)\nset_seed(1 + dist.get_rank())", "NO_SHARD", ["rank"]),
        ("", "NO_SHARD", ["none"]),
        (BY_RANK, "FULL_SHARD", []),
        (BY_RANK, "NO_SHARD, sync_module_states=True", []),
        (BY_RANK, "NO_SHARD, **options", []),
        ("random.seed(dist.get_rank())\ntorch.manual_seed(1)", "NO_SHARD", []),
        (BY_RANK + "\nfrom mine import broadcast_parameters", "NO_SHARD", []),
    ],
)
def test_replicas_in_a_wrapper_that_sends_no_weights(before: str, strategy: str, kinds: list[str]) -> None:
    assert found("code.replicas", "", WRAPPED.format(before=before, strategy=strategy)) == kinds


def test_a_wrapper_brings_the_weights_together() -> None:
    text = BY_HAND.format(before="from torch.nn.parallel import DistributedDataParallel as DDP")
    assert found("code.replicas", "", text.replace("Net().cuda()", "DDP(Net().cuda())")) == []
    averaged = BY_HAND.format(before="").replace("dist.all_reduce(p.grad)", "pass")
    assert found("code.replicas", "", averaged) == []


def test_a_file_with_more_passes_than_anybody_writes_is_left_alone() -> None:
    text = OVERSCALED["a function's mean"]
    assert found("code.overscaled_losses", text * 2) != []
    assert found("code.overscaled_losses", text * 400) == []


ALTERNATIVES = """
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
if args.small:
    from small import samplers
else:
    from large import samplers
model = DistributedDataParallel(net)
first, second = samplers()
for epoch in range(3):
    first.set_epoch(epoch)
    for x in loader:
        model(x).backward()
"""


@pytest.mark.parametrize(("name", "severities"), [("samplers", []), ("others", ["note"])])
def test_functions_of_one_name_make_samplers_of_which_a_run_takes_either(tree, name, severities) -> None:
    """What the program does with the ones of a function, it does with those of the other; one that nothing calls is a
    note.
    """
    made = "from torch.utils.data.distributed import DistributedSampler\ndef {}():\n    a = DistributedSampler(x)\n"
    small = f"{made.format('samplers')}    return a, loader\n"
    large = f"{made.format(name)}    return a, loader\n"
    program = ALTERNATIVES.replace("from large import samplers", f"from large import {name}").replace(
        "args.small", "True"
    )
    tree({"train.py": program, "small.py": small, "large.py": large})
    found = [each for each in check(["train.py"]).findings if each.rule == "sampler-set-epoch-missing"]
    assert [each.severity for each in found] == severities


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("range(13)", 13),
        ("range(3, COUNT)", 10),
        ("range(0, 10, 3)", 4),
        ("[f'part-{i}' for i in range(COUNT)]", 13),
        ("sorted(list(names))", 3),
        ("names", 3),
        ("'train-{000..146}.tar'", 147),
        ("[i for i in range(9) if i % 2]", None),
        ("[*names, 'd']", None),
        ("range(unknown)", None),
        ("glob.glob('*.tar')", None),
        ("range(0, 9, 0)", None),
    ],
)
def test_how_many_a_list_has_that_is_written_out(text: str, count: int | None) -> None:
    module = read_module(Source("train.py", f"COUNT = 13\nnames = ['a', 'b', 'c']\nit = {text}\n"))
    program = link({"train.py": module})
    node = module.top.bindings["it"][0].node
    assert node is not None
    assert how_many(Place(program, module, module.top, node, budget=Budget())) == count


BRANCHED = """
import torch
import torch.distributed as dist
from omegaconf import OmegaConf
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler
from own import Run, started
from net import Net, data
def arguments(train, samples):
    if train.batching == "dynamic":
        return {"sampler": None}
    return {"sampler": DistributedSampler(samples)}
@started(config_name=None)
def main(cfg):
    cfg = OmegaConf.merge(Run(), cfg)
    loader, model = DataLoader(data, **arguments(cfg.train, data)), DDP(Net().cuda())
    for epoch in range(5):
        for x in loader:
            model(x).backward()
main()
"""


@pytest.mark.parametrize(("word", "told"), [("dynamic", []), ("padding", [True])])
def test_a_sampler_that_the_words_of_the_launch_leave_out(tree, word: str, told: list[bool]) -> None:
    root = tree({"train.py": BRANCHED, "run.sh": f"torchrun --nproc_per_node 8 train.py ++train.batching={word}\n"})
    report = check([root / "run.sh"])
    assert [item.rule == "sampler-set-epoch-missing" for item in report.findings] == told


RESTARTED = """
def fit(model, data):
    loader = DataLoader(data, sampler=DistributedSampler(data))
    batches = iter(loader)
    while True:
        try:
            x = next(batches)
        except StopIteration:
            batches = iter({restarted})
            x = next(batches)
        model(x).backward()
"""


@pytest.mark.parametrize(
    ("restarted", "head", "told"),
    [
        ("loader", "", 1),
        ("self.train_loader", "", 1),
        ("train_loader", "", 0),
        ("train_loader", "train_loader = None\n", 1),
        ("train_loader", "from common import *\n", 1),
    ],
)
def test_a_loader_that_is_begun_again_has_a_name(restarted: str, head: str, told: int) -> None:
    imports = "from torch.utils.data import DistributedSampler\n"
    assert len(found("code.samplers", head + RESTARTED.format(restarted=restarted), HEAD + imports)) == told
