"""Which hand-made gradient exchanges a program holds, and what is known of each: `code.collectives`."""

from __future__ import annotations

import pytest

from dtlint.frameworks import Member
from dtlint.frameworks.pytorch import program as pytorch
from dtlint.languages.python import link, read_module
from dtlint.source import Source
from dtlint.value import Setting, Value

HEAD = """
import torch, os
import torch.distributed as dist
import torch.nn.functional as F
dist.init_process_group("nccl")
world = dist.get_world_size()
model = Net().cuda()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
"""

LOOP = (
    HEAD
    + """
for x, y in loader:
    loss = F.cross_entropy(model(x), y){loss}
    opt.zero_grad()
    loss.backward()
    {exchange}
    opt.step()
"""
)


def members(text: str, **others: str) -> tuple[Member, ...]:
    modules = {"train.py": read_module(Source("train.py", text))}
    modules.update({f"{name}.py": read_module(Source(f"{name}.py", other)) for name, other in others.items()})
    return pytorch.read(link(modules)).collections["code.collectives"]


def loop(exchange: str, loss: str = "") -> str:
    return LOOP.format(exchange=exchange.replace("\n", "\n    "), loss=loss)


def known(value: Setting) -> object:
    return value.value if isinstance(value, Value) else "?"


def fields(text: str, **others: str) -> list[dict[str, object]]:
    return [{name: known(value) for name, value in member.fields.items()} for member in members(text, **others)]


def summed_for_certain(text: str, **others: str) -> bool:
    """What the rule about unaveraged gradients asks of a call, of every call in the text."""
    found = fields(text, **others)
    return bool(found) and all(
        item["over_gradients"] is True
        and item["operation"] == "sum"
        and item["divided"] is False
        and item["loss_scaled"] is False
        and item["wrapper"] == "none"
        for item in found
    )


SUMMED = {
    "loop over the parameters": "for p in model.parameters():\n    dist.all_reduce(p.grad)",
    "the gradient's data": "for p in model.parameters():\n    dist.all_reduce(p.grad.data, op=dist.ReduceOp.SUM)",
    "named parameters": (
        "for name, p in model.named_parameters():\n    if p.grad is not None:\n        dist.all_reduce(p.grad)"
    ),
    "a filter": "for p in filter(lambda p: p.requires_grad, model.parameters()):\n    dist.all_reduce(p.grad)",
    "a list": (
        "grads = [p.grad for p in model.parameters() if p.grad is not None]\nfor g in grads:\n    dist.all_reduce(g)"
    ),
    "an appended list": (
        "grads = []\nfor p in model.parameters():\n    grads.append(p.grad)\nfor g in grads:\n    dist.all_reduce(g)"
    ),
    "a flat buffer": "flat = torch.cat([p.grad.view(-1) for p in model.parameters()])\ndist.all_reduce(flat)",
    "coalesced": "dist.all_reduce_coalesced([p.grad for p in model.parameters()])",
    "asynchronous": (
        "works = [dist.all_reduce(p.grad, async_op=True) for p in model.parameters()]\nfor w in works:\n    w.wait()"
    ),
    "the whole world by name": "for p in model.parameters():\n    dist.all_reduce(p.grad, group=dist.group.WORLD)",
    "the optimizer's groups": (
        "for group in opt.param_groups:\n    for p in group['params']:\n        dist.all_reduce(p.grad)"
    ),
    "skipping with continue": (
        "for p in model.parameters():\n    if p.grad is None:\n        continue\n    dist.all_reduce(p.grad)"
    ),
    "reduced and sent back": (
        "for p in model.parameters():\n"
        "    dist.reduce(p.grad.data, 0, dist.ReduceOp.SUM)\n"
        "    dist.broadcast(p.grad.data, src=0)"
    ),
    "sent back in another loop": (
        "for p in model.parameters():\n    dist.reduce(p.grad, dst=0)\n"
        "for p in model.parameters():\n    dist.broadcast(p.grad, 0)"
    ),
    "a guard on the world": "if world > 1:\n    for p in model.parameters():\n        dist.all_reduce(p.grad)",
}


