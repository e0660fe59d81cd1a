"""What training code does with its ranks and gradients: the collections `code.*` of a program, traps included."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtlint.frameworks import STEP_LOOPS, code
from dtlint.frameworks.code.ranks import side_of
from dtlint.languages.python import link, read_module
from dtlint.languages.python.places import Budget, Place
from dtlint.languages.python.tree import Guard
from dtlint.source import Source
from dtlint.value import Value

DDP = """
import os, torch, deepspeed, accelerate
import torch.distributed as dist
from contextlib import nullcontext
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.utils.data import DataLoader, DistributedSampler
world = dist.get_world_size()
model = DDP(Net().cuda())
opt = torch.optim.SGD(model.parameters(), lr=0.1)
"""


def found(text: str, **others: str) -> dict[str, list[int]]:
    """Lines, counted behind the common head, by collection."""
    modules = {"train.py": read_module(Source("train.py", DDP + text))}
    modules.update({f"{name}.py": read_module(Source(f"{name}.py", other)) for name, other in others.items()})
    head = DDP.count("\n")
    members = code.collections(link(modules))
    faults = {name: items for name, items in members.items() if name != STEP_LOOPS}
    return {name: [item.place.line - head for item in items] for name, items in faults.items()}


HEAD = """
started = False
turn = 0
own = 0
if dist.is_initialized():
    own = dist.get_rank()
"""
"""Constants that are no rank, and one that a rank is where there is no other."""


STATE = "import torch.distributed.checkpoint.state_dict as sd\n"
LONE_STATES = [
    "o = sd.StateDictOptions(full_state_dict=True, cpu_offload=True)\nif dist.get_rank() == 0:\n"
    "    sd.get_model_state_dict(net, options=o)",
    "if dist.get_rank() == 0:\n    sd.set_model_state_dict(net, s,"
    " options=sd.StateDictOptions(full_state_dict=True, broadcast_from_rank0=True))",
]
JOINT_STATES = [
    "if dist.get_rank() == 0:\n    sd.get_model_state_dict(net, options=sd.StateDictOptions(cpu_offload=True))",
    "if dist.get_rank() == 0:\n    sd.get_model_state_dict(net, options=options)",
    "if dist.get_rank() == 0:\n    sd.get_model_state_dict(model, options=sd.StateDictOptions(full_state_dict=True))",
    "if dist.get_rank() == 0:\n    sd.set_model_state_dict(net, s, options=sd.StateDictOptions(full_state_dict=True))",
]
"""What moves the state of a model between ranks, on the first alone; and what moves nothing."""


@pytest.mark.parametrize("body", LONE_STATES)
def test_a_state_that_the_first_rank_gathers_alone(body: str) -> None:
    assert len(found(STATE + body)["code.guarded_collectives"]) == 1


@pytest.mark.parametrize("body", JOINT_STATES)
def test_a_state_that_a_rank_has_by_itself(body: str) -> None:
    assert "code.guarded_collectives" not in found(STATE + body)


def evaluating(built: str, alone: str, behind: str, more: str = "") -> str:
    return f"""
class Net(torch.nn.Module):
    def __init__(self):
        self.layers = [Block(), Block()]
class Block(torch.nn.Module):
    def __init__(self):
        self.norm = torch.nn.BatchNorm2d(8)
def measure(net, batches):
    with torch.no_grad():
        return sum(net(x) for x in batches) + sum(net(batches[0]))
wrapped = DDP({built}.cuda(), device_ids=[0]{more})
for epoch in range(3):
    for x in b:
        step(wrapped, x)
    if dist.get_rank() == 0:
        {alone}
    {behind}
"""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (evaluating("Net()", "measure(wrapped, val)", "dist.barrier()"), True),
        (evaluating("Net()", "score = wrapped(x)", "dist.broadcast(y, 0)"), True),
        (evaluating("torchvision.models.resnet50()", "measure(wrapped, val)", "dist.barrier()"), True),
        (evaluating("torchvision.models.vit_b_16()", "measure(wrapped, val)", "dist.barrier()"), False),
        (evaluating("Other()", "measure(wrapped, val)", "dist.barrier()"), False),
        (evaluating("Net()", "measure(wrapped.module, val)", "dist.barrier()"), False),
        (evaluating("Net()", "measure(wrapped, val)", "print(epoch)"), False),
        (evaluating("Net()", "measure(wrapped, val)", "tune(wrapped); dist.barrier()"), False),
        (evaluating("Net()", "measure(wrapped, val)", "dist.barrier()", ", broadcast_buffers=False"), False),
        (evaluating("Net()", "measure(wrapped, val)", "dist.barrier()", ", **options"), False),
    ],
)
def test_an_evaluation_of_the_first_rank_that_broadcasts_buffers(text: str, told: bool) -> None:
    """Where the others come to DDP's next forward pass, that answers the broadcast."""
    assert ("code.guarded_collectives" in found("import torchvision\n" + text)) is told


BUILDING = """
import torch
import torch.distributed as dist
import torchvision
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
def block(width, norm):
    assert width > 0
    return nn.Sequential(nn.Linear(width, width), {inside})
class Base(nn.Module):
    def __init__(self, kind="layer"):
        self.first = {base}
class Net(Base):
    def __init__(self, norm):
        {head}
model = DDP(Net(args.norm).cuda())
for epoch in range(3):
    fit(model)
    if dist.get_rank() == 0:
        score(model(x))
    dist.barrier()
"""


@pytest.mark.parametrize(
    ("head", "inside", "base", "told"),
    [
        ("self.a = block(8, norm)", "nn.BatchNorm1d(8)", "None", True),
        ("self.a = nn.ModuleList([block(8, norm) for _ in range(3)])", "nn.LazyBatchNorm2d()", "None", True),
        ("super().__init__()", "nn.ReLU()", "nn.BatchNorm2d(8)", True),
        ("self.body = torchvision.models.resnet18(weights=None)", "nn.ReLU()", "None", True),
        ("self.a = block(8, norm)", "nn.LayerNorm(8)", "None", False),
        ("self.a = block(8, norm)", "nn.BatchNorm1d(8) if norm == 'batch' else nn.LayerNorm(8)", "None", False),
        ("if norm:\n            self.a = block(8, norm)", "nn.BatchNorm1d(8)", "None", False),
        ("self.a = nn.Linear(8, 8)", "nn.BatchNorm1d(8)", "None", False),
    ],
)
def test_the_buffers_of_layers_that_functions_build_and_classes_inherit(
    head: str, inside: str, base: str, told: bool
) -> None:
    text = BUILDING.format(head=head, inside=inside, base=base)
    assert ("code.guarded_collectives" in found(text)) is told


EVALUATION = """
import torch
import torch.distributed as dist
from accelerate import Accelerator
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
class Net(nn.Module):
    def __init__(self):
        self.norm = nn.BatchNorm2d(8)
def train(model, loader):
    for x in loader:
        model(x).sum().backward()
@torch.no_grad()
def evaluate(model, loader):
    return sum([model(x) for x in loader])
def main(args):
    accelerator = Accelerator()
    model = Net().cuda()
    {wrap}
    for epoch in range(3):
        train(model, loader)
        {before}
        if accelerator.is_main_process:
            print(evaluate(model, val))
        {behind}
main(parse())
"""
SWITCH = "model = DDP(model) if args.distributed else model"
PREPARE = "model, optimizer = accelerator.prepare(model, optimizer)"


@pytest.mark.parametrize(
    ("wrap", "before", "behind", "told"),
    [
        (SWITCH, "pass", "dist.barrier()", True),
        (
            "if args.distributed: model = DDP(model, device_ids=[0])",
            "pass",
            "if args.distributed: dist.barrier()",
            True,
        ),
        (PREPARE, "pass", "accelerator.wait_for_everyone()", True),
        (PREPARE, "print(len(loader))", "accelerator.wait_for_everyone()", True),
        (PREPARE, "if epoch == 2: evaluate(model, val)", "accelerator.wait_for_everyone()", True),
        ("optimizer, model = accelerator.prepare(optimizer, model)", "pass", "accelerator.wait_for_everyone()", True),
        ("optimizer, model = accelerator.prepare(optimizer, other)", "pass", "accelerator.wait_for_everyone()", False),
        (f"k = dict(broadcast_buffers=False); {PREPARE}", "pass", "accelerator.wait_for_everyone()", False),
        (PREPARE, "model = accelerator.unwrap_model(model)", "accelerator.wait_for_everyone()", False),
        (PREPARE, "pass", "print(epoch)", False),
        # a pass without gradients in front, on all ranks: this one broadcasts nothing
        (PREPARE, "evaluate(model, test)", "accelerator.wait_for_everyone()", False),
        (SWITCH, "score = evaluate(model, test)", "dist.barrier()", False),
        (SWITCH, "validate_all(model, test)", "dist.barrier()", False),
        (SWITCH, "with torch.no_grad(): model(x)", "dist.barrier()", False),
    ],
)
def test_an_evaluation_of_a_model_that_runs_of_several_ranks_wrap(
    wrap: str, before: str, behind: str, told: bool
) -> None:
    text = EVALUATION.format(wrap=wrap, before=before, behind=behind)
    assert ("code.guarded_collectives" in found(text)) is told