@pytest.mark.parametrize("exchange", SUMMED.values(), ids=SUMMED.keys())
def test_gradients_are_summed_and_never_divided(exchange: str) -> None:
    assert summed_for_certain(loop(exchange))


DIVIDED = {
    "in place": "for p in model.parameters():\n    dist.all_reduce(p.grad)\n    p.grad /= world",
    "before": "for p in model.parameters():\n    p.grad.div_(dist.get_world_size())\n    dist.all_reduce(p.grad)",
    "after a reduce": (
        "for p in model.parameters():\n    dist.reduce(p.grad, 0)\n    dist.broadcast(p.grad, 0)\n    p.grad /= world"
    ),
    "before a reduce": (
        "for p in model.parameters():\n    p.grad /= world\n    dist.reduce(p.grad, 0)\n    dist.broadcast(p.grad, 0)"
    ),
    "in another loop": (
        "for p in model.parameters():\n"
        "    dist.all_reduce(p.grad)\n"
        "for p in model.parameters():\n"
        "    p.grad.data.mul_(1.0 / world)"
    ),
    "assigned": "for p in model.parameters():\n    dist.all_reduce(p.grad)\n    p.grad = p.grad / float(world)",
    "a size by another name": (
        "size = float(dist.get_world_size())\n"
        "for p in model.parameters():\n"
        "    dist.all_reduce(p.grad.data)\n"
        "    p.grad.data /= size"
    ),
    "the flat buffer": (
        "flat = torch.cat([p.grad.view(-1) for p in model.parameters()])\ndist.all_reduce(flat)\nflat /= world"
    ),
    "foreach": (
        "grads = [p.grad for p in model.parameters()]\n"
        "for g in grads:\n"
        "    dist.all_reduce(g)\n"
        "torch._foreach_div_(grads, world)"
    ),
    "another package's count": (
        "for p in model.parameters():\n    dist.all_reduce(p.grad)\n    p.grad /= dgl.distributed.get_num_client()"
    ),
}


@pytest.mark.parametrize("exchange", DIVIDED.values(), ids=DIVIDED.keys())
def test_a_division_is_seen(exchange: str) -> None:
    assert [item["divided"] for item in fields(loop(exchange))] == [True]


def test_an_average_is_an_average() -> None:
    found = fields(loop("for p in model.parameters():\n    dist.all_reduce(p.grad, op=dist.ReduceOp.AVG)"))
    assert [item["operation"] for item in found] == ["avg"]


@pytest.mark.parametrize("how", ["dst=0, op=dist.ReduceOp.AVG", "0, dist.ReduceOp.AVG"])
def test_a_reduce_may_average(how: str) -> None:
    found = fields(loop(f"for p in model.parameters():\n    dist.reduce(p.grad, {how})\n    dist.broadcast(p.grad, 0)"))
    assert [item["operation"] for item in found] == ["avg"]


@pytest.mark.parametrize("after", ["print(p.grad.norm())", "dist.broadcast(p.data, 0)"])
def test_a_sum_that_does_not_come_back_is_no_exchange(after: str) -> None:
    assert fields(loop(f"for p in model.parameters():\n    dist.reduce(p.grad, 0)\n    {after}")) == []


def test_a_reduce_over_some_ranks_is_not_certain() -> None:
    reduced = "dist.reduce(p.grad, 0, dist.ReduceOp.SUM, some)"
    exchange = f"for p in model.parameters():\n    {reduced}\n    dist.broadcast(p.grad, 0)"
    assert [item["wrapper"] for item in fields(loop(exchange))] == ["?"]


@pytest.mark.parametrize(
    "loss", [" / world", " / dist.get_world_size()", " * (1.0 / world)", " / (accumulation * world)"]
)
def test_the_loss_carries_the_division(loss: str) -> None:
    found = fields(loop("for p in model.parameters():\n    dist.all_reduce(p.grad)", loss))
    assert [item["loss_scaled"] for item in found] == [True]