def accumulating(sync: str, step: str, loop: str = "enumerate(batches)") -> str:
    return f"""
accum = 4
for i, x in {loop}:
    with {sync}:
        model(x).backward()
    if {step}:
        opt.step()
"""


@pytest.mark.parametrize(
    ("condition", "side"),
    [
        ("dist.get_rank() == 0", "first"),
        ("0 != dist.get_rank()", "others"),
        ("int(os.environ['RANK']) == 0 and step % 10 == 0", "first"),
        ("not (args.local_rank in (-1, 0))", "others"),
        ("not dist.is_initialized() or dist.get_rank() == 0", "first"),
        ("accelerator.is_main_process", "first"),
        ("rank", "others"),
        ("rank > 0", "others"),
        ("own == 0", "first"),
        ("local_rank == -1", ""),
        ("rank >= 0", ""),
        ("lora_rank == 0", ""),
        ("started", ""),
        ("not started", ""),
        ("turn == 0", ""),
        ("step == 0", ""),
        ("rank == 0 or args.save_all", ""),
        ("accelerator.distributed_type == DistributedType.DEEPSPEED or accelerator.is_main_process", ""),
        ("accelerator.distributed_type == DistributedType.NO or accelerator.is_main_process", "first"),
    ],
)
def test_which_ranks_a_condition_lets_pass(condition: str, side: str) -> None:
    module = read_module(
        Source("train.py", f"import os\nimport torch.distributed as dist\n{HEAD}if {condition}:\n    pass\n")
    )
    statement = module.top.node.body[-1] if isinstance(module.top.node, ast.Module) else None
    assert isinstance(statement, ast.If)
    place = Place(link({"train.py": module}), module, module.top, statement.test, budget=Budget())
    opposite = {"first": "others", "others": "first"}
    assert side_of(place, Guard(statement.test, True)) == side
    assert not side or side_of(place, Guard(statement.test, False)) in ("", opposite[side])


@pytest.mark.parametrize(
    "body",
    [
        "if dist.get_rank() == 0:\n    dist.barrier()",
        "if torch.distributed.get_rank() == 0:\n    torch.distributed.barrier()",
        "rank = dist.get_rank()\nmaster = rank == 0\nif master:\n    print(1)\n    dist.all_reduce(x)",
        "engine, _, _, _ = deepspeed.initialize(model=net)\nif dist.get_rank() == 0:\n    engine.save_checkpoint('a')",
        "accelerator = accelerate.Accelerator()\nif accelerator.is_main_process:\n    accelerator.gather(x)",
        "net = FSDP(Net())\nif dist.get_rank() == 0:\n    torch.save(net.state_dict(), 'a')",
        "def main(rank):\n    if rank != 0:\n        return\n    dist.barrier()\nmain(dist.get_rank())",
        "def save():\n    if dist.is_initialized():\n        dist.barrier()\nif dist.get_rank() == 0:\n    save()",
        "if dist.get_rank() == 0:\n    print(x)\nelse:\n    for _ in range(3):\n        dist.broadcast(x, 0)",
        "while True:\n    if dist.get_rank() != 0:\n        dist.barrier()",
        "import lightning as L\ntrainer = L.Trainer()\nif trainer.is_global_zero:\n    trainer.test(net)",
        "def save(several):\n    is_distributed = dist.is_initialized() and several\n"
        "    if is_distributed:\n        dist.barrier()\nif dist.get_rank() == 0:\n    save(True)",
        "def end():\n    return 1\nif dist.get_rank() == 0:\n    dist.barrier()\nelse:\n    server.bind(end)",
        "def fit(rank):\n    def order():\n        if rank == 0:\n            dist.broadcast(x, 0)\n"
        "    if rank == 0:\n        solve(order)\n    else:\n        print(x)",
        "def order(rank):\n    if rank == 0:\n        dist.broadcast(x, 0)\n"
        "def main():\n    while True:\n        print(x)\n        dist.broadcast(y, 0)",
        "class Net(L.LightningModule):\n    def on_validation_epoch_end(self):\n"
        "        if self.global_rank == 0:\n            self.log_dict(self.scores, sync_dist=True)",
    ],
)
def test_a_collective_that_some_ranks_miss(body: str) -> None:
    assert len(found(body)["code.guarded_collectives"]) == 1


@pytest.mark.parametrize(
    "body",
    [
        "if dist.get_rank() == 0:\n    dist.send(x, 1)\nelse:\n    dist.recv(x, 0)",
        "if dist.get_rank() == 0:\n    dist.broadcast(x, 0)\nelse:\n    dist.broadcast(y, 0)",
        "if dist.get_rank() != 0:\n    dist.barrier()\nload()\nif dist.get_rank() == 0:\n    dist.barrier()",
        "if dist.get_rank() < 4:\n    dist.barrier(group=half)",
        "if world == 1 and dist.get_rank() == 0:\n    dist.barrier()",
        "if dist.get_rank() == 0:\n    torch.save(model.state_dict(), 'a')",
        "if step == 0:\n    dist.barrier()",
        "if dist.get_rank() == 0:\n    raise ValueError\ndist.barrier()",
        "rank = 8\nif rank == 0:\n    pass\nelse:\n    merge(rank)",
        "def work():\n    dist.barrier()\nif dist.get_rank() == 0:\n    serve()\n    work()\nelse:\n    work()",
        "def sync(x, rank_id=None):\n    if rank_id:\n        dist.broadcast(x, src=rank_id)\nsync(w, w.rank_id)",
        "def sync(x, rank_id=None):\n    if rank_id:\n        dist.broadcast(x, rank_id)\nsync(w, w.rank_id)",
        "if dist.get_rank() == 0:\n    serve()\nelse:\n    while True:\n        dist.broadcast(order, 0)",
        "def listen():\n    while not done:\n        dist.broadcast(order, 0)\n"
        "if dist.get_rank() != 0:\n    listen()\nserve()",
        "def answer(x):\n    dist.broadcast(x, 0)\n"
        "if dist.get_rank() == 0:\n    server.bind(handler=answer)\nelse:\n    dist.broadcast(order, 0)",
        "def answer(x):\n    dist.broadcast(x, 0)\n"
        "if dist.get_rank() == 0:\n    server.bind(answer)\nif dist.get_rank() != 0:\n    dist.broadcast(order, 0)",
        "import lightning as L\ntrainer = L.Trainer()\ntrainer.fit(net)\n"
        "if trainer.is_global_zero:\n    trainer = L.Trainer(devices=1)\n    trainer.test(net)",
        "class Net(L.LightningModule):\n    def on_validation_epoch_end(self):\n"
        "        if self.global_rank == 0:\n            self.log('a', 1, sync_dist=True, rank_zero_only=True)",
        "class Net(L.LightningModule):\n    def on_validation_epoch_end(self):\n"
        "        if self.global_rank == 0:\n            self.log('a', 1)",
        "class Writer:\n    def write(self):\n        if dist.get_rank() == 0:\n"
        "            self.log('a', 1, sync_dist=True)",
        "def save(models):\n    is_distributed = any(is_sharded(m) for m in models.values())\n"
        "    if is_distributed:\n        dist.barrier()\nif dist.get_rank() == 0:\n    save({'net': net})",
        "def save(model):\n    if is_distributed_model(model):\n        dist.barrier()\n"
        "if dist.get_rank() == 0:\n    save(net)",
        "def fit(rank):\n    def order():\n        if rank == 0:\n            dist.broadcast(x, 0)\n"
        "    if rank == 0:\n        solve(order)\n    else:\n        while True:\n            dist.broadcast(x, 0)",
        "def fit(rank):\n    def order():\n        if rank == 0:\n            dist.all_reduce(x)\n"
        "    if rank == 0:\n        solve(order)\n    else:\n        for _ in range(9):\n            dist.all_reduce(x)",
        "def fit(rank):\n    def answer():\n        if rank != 0:\n            dist.broadcast(x, 0)\n"
        "    if rank == 0:\n        dist.broadcast(x, 0)\n    answer()",
        "def order(rank):\n    if rank == 0:\n        dist.broadcast(x, 0)\n"
        "def main(rank):\n    if rank == 0:\n        solve(order)\n    else:\n        while True:\n"
        "            dist.broadcast(x, 0)",
    ],
)
def test_a_collective_that_all_ranks_reach(body: str) -> None:
    assert "code.guarded_collectives" not in found(body)


def counting(skip: str, end: str = "", turn: str = "", loops: str = "while step < 1000", net: str = "Net()") -> str:
    return f"""
class Net(torch.nn.Module):
    def __init__(self):
        self.norm = torch.nn.InstanceNorm2d(8)
class Normed(torch.nn.Module):
    def __init__(self):
        self.norm = torch.nn.BatchNorm2d(8)
wrapped = DDP({net}.cuda())
step, more = 0, True
def fit(step, more):
    {loops}:
        for x in batches:
            {turn}
            loss = wrapped(x)
            if torch.isnan(loss):
                {skip}
            loss.backward()
            step += 1
            if step > 1000:
                {end}
                break
        print(step)
fit(0, True)
"""