def test_the_loss_is_divided_in_place() -> None:
    text = loop("for p in model.parameters():\n    dist.all_reduce(p.grad)").replace(
        "    opt.zero_grad()", "    loss /= world"
    )
    assert [item["loss_scaled"] for item in fields(text)] == [True]


@pytest.mark.parametrize("loss", [" / accumulation_steps", " * 0.5", " / 1"])
def test_accumulation_says_nothing_about_ranks(loss: str) -> None:
    assert summed_for_certain(loop("for p in model.parameters():\n    dist.all_reduce(p.grad)", loss))


@pytest.mark.parametrize("loss", [" / tokens", " / batch.num_items"])
def test_a_weighted_loss_is_not_certain(loss: str) -> None:
    found = fields(loop("for p in model.parameters():\n    dist.all_reduce(p.grad)", loss))
    assert [item["loss_scaled"] for item in found] == ["?"]


def test_a_sum_over_samples_is_not_certain() -> None:
    text = loop("for p in model.parameters():\n    dist.all_reduce(p.grad)").replace(
        "(x), y)", "(x), y, reduction='sum')"
    )
    assert [item["loss_scaled"] for item in fields(text)] == ["?"]


@pytest.mark.parametrize(
    "after",
    ["loss = loss / world", "loss /= world", "print(loss / world)", "total = loss.item() * world"],
)
def test_what_is_done_to_the_loss_after_the_backward_pass_is_a_metric(after: str) -> None:
    assert summed_for_certain(loop(f"for p in model.parameters():\n    dist.all_reduce(p.grad)\n{after}"))


@pytest.mark.parametrize("before", ["loss = loss / accumulation", "loss /= accumulation", "loss = loss + 0.1 * other"])
def test_what_is_done_to_the_loss_before_it(before: str) -> None:
    text = loop("for p in model.parameters():\n    dist.all_reduce(p.grad)")
    assert summed_for_certain(text.replace("opt.zero_grad()", before))


def test_a_loss_that_is_summed_over_micro_batches() -> None:
    text = (
        HEAD
        + """
for batch in loader:
    opt.zero_grad()
    for x, y in batch:
        loss = F.cross_entropy(model(x), y)
        (loss / accumulation).backward()
    for p in model.parameters():
        dist.all_reduce(p.grad)
    opt.step()
"""
    )
    assert summed_for_certain(text)
    assert not summed_for_certain(text.replace("loss / accumulation", "loss / (accumulation * world)"))


def test_a_criterion_that_sums_is_not_certain() -> None:
    text = loop("for p in model.parameters():\n    dist.all_reduce(p.grad)").replace("F.cross_entropy(", "criterion(")
    assert summed_for_certain(text.replace("for x, y", "criterion = torch.nn.CrossEntropyLoss()\nfor x, y"))
    assert not summed_for_certain(
        text.replace("for x, y", "criterion = torch.nn.CrossEntropyLoss(reduction='sum')\nfor x, y")
    )


HELPER = """
import torch.distributed as dist

def average_gradients(net):
    live = [w.grad for w in net.parameters() if w.grad is not None]
    for g in live:
        dist.all_reduce(g)
"""


def test_a_helper_in_another_file_is_judged_with_its_caller() -> None:
    text = "from utils import average_gradients\n" + loop("average_gradients(model)")
    assert summed_for_certain(text, utils=HELPER)


def test_a_helper_is_right_if_its_caller_divides_the_loss() -> None:
    text = "from utils import average_gradients\n" + loop("average_gradients(model)", " / world")
    assert [item["loss_scaled"] for item in fields(text, utils=HELPER)] == [True]


def test_a_helper_is_right_if_its_caller_divides_the_gradients() -> None:
    text = "import utils\n" + loop("utils.average_gradients(model)\nfor p in model.parameters():\n    p.grad /= world")
    assert [item["divided"] for item in fields(text, utils=HELPER)] == [True]


@pytest.mark.parametrize(
    ("given", "certain"),
    [("x.to(rank % torch.cuda.device_count())", True), ("x, torch.cuda.device_count()", False)],
)
def test_a_device_counts_no_ranks(given: str, certain: bool) -> None:
    text = "from utils import average_gradients\n" + loop("average_gradients(model)")
    text = text.replace("F.cross_entropy(model(x), y)", f"F.cross_entropy(model({given}), y)")
    assert summed_for_certain(text, utils=HELPER) is certain