def causes(text: str) -> list[object]:
    module = read_module(Source("train.py", DDP.replace("model = DDP(Net().cuda())\n", "") + text))
    members = code.collections(link({"train.py": module})).get("code.divergences", ())
    return [field.value for item in members if isinstance(field := item.fields["cause"], Value)]


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (counting("continue"), "counted"),
        (counting("break"), "counted"),
        (counting("continue", "more = False", loops="while more"), "counted"),
        (counting("continue", "return", loops="while True"), "counted"),
        (counting("return"), "loss"),
        (counting("continue", loops="for epoch in range(9)"), "loss"),
        (counting("continue", loops="while more"), "loss"),
        (counting("continue", turn="step += 0"), "loss"),
        (counting("continue", net="Normed()"), "loss"),
        (counting("continue").replace("print(step)", "dist.barrier()"), "loss"),
        (counting("continue").replace("DDP(", "FSDP("), "loss"),
    ],
)
def test_a_skipped_pass_is_made_up_where_each_rank_counts_its_passes(text: str, cause: str) -> None:
    assert causes(text) == [cause]


def forming(rank: str, setup: str) -> str:
    return f"""
def get_rank():
    if not dist.is_initialized():
        return 0
    return dist.get_rank()
def setup(local):
    {setup}
    dist.barrier()
def work(local):
    setup(local + 1)
def launch(count):
    torch.multiprocessing.spawn(work, nprocs=count - 1, join=False)
    rank = {rank}
    if rank == 0:
        setup(0)
"""


@pytest.mark.parametrize(
    ("rank", "setup", "told"),
    [
        ("get_rank()", "dist.init_process_group('nccl')", False),
        ("dist.get_rank()", "dist.init_process_group('nccl')", False),
        ("get_rank()", "print(local)", True),
        ("int(os.environ['RANK'])", "dist.init_process_group('nccl')", True),
        ("get_rank()", "if not dist.is_initialized():\n        dist.init_process_group('nccl')", True),
    ],
)
def test_before_there_is_a_process_group_each_process_is_the_first(rank: str, setup: str, told: bool) -> None:
    assert ("code.guarded_collectives" in found(forming(rank, setup))) is told


@pytest.mark.parametrize(
    ("sync", "step", "loop"),
    [
        ("nullcontext() if i % accum == 0 else model.no_sync()", "(i + 1) % accum == 0", "enumerate(batches)"),
        ("model.no_sync() if (i + 1) % accum == 0 else nullcontext()", "(i + 1) % accum == 0", "enumerate(batches)"),
        ("model.no_sync() if i % args.accum else nullcontext()", "(i + 1) % args.accum == 0", "enumerate(batches)"),
        ("nullcontext() if (i + 1) % accum == 0 else model.no_sync()", "i % accum == 0", "enumerate(batches, 1)"),
    ],
)
def test_an_exchange_in_the_wrong_micro_batch(sync: str, step: str, loop: str) -> None:
    assert found(accumulating(sync, step, loop))["code.wrong_microsteps"] == [4]


@pytest.mark.parametrize(
    ("sync", "step", "loop"),
    [
        ("nullcontext() if i % accum == accum - 1 else model.no_sync()", "(i + 1) % accum == 0", "enumerate(batches)"),
        ("model.no_sync() if i % accum else nullcontext()", "i % accum == 0", "enumerate(batches, start=1)"),
        ("nullcontext() if unclear(i) else model.no_sync()", "(i + 1) % accum == 0", "enumerate(batches)"),
        ("model.no_sync() if (i + 1) % a else nullcontext()", "(i + 1) % b == 0", "enumerate(batches)"),
    ],
)
def test_an_exchange_in_the_right_micro_batch_or_one_that_is_not_told(sync: str, step: str, loop: str) -> None:
    assert "code.wrong_microsteps" not in found(accumulating(sync, step, loop))


SYNC = "nullcontext() if (i + 1) % accum == 0 else model.no_sync()"
WHOLE = "(i + 1) % accum == 0 or i + 1 == len(batches)"
COUNTED = "(i + 1) % accum == 0 or i + 1 == steps"


@pytest.mark.parametrize(
    ("sync", "step", "more", "told"),
    [
        (SYNC, WHOLE, "", True),
        (SYNC, "(i + 1) % args.accum == 0 or i == len(batches) - 1", "", False),
        (SYNC.replace("accum", "args.accum"), WHOLE.replace("% accum", "% args.accum"), "", True),
        (SYNC, COUNTED, "steps = 250", True),
        (SYNC, COUNTED, "steps = 256", False),
        (SYNC, COUNTED, "steps = len(batches)", True),
        (SYNC, COUNTED, "steps = args.steps", False),
        (SYNC, "(i + 1) % accum == 0 or i + 1 == len(others)", "", False),
        (SYNC, "(i + 1) % accum == 0", "", False),
        (f"nullcontext() if {WHOLE} else model.no_sync()", WHOLE, "", False),
        (SYNC.replace("== 0", "== 0 or len(batches) - i <= accum"), WHOLE, "", False),
    ],
)
def test_a_step_on_what_is_left_at_the_end_that_is_not_exchanged(sync: str, step: str, more: str, told: bool) -> None:
    text = accumulating(sync, step)
    assert ("code.wrong_microsteps" in found(f"{more}\n{text}")) is told


@given(st.integers(2, 12), st.integers(0, 11))
def test_only_the_last_micro_batch_is_the_right_one(accumulation: int, synced: int) -> None:
    text = f"""
for i in range({accumulation}):
    model.require_backward_grad_sync = i == {synced}
    model(next(batches)).backward()
opt.step()
"""
    wrong = synced < accumulation - 1
    assert ("code.wrong_microsteps" in found(text)) is wrong


MEANS = """
def mean_of(t):
    total = t.clone()
    dist.all_reduce(total)
    return total / world

def shown_mean_of(t):
    total = t.detach().clone()
    dist.all_reduce(total)
    return total / world

@torch.no_grad()
def frozen_mean_of(t):
    dist.all_reduce(t)
    return t / world

"""
"""Functions that make a mean over the ranks of a tensor, and carry its gradients or none."""


@pytest.mark.parametrize(
    ("loss", "wrong"),
    [
        ("loss = model(x) / world", True),
        ("loss = model(x)\n    loss /= dist.get_world_size()", True),
        ("n = count(x)\n    dist.all_reduce(n)\n    loss = model(x).sum() / n", True),
        ("n = count(x)\n    dist.all_reduce(n)\n    loss = model(x).sum() * world / n", False),
        ("n = count(x)\n    loss = model(x).sum() / n", False),
        ("n = count(x)\n    dist.all_reduce(n, op=dist.ReduceOp.AVG)\n    loss = model(x).sum() / n", False),
        ("loss = model(x) / 4\n    shown = loss.detach() / world", False),
        ("batch = 8 * world\n    steps = batch // (micro * world)\n    loss = model(x) / steps", False),
        ("batch = 8 * world\n    round = micro * world\n    loss = model(x) / (batch / round)", False),
        ("steps = steps // world\n    steps = steps // steps\n    loss = model(x) / steps", False),
        ("batch = 8 * world\n    steps = batch // micro\n    loss = model(x) / steps", True),
        ("loss = model(x) / (accumulation * world)", True),
        ("loss = model(x) / max(1, world)", True),
        ("batch = share(world)\n    loss = model(x) / steps_of(batch=batch)", False),
        ("loss = model(x) / steps_of(world)", False),
        ("loss = model(x) / (1 if world == 1 else 4)", False),
        ("loss = model(x) / (world if dist.is_initialized() else 1)", True),
        ("aux = aux_of(x)\n    dist.all_reduce(aux)\n    aux = aux / world * 0.1\n    loss = model(x) + aux", True),
        ("aux = aux_of(x)\n    aux /= dist.get_world_size()\n    loss = model(x)\n    loss += 0.1 * aux", True),
        ("loss = sum([model(x), 0.1 * aux_of(x) / world])", True),
        ("loss = model(x) + mean_of(aux_of(x))", True),
        ("loss = model(x) + shown_mean_of(aux_of(x))", False),
        ("loss = model(x) + frozen_mean_of(aux_of(x))", False),
        ("loss = (model(x) + aux_of(x) / world) * world", False),
        ("loss = model(x) + aux_of(x).detach() / world", False),
        ("aux = aux_of(x)\n    dist.all_reduce(aux, op=dist.ReduceOp.AVG)\n    loss = model(x) + aux", False),
        ("aux = aux_of(x)\n    shown = aux / world\n    loss = model(x) + aux", False),
    ],
)
def test_a_loss_that_is_averaged_twice(loss: str, wrong: bool) -> None:
    text = f"{MEANS}for x in batches:\n    {loss}\n    loss.backward()\n    opt.step()\n"
    assert ("code.averaged_losses" in found(text)) is wrong


def test_nothing_is_said_of_a_term_beside_an_exchange_that_carries_gradients() -> None:
    text = "for x in batches:\n    loss = model(x) + gather(x) / world\n    loss.backward()\n    opt.step()\n"
    own = "class Gather(torch.autograd.Function):\n    def backward(ctx, grad):\n        dist.all_reduce(grad)\n"
    assert "code.averaged_losses" in found(text)
    assert "code.averaged_losses" not in found(own + text)


@pytest.mark.parametrize(
    ("before", "after", "wrong"), [("pass", "loss /= world", False), ("loss /= world", "pass", True)]
)
def test_a_mean_for_the_log_does_not_come_back_to_a_loss_that_both_branches_bind_anew(
    before: str, after: str, wrong: bool
) -> None:
    branches = "if plain:\n        loss, n = model(x)\n    else:\n        with cast:\n            loss, n = model(x)"
    many = "if many:\n        "
    shown = "loss.backward()\n    loss, n = loss.mean().clone(), 0"
    text = f"for x in batches:\n    {branches}\n    {many}{before}\n    {shown}\n    {many}{after}\n"
    assert ("code.averaged_losses" in found(text)) is wrong


@pytest.mark.parametrize(
    ("division", "wrong"),
    [
        ("for p in model.parameters():\n        p.grad /= dist.get_world_size()", True),
        ("torch._foreach_div_([p.grad for p in model.parameters()], dist.get_world_size())", True),
        ("g = [p.grad for p in model.parameters()]\n    torch._foreach_div_(g, dist.get_world_size())", True),
        ("torch._foreach_div_([p.grad for p in model.parameters()], accumulation)", False),
        ("torch._foreach_div_(shown, dist.get_world_size())", False),
    ],
)
def test_gradients_that_are_averaged_twice(division: str, wrong: bool) -> None:
    text = f"for x in batches:\n    model(x).backward()\n    {division}\n    opt.step()\n"
    assert ("code.averaged_losses" in found(text)) is wrong


SHARE = (
    "for x in batches:\n    n = count(x)\n    dist.all_reduce(n)\n    loss = model(x).sum() / n\n    loss.backward()\n"
)
EVERY_GRADIENT = "    for p in model.parameters():\n        if p.grad is not None:\n            "


@pytest.mark.parametrize(
    ("after", "wrong"),
    [
        (f"{EVERY_GRADIENT}p.grad.mul_(ranks)", False),
        (f"{EVERY_GRADIENT}p.grad.data *= ranks", False),
        (f"{EVERY_GRADIENT}p.grad = p.grad * ranks", False),
        (f"{EVERY_GRADIENT}p.grad.div_(share)", False),
        (f"{EVERY_GRADIENT}p.grad.copy_(p.grad * ranks)", False),
        ("    torch._foreach_mul_([p.grad for p in model.parameters()], ranks)", False),
        ("    whole = [p.grad for p in model.parameters()]\n    for each in whole:\n        each.mul_(ranks)", False),
        ("    training.scale_grads_(model, ranks)", False),
        (f"{EVERY_GRADIENT}p.grad.mul_(clip_coef)", True),
        (f"{EVERY_GRADIENT}p.grad.mul_(max_norm / norm)", True),
        (f"{EVERY_GRADIENT}p.grad.mul_(0.5)", True),
        (f"{EVERY_GRADIENT}seen.mul_(ranks)", True),
        ("    shown = loss * ranks", True),
    ],
)
def test_gradients_that_are_multiplied_back(after: str, wrong: bool) -> None:
    assert ("code.averaged_losses" in found(f"{SHARE}{after}\n    opt.step()\n")) is wrong


@pytest.mark.parametrize(
    ("shown", "wrong"),
    [
        ("loss.item() / world", False),
        ("loss.detach().mean() / world", False),
        ("model(x).mean() / world", True),
        ("model(x.detach()).mean() / world", True),
    ],
)
def test_a_number_for_the_log_that_takes_the_name_of_the_loss_goes_backward_nowhere(shown: str, wrong: bool) -> None:
    steps = (
        "    for t in range(turns):\n        if t:\n            loss = model(x)\n    loss.backward()\n    opt.step()\n"
    )
    assert ("code.averaged_losses" in found(f"for x in batches:\n{steps}    loss = {shown}\n")) is wrong


@pytest.mark.parametrize(
    ("divisor", "wrong"),
    [
        ("ranks()", True),
        ('init_device_mesh("cuda", (world,), mesh_dim_names=("dp",)).size()', True),
        ('mesh["replicate", "shard"].size()', True),
        ('mesh["tp"].size()', False),
        ("both()", False),
        ("steps()", False),
    ],
)
def test_the_number_of_ranks_as_a_helper_or_a_mesh_tells_it(divisor: str, wrong: bool) -> None:
    helpers = (
        "from torch.distributed.device_mesh import init_device_mesh\n"
        'mesh = init_device_mesh("cuda", (2, 2, 2), mesh_dim_names=("replicate", "shard", "tp"))\n'
        "def ranks():\n    return dist.get_world_size() if dist.is_initialized() else 1\n"
        "def both():\n    return 4, dist.get_world_size()\ndef steps():\n    return batch // (8 * world)\n"
    )
    text = f"{helpers}for x in batches:\n    loss = model(x) / {divisor}\n    loss.backward()\n    opt.step()\n"
    assert ("code.averaged_losses" in found(text)) is wrong


def test_gradients_that_take_back_a_factor_of_the_loss() -> None:
    text = "for x in batches:\n    loss = model(x) * world\n    loss.backward()\n    for p in model.parameters():\n"
    text += "        p.grad /= world\n    opt.step()\n"
    assert "code.averaged_losses" not in found(text)
    assert "code.averaged_losses" in found(text.replace("model(x) * world", "model(x)"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("s = DistributedSampler(data)\nfor epoch in range(3):\n    model(s).backward()", False),
        ("s = DistributedSampler(data)\nfor epoch in range(3):\n    s.set_epoch(epoch)\n    model(s).backward()", True),
        ("s = DistributedSampler(test_data)\nfor epoch in range(3):\n    model(s).backward()", True),
        ("s = DistributedSampler(data)\nfor batch in data:\n    model(s).backward()", True),
        ("s = DistributedSampler(data)\na = accelerate.Accelerator()\nfor epoch in range(3):\n    a.backward(s)", True),
        (
            "for epoch in range(3):\n    data = read(epoch)\n    s = DistributedSampler(data)\n    model(s).backward()",
            True,
        ),
        ("for epoch in range(3):\n    s = DistributedSampler(data)\n    model(s).backward()", False),
        (
            "for file in files:\n    data = read(file)\n    s = DistributedSampler(data)\n"
            "for epoch in range(3):\n    model(s).backward()",
            False,
        ),
        ("if not only_eval:\n    s = DistributedSampler(data)\nfor epoch in range(3):\n    model(s).backward()", False),
        ("if only_eval:\n    s = DistributedSampler(data)\nfor epoch in range(3):\n    model(s).backward()", True),
        ("s = DistributedSampler(data)\nwhile True:\n    for x in loader:\n        model(x).backward()", False),
        ("s = DistributedSampler(data)\nwhile True:\n    for x in loader:\n        test(x)\nmodel(s).backward()", True),
        (
            "s = DistributedSampler(data)\ndef endless(loader):\n    while True:\n        yield from loader\n"
            "for x in endless(load(s)):\n    model(x).backward()",
            False,
        ),
        (
            "s = DistributedSampler(data)\nloader = DataLoader(data, sampler=s)\nfor i in steps:\n    try:\n        x = next(it)\n"
            "    except StopIteration:\n        it = iter(loader)\n    model(x).backward()",
            False,
        ),
        (
            "options = types.SimpleNamespace(distributed=False)\nif options.distributed:\n"
            "    s = DistributedSampler(data)\nfor epoch in range(3):\n    model(s).backward()",
            False,
        ),
        (
            "options = types.SimpleNamespace(shuffled=False)\nif options.shuffled:\n"
            "    s = DistributedSampler(data)\nfor epoch in range(3):\n    model(s).backward()",
            True,
        ),
        (
            "if dist.get_world_size() == 1:\n    s = DistributedSampler(data)\nfor epoch in range(3):\n    f.backward(s)",
            True,
        ),
        (
            "if c.debug:\n    c.world_size = 1\nif c.world_size > 1 and c.debug:\n    s = DistributedSampler(data)\n"
            "for epoch in range(3):\n    model(s).backward()",
            True,
        ),
        (
            "if c.debug:\n    c.world_size = 1\nif c.world_size > 1 and not c.debug:\n"
            "    s = DistributedSampler(data)\nfor epoch in range(3):\n    model(s).backward()",
            False,
        ),
        (
            "for epoch in range(3):\n    s = DistributedSampler(data, seed=7 + epoch)\n    model(s).backward()",
            True,
        ),
        (
            "def load(d):\n    return DataLoader(d, sampler=DistributedSampler(d))\n"
            "for epoch in range(3):\n    d = read(epoch)\n    model(load(d)).backward()",
            True,
        ),
        (
            "def load(d):\n    return DataLoader(d, sampler=DistributedSampler(d))\n"
            "for epoch in range(3):\n    model(load(d)).backward()",
            False,
        ),
        (
            "for epoch in range(3):\n    s = DistributedSampler(parts[epoch])\n    model(s).backward()",
            True,
        ),
        (
            "s = DistributedSampler(data)\nfor epoch in range(3):\n    data.shuffle()\n    model(s).backward()",
            True,
        ),
        (
            "s = DistributedSampler(data)\nfor epoch in range(3):\n    loader.sampler.epoch = epoch\n    f.backward(s)",
            True,
        ),
        (
            "s = DistributedSampler(data)\nhooks = {'a': (s, s.set_epoch)}\nfor epoch in range(3):\n"
            "    hooks['a'][1](epoch)\n    f.backward(s)",
            True,
        ),
        (
            "s = DistributedSampler(data)\nrun(s, before=s.set_epoch)\nfor epoch in range(3):\n    f.backward(s)",
            True,
        ),
        (
            "s = DistributedSampler(data)\nfor epoch in range(3):\n    tell = getattr(s, 'set_epoch', None)\n"
            "    tell(epoch)\n    f.backward(s)",
            True,
        ),
        (
            "s = DistributedSampler(data)\no = DistributedSampler(other)\nfor epoch in range(3):\n"
            "    o.set_epoch(epoch)\n    model(s, o).backward()",
            False,
        ),
        (
            "valsampler = DistributedSampler(valset)\no = DistributedSampler(other)\nfor epoch in range(3):\n"
            "    o.set_epoch(epoch)\n    model(valsampler, o).backward()",
            True,
        ),
        (
            "s = DistributedSampler(data)\no = DistributedSampler(other)\nfor epoch in range(3):\n"
            "    for each in (s, o):\n        each.set_epoch(epoch)\n    model(s, o).backward()",
            True,
        ),
        (
            "s = DistributedSampler(data)\no = DistributedSampler(other)\nfor epoch in range(3):\n"
            "    o.set_epoch(epoch)\n    loader.sampler.set_epoch(epoch)\n    model(s, o).backward()",
            True,
        ),
        (
            "s = DistributedSampler(data)\nassert hasattr(s, 'set_epoch')\nprint('set_epoch')\n"
            "for epoch in range(3):\n    f.backward(s)",
            False,
        ),
    ],
)
def test_a_sampler_that_is_not_told_the_epoch(text: str, told: bool) -> None:
    assert ("code.samplers" not in found(text)) is told