def test_a_helper_without_a_caller_is_not_certain() -> None:
    assert [item["loss_scaled"] for item in fields(HELPER)] == ["?"]


def test_a_division_in_a_helper_of_the_caller() -> None:
    other = "def scale(model, factor):\n    for p in model.parameters():\n        p.grad.mul_(factor)\n"
    text = "from utils import average_gradients\nfrom other import scale\n" + loop(
        "average_gradients(model)\nscale(model, 1 / world)"
    )
    assert not summed_for_certain(text, utils=HELPER, other=other)


def test_a_helper_that_may_divide_and_was_not_read() -> None:
    text = "from elsewhere import scale_gradients\n" + loop(
        "for p in model.parameters():\n    dist.all_reduce(p.grad)\nscale_gradients(model)"
    )
    assert [item["divided"] for item in fields(text)] == ["?"]


def test_the_learning_rate_may_carry_the_division() -> None:
    text = loop("for p in model.parameters():\n    dist.all_reduce(p.grad)").replace("lr=0.1", "lr=0.1 / world")
    assert [item["loss_scaled"] for item in fields(text)] == ["?"]


def test_a_metric_that_is_averaged_does_not_excuse_the_gradients() -> None:
    exchange = (
        "for p in model.parameters():\n"
        "    dist.all_reduce(p.grad)\n"
        "shown = loss.detach().clone()\n"
        "dist.all_reduce(shown)\n"
        "shown /= world"
    )
    assert summed_for_certain(loop(exchange))


@pytest.mark.parametrize(
    "exchange",
    [
        "for p in model.parameters():\n    dist.all_reduce(p.grad, group=tp_group)",
        "for p in model.parameters():\n    if p.sequence_parallel:\n        dist.all_reduce(p.grad)",
        "for n, p in model.named_parameters():\n    if 'layernorm' in n:\n        dist.all_reduce(p.grad)",
        (
            "def allreduce_embedding_grads():\n"
            "    for p in model.parameters():\n"
            "        dist.all_reduce(p.grad)\n"
            "allreduce_embedding_grads()"
        ),
        "dist.all_reduce(model.head.weight.grad)",
    ],
)
def test_partial_sums_are_not_certain(exchange: str) -> None:
    assert not summed_for_certain(loop(exchange))


@pytest.mark.parametrize(
    "exchange", ["dist.all_reduce(loss)", "for p in model.parameters():\n    dist.all_reduce(p.data)"]
)
def test_what_is_not_a_gradient_is_no_member(exchange: str) -> None:
    assert members(loop(exchange)) == ()


@pytest.mark.parametrize(
    ("wrap", "wrapper"),
    [
        ("from torch.nn.parallel import DistributedDataParallel as DDP\nmodel = DDP(model)", "ddp"),
        ("from torch.distributed.fsdp import fully_shard\nfully_shard(model)", "fsdp"),
        ("import deepspeed\nengine, *_ = deepspeed.initialize(model=model)", "deepspeed"),
        ("from torch.nn.parallel import DistributedDataParallel as DDP\nif flag:\n    model = DDP(model)", "?"),
    ],
)
def test_the_wrapper_is_told(wrap: str, wrapper: str) -> None:
    text = loop("for p in model.parameters():\n    dist.all_reduce(p.grad)").replace("for x, y", f"{wrap}\nfor x, y")
    assert [item["wrapper"] for item in fields(text)] == [wrapper]


HOOKS = {
    "a lambda on each parameter": "for p in model.parameters():\n    p.register_hook(lambda g: dist.all_reduce(g))",
    "a function after accumulation": (
        "def exchange(p):\n"
        "    dist.all_reduce(p.grad)\n"
        "for p in model.parameters():\n"
        "    p.register_post_accumulate_grad_hook(exchange)"
    ),
}