def turns(text: str) -> list[object]:
    """The epochs of each sampler of a program that is told none."""
    members = code.collections(link({"train.py": read_module(Source("train.py", DDP + text))}))["code.samplers"]
    epochs = (member.fields["epochs"] for member in members)
    return [each.value if isinstance(each, Value) else None for each in epochs]


@pytest.mark.parametrize(("epochs", "known"), [("3", [None, None]), ("1", [1, 1])])
def test_of_samplers_in_branches_nobody_knows_which_deals_in_how_many_epochs(epochs: str, known: list[object]) -> None:
    branches = "if what == 'text':\n    s = DistributedSampler(texts)\nelse:\n    s = DistributedSampler(pictures)\n"
    train = f"for epoch in range({epochs}):\n    model(s).backward()"
    assert turns(branches + train) == known
    alone = branches.replace("DistributedSampler(pictures)", "None")
    assert turns(alone + train) == [int(epochs)]


MADE_UP = """
class Noise(torch.utils.data.Dataset):
    def __init__(self, size):
        self.size = size
    def __len__(self):
        return self.size
    def __getitem__(self, index):
        return torch.randn(3, 32, 32), torch.randint(0, 10, ())
class DummyText(torch.utils.data.Dataset):
    def __init__(self):
        self.rows = torch.randint(0, 100, (64, 8))
    def __getitem__(self, index):
        return self.rows[index]
class RandomCropDataset(torch.utils.data.Dataset):
    def __init__(self, files):
        self.files = files
    def __getitem__(self, index):
        return crop(self.files[index], torch.rand(2))
class SyntheticTalks(torch.utils.data.Dataset):
    def __init__(self, files):
        self.files = files
    def __getitem__(self, index):
        return read(self.files[index])
parser = argparse.ArgumentParser()
parser.add_argument("--real", action="store_true")
parser.add_argument("--dummy", action="store_true")
args = parser.parse_args()
"""


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ("data = Noise(100)", False),
        ("data = DummyText()", False),
        ("data = torchvision.datasets.FakeData(100)", False),
        ("x = torch.randn(64, 8)\ndata = torch.utils.data.TensorDataset(x, x.sum(1))", False),
        ("data = read() if args.real else Noise(100)", False),
        ("if args.real:\n    data = read()\nelse:\n    data = Noise(100)", False),
        ("data = Noise(100) if args.dummy else read()", True),
        ("data = Noise(100) if which else read()", True),
        ("data = RandomCropDataset(files)", True),
        ("data = SyntheticTalks(files)", True),
        ("x = torch.load('x.pt')\ndata = torch.utils.data.TensorDataset(x, x.sum(1))", True),
    ],
)
def test_samples_that_are_made_up_have_no_order(data: str, told: bool) -> None:
    head = "import argparse, torchvision\n" + MADE_UP
    text = f"{head}{data}\ns = DistributedSampler(data)\nfor epoch in range(3):\n    model(s).backward()"
    assert ("code.samplers" in found(text)) is told


@pytest.mark.parametrize(
    ("end", "told"),
    [
        ("exit()", False),
        ("quit(0)", False),
        ("import sys\nsys.exit(0)", False),
        ("os._exit(0)", False),
        ("raise SystemExit", False),
        ("if done:\n    raise SystemExit\nelse:\n    raise ValueError", False),
        ("if done:\n    exit()", True),
        ("def leave():\n    exit()", True),
        ("with open('log') as log:\n    log.exit()", True),
    ],
)
def test_what_stands_behind_the_end_of_a_program_is_not_judged(end: str, told: bool) -> None:
    sampler = "s = DistributedSampler(data)\n"
    epochs = "for epoch in range(3):\n    for x in b:\n        model.module(x).backward()\n"
    names = {"code.samplers", "code.bypassed_models"}
    assert names & found(f"{sampler}{end}\n{epochs}").keys() == (names if told else set())


GUARD = """
class Guard:
    def is_bad(self, value):
        return value != value or value > 5 * self.usual

    def skip(self, loss):
        value = loss.detach().item()
        return self.is_bad(value)

    def skip_together(self, loss):
        flag = torch.tensor(int(self.is_bad(loss.item())))
        dist.all_reduce(flag, op=dist.ReduceOp.MAX)
        return flag.item()

    def usual_of(self, loss):
        return self.mean_of(loss) > 5

    def log(self, loss):
        self.last = loss
        return self.count % 10 == 0

guard = Guard()
"""


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ("loss.item() > 10", True),
        ("guard.skip(loss)", True),
        ("guard.skip(value)", True),
        ("not guard.is_bad(float(loss))", True),
        ("value == 0", True),
        ("guard.skip_together(loss)", False),
        ("guard.usual_of(loss)", False),
        ("guard.log(loss)", False),
        ("average(loss) > 10", False),
        ("mean > 10", False),
        ("x.size(0) < 8", False),
        ("loss is None", False),
    ],
)
def test_ranks_that_judge_their_own_loss(condition: str, told: bool) -> None:
    text = f"{GUARD}for x in b:\n    loss = model(x)\n    value = loss.detach().item()\n    mean = average(value)\n"
    text += f"    if {condition}:\n        continue\n    loss.backward()\n"
    assert ("code.divergences" in found(text)) is told


@pytest.mark.parametrize(("end", "told"), [("return model", False), ("raise ValueError", False), ("print(1)", True)])
def test_what_stands_behind_the_end_of_a_function_is_not_judged(end: str, told: bool) -> None:
    text = f"def train(model):\n    {end}\n    for x in b:\n        model.module(x).backward()\ntrain(model)\n"
    assert ("code.bypassed_models" in found(text)) is told


@pytest.mark.parametrize(("end", "told"), [("return", False), ("print(1)", True)])
def test_a_model_that_is_moved_where_the_function_ends_is_not_trained_on(end: str, told: bool) -> None:
    moved = f"    if measure:\n        model.cpu()\n        {end}\n"
    text = f"def train(model):\n{moved}    for x in b:\n        model(x).backward()\ntrain(model)\n"
    assert ("code.moved_models" in found(text)) is told


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("for x in b:\n    y = model(x)\n    with model.no_sync():\n        y.backward()\n", "code.idle_no_syncs"),
        ("for x in b:\n    model(x).backward()\n    model.cpu()\n", "code.moved_models"),
        ("for x in b:\n    model.module(x).backward()\n", "code.bypassed_models"),
        ("for x in b:\n    y = model(x)\n    if y.isnan():\n        continue\n    y.backward()\n", "code.divergences"),
        ("net = FSDP(Net())\ntorch.nn.utils.clip_grad_norm_(net.parameters(), 1)\n", "code.shard_clips"),
        ("net = Net()\no = torch.optim.SGD(net.parameters())\nnet = FSDP(net)\n", "code.early_optimizers"),
        (
            "net = Net()\no = net.configure_optimizers(0.1, 3e-4)\nnet = FSDP(net)\nfor x in b:\n    net(x)\n",
            "code.early_optimizers",
        ),
        (
            "net = Net()\nkept = [p for p in net.parameters() if p.requires_grad]\n"
            "o = torch.optim.SGD([{'params': kept}, {'params': net.head.parameters()}])\nnet = FSDP(net)\n",
            "code.early_optimizers",
        ),
    ],
)
def test_other_mistakes_are_found(text: str, name: str) -> None:
    assert name in found(text)