@pytest.mark.parametrize("hooks", HOOKS.values(), ids=HOOKS.keys())
def test_hooks(hooks: str) -> None:
    assert summed_for_certain(loop("pass").replace("for x, y", f"{hooks}\nfor x, y"))


def test_flattened_buffers_that_are_divided() -> None:
    exchange = """grads = [p.grad for p in model.parameters()]
flat = torch._utils._flatten_dense_tensors(grads)
dist.all_reduce(flat)
for grad, synced in zip(grads, torch._utils._unflatten_dense_tensors(flat, grads)):
    grad.copy_(synced / world)"""
    assert [item["divided"] for item in fields(loop(exchange))] == [True]


def test_a_trainer_class() -> None:
    text = """
import torch, torch.distributed as dist

class Trainer:
    def __init__(self, model):
        self.model = model
        self.world_size = dist.get_world_size()

    def sync(self):
        for p in self.model.parameters():
            dist.all_reduce(p.grad)

    def step(self, x, y):
        loss = self.criterion(self.model(x), y)
        loss.backward()
        self.sync(){divide}
"""
    assert summed_for_certain(text.replace("{divide}", ""))
    divide = "\n        for p in self.model.parameters():\n            p.grad /= self.world_size"
    assert [item["divided"] for item in fields(text.replace("{divide}", divide))] == [True]


def test_a_method_of_a_base_class() -> None:
    base = """
import torch.distributed as dist
class Base:
    def exchange(self):
        for p in self.model.parameters():
            dist.all_reduce(p.grad)
"""
    text = """
from base import Base
class Trainer(Base):
    def step(self, x, y):
        F.cross_entropy(self.model(x), y).backward()
        self.exchange()
"""
    assert summed_for_certain(HEAD + text, base=base)


def test_a_wrapper_class_that_divides_when_it_finishes() -> None:
    text = """
class Replicated(torch.nn.Module):
    def __init__(self, module):
        self.module = module
        for p in module.parameters():
            p.register_post_accumulate_grad_hook(self.make_hook())

    def make_hook(self):
        def hook(p):
            self.waiting.append((dist.all_reduce(p.grad, async_op=True), p))
        return hook

    def finish(self):
        for handle, p in self.waiting:
            handle.wait()
            p.grad /= self.world_size

def train(wrapped):
    F.cross_entropy(wrapped(x), y).backward()
    wrapped.finish()
train(Replicated(model))
"""
    assert [item["divided"] for item in fields(HEAD + text)] == [True]


def test_the_place_is_the_call_and_the_backward_pass_is_related() -> None:
    (member,) = members(loop("for p in model.parameters():\n    dist.all_reduce(p.grad)"))
    assert member.place.text == "dist.all_reduce(p.grad)"
    assert [(span.text, label) for span, label in member.related] == [("loss", "the gradients come from here")]


def test_an_exchange_by_hand_is_data_parallelism_of_plain_torch() -> None:
    text = loop("for p in model.parameters():\n    dist.all_reduce(p.grad, op=dist.ReduceOp.AVG)")
    reading = pytorch.read(link({"train.py": read_module(Source("train.py", text))}))
    assert reading.framework == "pytorch"
    sharding = [known(claim.value) for claim in reading.claims if claim.setting == "sharding.stage"]
    assert sharding == [0]


def test_the_optimizer_is_told() -> None:
    (found,) = fields(loop("for p in model.parameters():\n    dist.all_reduce(p.grad)"))
    assert found["optimizer"] == "sgd"


def test_an_optimizer_of_the_program_that_divides() -> None:
    text = """
class Averaging(torch.optim.SGD):
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.grad /= dist.get_world_size()
        super().step()
opt = Averaging(model.parameters(), lr=0.1)
for x, y"""
    exchanged = loop("for p in model.parameters():\n    dist.all_reduce(p.grad)")
    assert [item["divided"] for item in fields(exchanged.replace("for x, y", text))] == [True]


def test_an_optimizer_of_a_file_that_was_not_read() -> None:
    text = "from our.optim import Averaging\nopt = Averaging(model.parameters())\nfor x, y"
    exchanged = loop("for p in model.parameters():\n    dist.all_reduce(p.grad)")
    assert [item["divided"] for item in fields(exchanged.replace("for x, y", text))] == ["?"]