@pytest.mark.parametrize(
    "text",
    [
        "for x in b:\n    with model.no_sync():\n        y = model(x)\n    y.backward()\n",
        "for x in b:\n    model(x).backward()\nmodel.cpu()\n",
        "for x in b:\n    model(x).backward()\n    model.module.log(x)\n",
        "for x in b:\n    model(x).backward()\n    if dist.get_rank() != 0:\n        continue\n    print(x)\n",
        "net = Net()\no = torch.optim.SGD(net.parameters())\nnet = FSDP(net, use_orig_params=True)\n",
        "net = Net()\nhead = Head()\no = torch.optim.SGD([*net.parameters(), *head.parameters()])\nnet = FSDP(net)\n",
        "net = FSDP(Net())\no = net.configure_optimizers(0.1)\n",
        "net = Net()\no = other.configure_optimizers(0.1)\nnet = FSDP(net)\n",
        "net = Net()\no = net.configure_optimizers(0.1)\nnet = FSDP(net)\no = net.configure_optimizers(0.1)\n",
        "def f(net):\n    torch.nn.utils.clip_grad_norm_(net.parameters(), 1)\n",
        "accum = 1\nfor i in tqdm(range(9)):\n    y = model(i)\n    if i % accum == 0 or i == 9:\n        y.backward()\n"
        "    else:\n        with model.no_sync():\n            y.backward()\n",
    ],
)
def test_what_is_right_is_left_alone(text: str) -> None:
    assert found(text) == {}


PLAIN = """
import argparse, torch
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
model = DDP(Net().cuda())
opt = torch.optim.SGD(model.parameters(), lr=0.1)
"""


def in_plain(text: str) -> set[str]:
    """The collections of a program without any other framework than torch."""
    return set(code.collections(link({"train.py": read_module(Source("train.py", PLAIN + text))})))


@pytest.mark.parametrize(("default", "exchanged"), [(8, True), (1, False), (None, False)])
def test_an_accumulation_that_a_command_may_set_has_its_default(default: int | None, exchanged: bool) -> None:
    text = (
        f"p = argparse.ArgumentParser()\np.add_argument('--every', type=int, default={default})\na = p.parse_args()\n"
        "for i, x in enumerate(b):\n    model(x).backward()\n    if i % a.every == 0:\n        opt.step()\n"
    )
    assert ("code.unskipped_exchanges" in in_plain(text)) is exchanged


@pytest.mark.parametrize(("default", "exchanged"), [(8, True), (1, False), (None, False)])
def test_turns_of_a_loop_that_a_command_may_set_have_their_default(default: int | None, exchanged: bool) -> None:
    text = (
        f"p = argparse.ArgumentParser()\np.add_argument('--every', type=int, default={default})\na = p.parse_args()\n"
        "for step in range(1000):\n    for _ in range(a.every):\n        model(next(b)).backward()\n    opt.step()\n"
    )
    assert ("code.unskipped_exchanges" in in_plain(text)) is exchanged


def test_a_step_for_what_is_left_over_is_no_second_step() -> None:
    text = "for i, x in enumerate(b):\n    model(x).backward()\n    if i % 8 == 0:\n        opt.step()\nopt.step()\n"
    assert "code.unskipped_exchanges" in in_plain(text)


STOPPED = """
import signal
def train(rank):
    def interrupted(number, frame):
        nonlocal stop
        stop = True
    stop = False
    signal.signal(signal.SIGINT, interrupted)
    for x in batches:
        model(x).backward()
        if {condition}:
            break
"""


@pytest.mark.parametrize(("condition", "parts"), [("stop", False), ("not stop", False), ("stop and rank == 0", True)])
def test_a_flag_that_a_signal_sets_parts_no_ranks(condition: str, parts: bool) -> None:
    assert ("code.divergences" in in_plain(STOPPED.format(condition=condition))) is parts


SWITCHED = """
class Callbacks:
    def __init__(self):
        self.stop = False
callbacks = Callbacks()
{more}
for x in batches:
    model(x).backward()
    if rank == 0:
        print(x)
        if callbacks.stop:
            break
"""


@pytest.mark.parametrize(
    ("more", "parts"),
    [("", False), ("callbacks.stop = wanted()", True), ('setattr(callbacks, "stop", True)', True), ("f(stop=1)", True)],
)
def test_a_switch_that_nothing_turns_on_parts_no_ranks(more: str, parts: bool) -> None:
    assert ("code.divergences" in in_plain(SWITCHED.format(more=more))) is parts


@pytest.mark.parametrize(("seed", "parts"), [("", True), ("torch.manual_seed(1)\n", False)])
def test_a_loss_that_is_the_same_for_all_ranks_parts_none(seed: str, parts: bool) -> None:
    text = (
        f"{seed}loader = DataLoader(data, 8, shuffle=True)\nfor x in loader:\n    y = model(x)\n"
        "    if y.isnan():\n        continue\n    y.backward()\n"
    )
    assert ("code.divergences" in in_plain(text)) is parts


def words_of(text: str, name: str, field: str) -> list[object]:
    """What the members of a collection of a program say in one field."""
    members = code.collections(link({"train.py": read_module(Source("train.py", text))})).get(name, ())
    values = (member.fields[field] for member in members)
    return [value.value for value in values if isinstance(value, Value)]


LOOP = "for i, x in enumerate(b):\n    "

TOLD = """
def told():
    kept, bad = 0, 0
    if dist.get_rank() == 0:
        kept, bad = measured()
    both = [bad]
    dist.broadcast_object_list(both, 0)
    if dist.get_rank() != 0:
        bad = both[0]
    return kept, bad
"""
"""Only the second of what it returns is told to all ranks."""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            "for e in range(9):\n    for x in b:\n        model(x).backward()\n    if dist.get_rank() == 0:\n        break\n",
            "rank",
        ),
        (f"{LOOP}model(x).backward()\n    if dist.get_rank() == 0 and i > 9:\n        break\n", "rank"),
        (f"{LOOP}try:\n        model(x).backward()\n    except Exception:\n        print(x)\n", "exception"),
        (
            f"{LOOP}try:\n        model(x).backward()\n    except RuntimeError:\n        if dist.is_initialized():\n"
            "            raise\n        continue\n",
            "",
        ),
        (f"{LOOP}try:\n        model(x).backward()\n    except KeyboardInterrupt:\n        break\n", ""),
        (f"{LOOP}try:\n        model(x).backward()\n    except Exception as e:\n        raise e\n", ""),
        (f"{LOOP}try:\n        model(x).backward()\n    except Exception:\n        sys.exit(1)\n", ""),
        (f"import time\n{LOOP}model(x).backward()\n    if time.time() - t > 60:\n        break\n", "clock"),
        (f"import time\n{LOOP}model(x).backward()\n    s = time.time() - t\n    if s > 60:\n        break\n", "clock"),
        (f"import time\n{LOOP}model(x).backward()\n    if stop.all_reduce(time.time() > t):\n        break\n", ""),
        (f"import time\n{LOOP}model(x).backward()\n    if i > 9:\n        break\n", ""),
        (f"{LOOP}model(x).backward()\n    dist.reduce(s, 0)\n    if s > 1:\n        break\n", ""),
        (f"s = 0\n{LOOP}model(x).backward()\n    dist.reduce(s, 0)\n    if s > 1:\n        break\n", "reduced"),
        (f"s = 0\n{LOOP}model(x).backward()\n    dist.all_reduce(s)\n    if s > 1:\n        break\n", ""),
        (
            f"s = 0\n{LOOP}model(x).backward()\n    dist.reduce(s, 0)\n    dist.broadcast(s, 0)\n"
            "    if s > 1:\n        break\n",
            "",
        ),
        (
            f"bad = 0\n{LOOP}model(x).backward()\n    if dist.get_rank() == 0:\n        bad += 1\n"
            "    if bad > 3:\n        break\n",
            "partial",
        ),
        (
            f"bad = 0\n{LOOP}model(x).backward()\n    if dist.get_rank() == 0:\n        bad += 1\n"
            "    bad = from_first(sync(bad))\n    if bad > 3:\n        break\n",
            "",
        ),
        (
            f"writer = None\n{LOOP}model(x).backward()\n    if dist.get_rank() == 0:\n        writer = open(i)\n"
            "    done = after(x, writer)\n    if done:\n        break\n",
            "",
        ),
        (
            f"bad = 0\n{LOOP}model(x).backward()\n    if dist.get_rank() == 0:\n        bad = f(x)\n    told = [bad]\n"
            "    dist.broadcast_object_list(told, 0)\n    if dist.get_rank() != 0:\n        bad = told[0]\n"
            "    if bad > 3:\n        break\n",
            "",
        ),
        (
            f"bad = 0\n{LOOP}model(x).backward()\n    if dist.get_rank() == 0:\n        bad = f(x)\n"
            "        sent = tensor_of(bad)\n    dist.broadcast(sent, src=0)\n    if dist.get_rank() != 0:\n"
            "        told = pickle.loads(bytes(sent.tolist()))\n        bad = told['bad']\n    if bad > 3:\n        break\n",
            "",
        ),
        (
            f"bad = 0\n{LOOP}model(x).backward()\n    dist.all_reduce(loss)\n    if dist.get_rank() == 0:\n"
            "        mean = loss / 8\n        bad = f(mean)\n    if bad > 3:\n        break\n",
            "partial",
        ),
        (
            f"bad = 0\n{LOOP}model(x).backward()\n    if dist.get_rank() == 0:\n        bad = f(x)\n    else:\n"
            "        bad = g(x)\n    if bad > 3:\n        break\n",
            "",
        ),
        (f"{TOLD}{LOOP}model(x).backward()\n    kept, bad = told()\n    if bad > 3:\n        break\n", ""),
        (f"{TOLD}{LOOP}model(x).backward()\n    kept, bad = told()\n    if kept > 3:\n        break\n", "partial"),
        (
            "def fit():\n    for x in b:\n        model(x).backward()\nfor e in range(9):\n    fit()\n"
            "    if dist.get_rank() == 0:\n        break\n",
            "rank",
        ),
    ],
)
def test_ranks_part_by_what_only_they_know(text: str, cause: str) -> None:
    assert words_of(f"{DDP}import sys\n{text}", "code.divergences", "cause") == ([cause] if cause else [])


MANAGED = """
from accelerate import Accelerator
import lightning as L
a, f = Accelerator(), L.Fabric(devices=8)
model, opt = a.prepare(Net(), opt)
net, step = f.setup(Net(), opt)
"""


def in_managed(text: str) -> set[str]:
    """The collections of a program whose models an Accelerator and a Fabric wrap."""
    return set(code.collections(link({"train.py": read_module(Source("train.py", MANAGED + text))})))


EVERY = "    if (i + 1) % 4 == 0:\n        opt.step()\n"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (f"{LOOP}a.backward(model(x))\n{EVERY}", "code.unskipped_exchanges"),
        (f"{LOOP}f.backward(net(x))\n{EVERY}", "code.unskipped_exchanges"),
        (f"{LOOP}a.backward(model(x) / a.num_processes)\n    opt.step()\n", "code.averaged_losses"),
        (f"{LOOP}y = model(x)\n    with a.no_sync(model):\n        a.backward(y)\n", "code.idle_no_syncs"),
        (f"{LOOP}y = net(x)\n    with f.no_backward_sync(net):\n        f.backward(y)\n", "code.idle_no_syncs"),
        (
            f"{LOOP}with f.no_backward_sync(net, enabled=(i + 1) % 4 == 0):\n        f.backward(net(x))\n{EVERY}",
            "code.wrong_microsteps",
        ),
    ],
)
def test_what_an_accelerator_and_a_fabric_do_is_seen(text: str, name: str) -> None:
    assert name in in_managed(text)


@pytest.mark.parametrize(
    "text",
    [
        f"{LOOP}with a.accumulate(model):\n        a.backward(model(x))\n        opt.step()\n",
        f"{LOOP}with f.no_backward_sync(net, enabled=(i + 1) % 4 != 0):\n        f.backward(net(x))\n{EVERY}",
        f"{LOOP}a.backward(model(x) * a.num_processes / total)\n    opt.step()\n",
        f"c = Accelerator(gradient_accumulation_steps=4)\n{LOOP}c.backward(model(x))\n{EVERY}",
    ],
)
def test_what_is_right_with_an_accelerator_and_a_fabric_is_left_alone(text: str) -> None:
    assert in_managed(text) & {"code.unskipped_exchanges", "code.averaged_losses", "code.wrong_microsteps"} == set()


@pytest.mark.parametrize(
    ("made", "loss", "effect"),
    [
        ("deepspeed.initialize(model=m)[0]", "y / e.gradient_accumulation_steps()", "engine"),
        ("Accelerator(gradient_accumulation_steps=8)", "y / 8", "twice"),
        ("Accelerator(gradient_accumulation_steps=args.steps)", "y / args.steps", "twice"),
        ("Accelerator(gradient_accumulation_plugin=GradientAccumulationPlugin(num_steps=8))", "y / 8", "twice"),
        ("Accelerator(gradient_accumulation_plugin=GradientAccumulationPlugin(8))", "y / 8", "twice"),
        ("Accelerator(gradient_accumulation_plugin=GradientAccumulationPlugin(num_steps=4))", "y / 8", ""),
        ("Accelerator(gradient_accumulation_steps=1)", "y / 1", ""),
        ("Accelerator()", "y / 8", ""),
        ("Accelerator()", "y / args.gradient_accumulation_steps", "named"),
        ("Accelerator(gradient_accumulation_steps=4)", "y / args.gradient_accumulation_steps", ""),
        ("deepspeed.initialize(model=m)[0]", "y / grad_accum", "named"),
        ("deepspeed.initialize(model=m)[0]", "y / cfg.accumulation_steps", "named"),
        ("deepspeed.initialize(model=m)[0]", "y / cfg['gradient_accumulation_steps']", "named"),
        ("deepspeed.initialize(model=m)[0]", "y / cfg['train'].get('accum_steps', 1)", "named"),
        ("deepspeed.initialize(model=m)[0]", "y / cfg['tokens']", ""),
        ("deepspeed.initialize(model=m)[0]", "y / accumulated_tokens", ""),
        ("deepspeed.initialize(model=m)[0]", "y / e.world_size", ""),
    ],
)
def test_a_loss_is_divided_by_the_accumulation_once(made: str, loss: str, effect: str) -> None:
    head = (
        f"import deepspeed\nfrom accelerate import Accelerator\ne = {made}\n"
        if "[0]" not in made
        else (f"import deepspeed\ne, _, _, _ = {made.removesuffix('[0]')}\n")
    )
    text = f"{head}y = e(x)\nloss = {loss}\ne.backward(loss)\n"
    assert words_of(text, "config.conflicts", "effect") == ([effect] if effect else [])


def test_an_engine_that_is_told_not_to_divide_does_not() -> None:
    head = (
        "import deepspeed\ne, _, _, _ = deepspeed.initialize(model=m)\nloss = e(x) / e.gradient_accumulation_steps()\n"
    )
    assert words_of(f"{head}e.backward(loss, scale_wrt_gas=False)\n", "config.conflicts", "effect") == []


BY_HAND = """
import lightning as L, torch
class Own(L.LightningModule):
    def __init__(self, every=4):
        super().__init__()
        self.automatic_optimization = False
        self.every = every
    def training_step(self, batch, index):
        opt = self.optimizers()
        self.manual_backward(self.net(batch) / self.every)
"""


@pytest.mark.parametrize(
    ("step", "told"),
    [
        ("        if (index + 1) % self.every == 0:\n            opt.step()\n            opt.zero_grad()\n", True),
        ("        if (index + 1) % 1 == 0:\n            opt.step()\n", False),
        ("        opt.step()\n        opt.zero_grad()\n", False),
        ("        opt.step()\n        if index % 100 == 0:\n            self.schedule.step()\n", False),
        (
            "        if index % 8 == 7:\n            opt.step()\n    def off(self):\n        return self.net.no_sync()\n",
            False,
        ),
    ],
)
def test_a_module_of_lightning_that_accumulates_by_hand(step: str, told: bool) -> None:
    program = link({"train.py": read_module(Source("train.py", BY_HAND + step + "L.Trainer(devices=8).fit(Own())\n"))})
    assert ("code.unskipped_exchanges" in code.collections(program)) is told


MEASURING = """
accelerator = accelerate.Accelerator()
net, opt, train, val = accelerator.prepare(Net(), opt, train_batches(), val_batches())
own = DataLoader(data)
best, bad = 9.0, 0
for epoch in range(9):
    for x in train:
        accelerator.backward(net(x))
        opt.step()
    losses, total, count = [], 0, 0
"""
JUDGING = """
    if score < best:
        best, bad = score, 0
    else:
        bad += 1
    if bad > 5:
        break
"""


@pytest.mark.parametrize(
    ("measure", "told"),
    [
        ("    for x in val:\n        losses.append(net(x))\n    score = torch.stack(losses).mean().item()\n", True),
        ("    for x in val:\n        y = net(x)\n        total += y.item()\n    score = total / 9\n", True),
        (
            "    for x in DataLoader(data, sampler=DistributedSampler(data)):\n        total += net(x).item()\n"
            "    score = total / 9\n",
            True,
        ),
        ("    for x in own:\n        total += net(x).item()\n    score = total / 9\n", False),
        ("    for x in val:\n        count += 1\n    score = count / 9\n", False),
        ("    for x in val:\n        losses.append(net(x))\n    score = accelerator.gather(losses).mean()\n", False),
        (
            "    for x in val:\n        y = accelerator.gather_for_metrics(net(x))\n        losses.append(y)\n"
            "    score = torch.stack(losses).mean()\n",
            False,
        ),
        (
            "    for x in val:\n        total += net(x)\n    dist.all_reduce(total)\n    score = total.item()\n",
            False,
        ),
    ],
)
def test_a_training_that_ends_by_what_a_rank_measured_on_its_share(measure: str, told: bool) -> None:
    text = MEASURING + measure + JUDGING
    assert ("code.divergences" in found(text)) is told


def test_an_accelerator_exchanges_without_a_wrapper_of_the_program() -> None:
    text = MEASURING + "    for x in val:\n        total += net(x).item()\n    if total < 3:\n        break\n"
    modules = {"train.py": read_module(Source("train.py", "import torch, accelerate\n" + text))}
    assert "code.divergences" in code.collections(link(modules))
    plain = text.replace("accelerator.backward(net(x))", "net(x).backward()")
    modules = {"train.py": read_module(Source("train.py", "import torch, accelerate\n" + plain))}
    assert "code.divergences" not in code.collections(link(modules))


CLIPPED = """
import math
import numpy as np
net = FSDP(Net())
LIMIT = float("inf")
for x in b:
    net(x).backward()
    {clip}
"""