def test_a_division_in_a_hook() -> None:
    hook = "for p in model.parameters():\n    p.register_hook(lambda grad: grad / world)"
    exchanged = loop("for p in model.parameters():\n    dist.all_reduce(p.grad)")
    assert [item["divided"] for item in fields(exchanged.replace("for x, y", f"{hook}\nfor x, y"))] == [True]


@pytest.mark.parametrize(
    "step",
    [
        "with torch.no_grad():\n    for p in model.parameters():\n        p -= lr * p.grad",
        "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
        "for p in model.parameters():\n    p.grad.mul_(clip_coef)",
    ],
)
def test_an_update_or_a_clip_is_no_division_by_ranks(step: str) -> None:
    assert summed_for_certain(loop(f"for p in model.parameters():\n    dist.all_reduce(p.grad)\n{step}"))


@pytest.mark.parametrize("factor", ["0.125", "scale"])
def test_a_factor_of_the_loss_may_be_the_number_of_ranks(factor: str) -> None:
    found = fields(loop("for p in model.parameters():\n    dist.all_reduce(p.grad)", f" * {factor}"))
    assert [item["loss_scaled"] for item in found] == ["?"]


def test_a_model_that_returns_its_loss() -> None:
    model = """
class Net(torch.nn.Module):
    def forward(self, x, y):
        x = F.relu(self.first(x))
        return F.cross_entropy(self.last(x), y{reduction})
"""
    exchanged = loop("for p in model.parameters():\n    dist.all_reduce(p.grad)")
    text = model + exchanged.replace("F.cross_entropy(model(x), y)", "model(x, y)").replace("Net().cuda()", "Net()")
    assert summed_for_certain(text.replace("{reduction}", ""))
    assert not summed_for_certain(text.replace("{reduction}", ", reduction='sum'"))


EXCHANGE = "for p in model.parameters():\n    dist.all_reduce(p.grad)"


@pytest.mark.parametrize("size", ["int(os.environ['WORLD_SIZE'])", "args.world_size", "len(ranks)", "n_gpus"])
def test_a_division_by_a_number_of_ranks_however_it_is_told(size: str) -> None:
    assert not summed_for_certain(
        loop(f"n = {size}\nfor p in model.parameters():\n    dist.all_reduce(p.grad)\n    p.grad /= n")
    )


def test_a_backward_pass_that_is_given_a_factor() -> None:
    assert not summed_for_certain(loop(EXCHANGE).replace("loss.backward()", "loss.backward(torch.tensor(0.125))"))


def test_a_closure_that_the_optimizer_calls() -> None:
    text = (
        HEAD
        + """
def closure():
    loss = F.cross_entropy(model(x), y){loss}
    loss.backward()
    for p in model.parameters():
        dist.all_reduce(p.grad)
    return loss
opt.step(closure)
"""
    )
    assert summed_for_certain(text.replace("{loss}", ""))
    assert not summed_for_certain(text.replace("{loss}", " / world"))


@pytest.mark.parametrize(
    "around",
    [
        "from ours import wrap_distributed\nmodel = wrap_distributed(model)",
        "class ColumnParallelLinear(torch.nn.Module): ...",
        "import horovod.torch as hvd",
        "from mmengine.model import MMDistributedDataParallel as W\nmodel = W(model)",
    ],
)
def test_something_else_that_may_exchange(around: str) -> None:
    assert not summed_for_certain(loop(EXCHANGE).replace("for x, y", f"{around}\nfor x, y"))


@pytest.mark.parametrize(
    ("group", "certain"),
    [("dp_group", True), ("self_data_parallel_group", True), ("mp_group", False), ("group", False)],
)
def test_the_group_is_the_data_parallel_one_by_its_name(group: str, certain: bool) -> None:
    assert (
        summed_for_certain(loop(f"for p in model.parameters():\n    dist.all_reduce(p.grad, group={group})")) is certain
    )