@pytest.mark.parametrize(
    ("clip", "wrong"),
    [
        ("torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)", True),
        ("torch.nn.utils.clip_grad_norm_(net.parameters(), float('1.5'))", True),
        ("torch.nn.utils.clip_grad_norm_(net.parameters(), args.clip)", True),
        ("norm = torch.nn.utils.clip_grad_norm_(net.parameters(), float('inf'))", False),
        ("norm = torch.nn.utils.clip_grad_norm_(net.parameters(), max_norm=math.inf)", False),
        ("norm = torch.nn.utils.clip_grad_norm_(net.parameters(), np.inf)", False),
        ("norm = torch.nn.utils.clip_grad_norm_(net.parameters(), LIMIT)", False),
        ("with FSDP.summon_full_params(net, with_grads=True):\n        torch.nn.utils.clip_grad_norm_(net.parameters(), 1)", False),
        ("with FSDP.summon_full_params(net):\n        torch.nn.utils.clip_grad_norm_(net.parameters(), 1)", True),
        ("try:\n        net.clip_grad_norm_(1)\n    except AttributeError:\n        torch.nn.utils.clip_grad_norm_(net.parameters(), 1)", False),
        ("if dist.get_world_size() == 1:\n        torch.nn.utils.clip_grad_norm_(net.parameters(), 1)", False),
    ],
)  # fmt: skip
def test_shards_are_clipped_where_something_is(clip: str, wrong: bool) -> None:
    assert ("code.shard_clips" in found(CLIPPED.format(clip=clip))) is wrong


MADE_TOGETHER = """
def share(batch):
    loss = model(batch).mean()
    {exchange}
    return loss
for x in b:
    loss = share(x)
    if torch.isnan({judged}).item():
        continue
    loss.backward()
"""


@pytest.mark.parametrize(
    ("exchange", "judged", "parts"),
    [
        ("dist.reduce(loss, dst=0)\n    dist.broadcast(loss, src=0)", "loss", False),
        ("dist.all_reduce(loss)", "loss.detach()", False),
        ("dist.reduce(loss, dst=0)", "loss", True),
        ("loss = loss.gather(0, picked)", "loss", True),
        ("torch.cuda.synchronize()", "loss", True),
    ],
)
def test_a_loss_that_the_ranks_have_exchanged_parts_none(exchange: str, judged: str, parts: bool) -> None:
    assert ("code.divergences" in found(MADE_TOGETHER.format(exchange=exchange, judged=judged))) is parts


RECOMPUTED = """
from torch.utils.checkpoint import checkpoint
class Block(torch.nn.Module):
    def forward(self, x):
        return checkpoint(self.inner, x)
class Other(torch.nn.Module):
    def forward(self, x):
        return checkpoint(self.inner, self.stem(x))
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.head = torch.nn.Linear(8, 8), {head}
    def forward(self, x, y):
        {forward}
        return self.head(z)
{made}
wrapped = DDP(net, find_unused_parameters=True)
"""
PLAIN_HEAD, DIRECT = "torch.nn.Linear(8, 1)", "net = Net()"


@pytest.mark.parametrize(
    ("forward", "head", "made", "fails"),
    [
        ("z = checkpoint(self.part, self.stem(x))", PLAIN_HEAD, DIRECT, True),
        ("x = self.stem(x)\n        z = checkpoint(self.part, x, use_reentrant=True)", PLAIN_HEAD, DIRECT, True),
        ("z = self.stem(x)\n        for each in self.parts:\n            z = checkpoint(each, z)", PLAIN_HEAD, DIRECT, True),
        ("z = checkpoint(self.part, x, self.query)", PLAIN_HEAD, DIRECT, True),
        ("x.requires_grad_()\n        z = checkpoint(self.part, x)", PLAIN_HEAD, DIRECT, True),
        ("z = self.stem(x)", "Block()", DIRECT, True),
        ("z = self.stem(x)", "Block()", "net = build(Net)", True),
        ("z = checkpoint(self.part, x)", PLAIN_HEAD, "net = build(Net())", True),
        ("z = checkpoint(self.part, x)", PLAIN_HEAD, DIRECT, False),
        ("z = checkpoint(self.part, torch.cat([x, y.float() / 255], 1))", PLAIN_HEAD, DIRECT, False),
        ("x = checkpoint(self.part, x)\n        z = checkpoint(self.rest, x)\n        x = self.stem(z)", PLAIN_HEAD, DIRECT, False),
        ("z = x\n        for each in self.parts:\n            z = checkpoint(each, z)", PLAIN_HEAD, DIRECT, False),
        ("z = self.stem(x)", PLAIN_HEAD, DIRECT, False),
    ],
)  # fmt: skip
def test_recomputation_that_runs_backward_in_between(forward: str, head: str, made: str, fails: bool) -> None:
    told = found(RECOMPUTED.format(forward=forward, head=head, made=made))
    assert ("code.searched_recomputations" in told) is fails


CRITERION = """
class Criterion(torch.nn.Module):
    def forward(self, a, b):
        {exchange}
        return (a @ b.T).mean()
criterion = Criterion()
for a, b in batches:
    loss = criterion(model(a), b)
    if torch.isnan(loss):
        continue
    loss.backward()
"""


@pytest.mark.parametrize(
    ("exchange", "parts"),
    [
        ("dist.all_gather(rows, a)", False),
        ("a = a.sum(0) / dist.get_world_size()", True),
        ("dist.all_to_all_single(out, a)", True),
    ],
)
def test_a_criterion_on_what_all_ranks_gathered_is_the_same_for_all(exchange: str, parts: bool) -> None:
    assert ("code.divergences" in found(CRITERION.format(exchange=exchange))) is parts


PICKED = """
import random
import numpy as np
from torch.utils.data import DataLoader, DistributedSampler
class Rows:
    def __getitem__(self, index):
        {item}
loader = DataLoader(Rows(), sampler=DistributedSampler(Rows()))
for epoch in range(5):
    for x in loader:
        model(x).backward()
"""


@pytest.mark.parametrize(
    ("item", "told"),
    [
        ("return self.rows[index]", True),
        ("index = (index + random.randint(0, 3)) % 9\n        return self.rows[index]", True),
        ("if self.mixed:\n            index = random.randint(0, 9)\n        return self.rows[index]", True),
        ("index = random.randint(0, len(self.rows) - 1)\n        return self.rows[index]", False),
        ("return self.rows[np.random.choice(9)]", False),
        ("return random.choice(self.rows)", False),
    ],
)
def test_samples_that_no_index_picks_have_no_order(item: str, told: bool) -> None:
    assert ("code.samplers" in found(PICKED.format(item=item))) is told


SKIPPED = "for x in b:\n    loss = model(x)\n    if {test}:\n        {before}\n        continue\n    loss.backward()\n"


@pytest.mark.parametrize(
    ("test", "before", "parts"),
    [
        ("torch.isnan(loss)", "print(loss)", True),
        ("torch.isnan(loss) or step == 0", "print(loss)", True),
        ("torch.isnan(loss)", "(loss * 0).backward()", False),
        ("torch.isnan(loss)", "sum(p.sum() * 0 for p in model.parameters()).backward()", False),
        ("torch.isnan(loss) and dist.get_world_size() == 1", "print(loss)", False),
        ("torch.isnan(loss) and dist.get_world_size() > 1", "print(loss)", True),
        ("torch.isnan(loss) or dist.get_world_size() == 1", "print(loss)", True),
    ],
)
def test_a_turn_without_a_backward_pass(test: str, before: str, parts: bool) -> None:
    assert ("code.divergences" in found(SKIPPED.format(test=test, before=before))) is parts


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("torch.isnan(images).any()", ["picked"]),
        ("not torch.isfinite(images).all()", ["picked"]),
        ("torch.isnan(labels).any()", []),
        ("torch.isnan(outputs).any()", ["loss"]),
        ("torch.isnan(loss)", ["loss"]),
    ],
)
def test_a_batch_that_is_not_finite_is_no_loss_and_numbers_of_classes_are_finite(
    test: str, expected: list[object]
) -> None:
    text = f"""
model = DDP(Net().cuda())
def fit():
    for images, labels in loader:
        images, labels = images.cuda(), labels.cuda()
        outputs = model(images)
        loss = criterion(outputs, labels)
        if {test}:
            continue
        loss.backward()
fit()
"""
    assert causes(text) == expected


TORN = """
ddp = world > 1
for x in batches:
    if dist.get_rank() == 0:
        if done(x):
            FIRST
            break
    model(x).backward()
    opt.step()
AGAIN
"""
_DESTROYED = "dist.destroy_process_group()"


@pytest.mark.parametrize(
    ("first", "again", "cause"),
    [
        (_DESTROYED, _DESTROYED, "torn"),
        (f"if ddp:\n                {_DESTROYED}", f"if ddp:\n    {_DESTROYED}", "torn"),
        (_DESTROYED, f"if dist.is_initialized():\n    {_DESTROYED}", "rank"),
        (f"if ddp:\n                {_DESTROYED}", f"if world > 8:\n    {_DESTROYED}", "rank"),
        (_DESTROYED, "", "rank"),
        ("print(x)", _DESTROYED, "rank"),
    ],
)
def test_a_rank_that_destroys_its_group_twice_fails_and_hangs_nobody(first: str, again: str, cause: str) -> None:
    text = DDP + TORN.replace("FIRST", first).replace("AGAIN", again)
    assert words_of(text, "code.divergences", "cause") == [cause]
