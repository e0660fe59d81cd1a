"""Models that DDP wraps in some runs only, and forward passes through the model inside it that functions hide."""

from __future__ import annotations

import pytest

from dtlint.frameworks import code
from dtlint.languages.python import link, read_module
from dtlint.source import Source
from dtlint.value import Value

HEAD = """
import os, torch
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from net import Net, batches, build
opt = torch.optim.SGD(build().parameters(), lr=0.1)
ddp = "RANK" in os.environ
"""
WRAPPED = "model = DDP(Net().cuda())\n"
IF_DDP = "model = build()\nif ddp:\n    model = DDP(model)\nelse:\n    model = torch.nn.DataParallel(model)\n"
OFF = IF_DDP.replace("if ddp", "if False")
EITHER = "model = Net()\nif os.environ.get('FSDP'):\n    model = FSDP(model)\nelse:\n    model = DDP(model)\n"
LOSS = """
def loss_of(model, x):
    out = model(x)
    return out.mean()
"""
OWN = """
def loss_of(model, x):
    inner = model.module if hasattr(model, "module") else model
    return inner(x).mean()
"""


def found(text: str, **others: str) -> set[str]:
    modules = {"train.py": read_module(Source("train.py", HEAD + text))}
    modules.update({f"{name}.py": read_module(Source(f"{name}.py", other)) for name, other in others.items()})
    names = {"code.bypassed_models", "code.late_flags", "code.wrong_microsteps", "code.moved_models"}
    return names & code.collections(link(modules)).keys()


def loop(*lines: str) -> str:
    return "\n    ".join(["for i, x in enumerate(batches):", *lines, "opt.step()"])


BACKWARD = "loss.backward()"


@pytest.mark.parametrize(
    "text",
    [
        LOSS + WRAPPED + loop("loss = loss_of(model.module, x)", BACKWARD),
        LOSS
        + WRAPPED
        + "raw = model.module\n"
        + loop("loss = loss_of(raw, x)", "total = loss + 1", "total.backward()"),
        OWN + WRAPPED + loop("loss = loss_of(model, x)", BACKWARD),
        LOSS + IF_DDP + "raw = model.module if ddp else model\n" + loop("loss = loss_of(raw, x)", BACKWARD),
        IF_DDP + "raw = model.module if ddp else model\n" + loop("loss = raw(x)", BACKWARD),
        LOSS
        + WRAPPED
        + loop("old = loss_of(model.module, x).detach()", "l = [loss_of(model.module, x)]", "sum(l).backward()"),
        "def fit(model):\n    for x in batches:\n        loss = model(x)\n        loss.backward()\n"
        + WRAPPED
        + "fit(model.module)",
        WRAPPED + loop("parts = []", "parts.append(model.module(x))", "sum(parts).backward()"),
    ],
)
def test_a_forward_pass_that_goes_by_ddp(text: str) -> None:
    assert found(text) == {"code.bypassed_models"}


@pytest.mark.parametrize(
    "text",
    [
        LOSS + WRAPPED + loop("loss = loss_of(model, x)", BACKWARD),
        LOSS + WRAPPED + loop("loss = loss_of(model, x) + loss_of(model.module, x)", BACKWARD),
        LOSS + WRAPPED + loop("loss = model(x) + loss_of(model.module, x)", BACKWARD),
        LOSS + WRAPPED + loop("old = loss_of(model.module, x).detach()", "loss = run(model, x) - old", BACKWARD),
        "@torch.no_grad()" + LOSS + WRAPPED + loop("loss = run(model) - loss_of(model.module, x)", BACKWARD),
        LOSS
        + WRAPPED
        + loop("with torch.inference_mode():", "    old = loss_of(model.module, x)", "(run(x) - old).backward()"),
        LOSS + OFF + "raw = model.module\n" + loop("loss = loss_of(raw, x)", BACKWARD),
        LOSS + EITHER + loop("loss = loss_of(model.module, x)", BACKWARD),
        "def fit(model, raw):\n    for x in batches:\n        loss = model(x) + raw.norm()\n        loss.backward()\n"
        + WRAPPED
        + "fit(model, model.module)",
    ],
)
def test_a_model_inside_ddp_that_is_used_beside_it(text: str) -> None:
    assert found(text) == set()


def test_a_forward_pass_that_a_method_of_another_hides() -> None:
    text = """
class Trainer:
    def __init__(self):
        self.model = DDP(Net().cuda())

    def loss(self, x):
        out = self.model{}(x)
        return F.cross_entropy(out, x)

    def norm(self, x):
        return self.model.module(x).norm()

    def fit(self):
        for x in batches:
            loss = self.loss(x) + self.norm(x)
            loss.backward()
            opt.step()
"""
    assert found(text.format(".module")) == {"code.bypassed_models"}
    assert found(text.format("")) == set()


def test_a_forward_pass_that_another_file_hides() -> None:
    text = "from losses import loss_of\n" + WRAPPED + loop("loss = loss_of({}, x)", BACKWARD)
    assert found(text.format("model.module"), losses=LOSS) == {"code.bypassed_models"}
    assert found(text.format("model"), losses=LOSS) == set()


PREPARED = """
from accelerate import Accelerator
accelerator = Accelerator()
model, opt = accelerator.prepare(Net(), opt)
"""


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["loss = accelerator.unwrap_model(model)(x)", "accelerator.backward(loss)"], True),
        (["with accelerator.accumulate(model):", "    accelerator.backward(inner(x))"], True),
        (["loss = loss_of(inner, x)", "accelerator.backward(loss)"], True),
        (["loss = loss_of(model, x)", "accelerator.backward(loss)"], False),
        (["loss = distance(model, x) + inner(x)", "accelerator.backward(loss)"], False),
        (["y = inner.generate(x)", "loss = model(y)", "accelerator.backward(loss)"], False),
        (["with torch.no_grad():", "    y = inner(x)", "loss = run(y)", "accelerator.backward(loss)"], False),
    ],
)
def test_a_forward_pass_through_the_model_that_an_accelerator_has_wrapped(lines: list[str], told: bool) -> None:
    text = LOSS + PREPARED + "inner = accelerator.unwrap_model(model)\n" + loop(*lines)
    assert found(text) == ({"code.bypassed_models"} if told else set())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (PREPARED + "model = accelerator.unwrap_model(model)\n" + loop("accelerator.backward(model(x))"), True),
        (PREPARED.replace("model, opt", "model, opt, batches").replace("opt)", "opt, batches)")
         + "model = accelerator.unwrap_model(model)\n" + loop("accelerator.backward(model(x))"), True),
        (WRAPPED + "model = model.module\n" + loop("loss = model(x)", BACKWARD), True),
        (LOSS + WRAPPED + "model = model.module\n" + loop("loss = loss_of(model, x)", BACKWARD), True),
        ("def fit(model):\n    model = bare(model)\n    for x in batches:\n        loss = model(x)\n        loss.backward()\n"
         "def bare(model):\n    return model.module\n" + WRAPPED + "fit(model)", True),
        (WRAPPED + loop("loss = model(x)", BACKWARD) + "\nmodel = model.module\nmodel(batches[0])\n", False),
        (WRAPPED + "if os.environ.get('BARE'):\n    model = model.module\n" + loop("loss = model(x)", BACKWARD), False),
        (WRAPPED + "model = DDP(model.module)\n" + loop("loss = model(x)", BACKWARD), False),
        (PREPARED + "model = accelerator.prepare(accelerator.unwrap_model(model))\n"
         + loop("accelerator.backward(model(x))"), False),
    ],
)  # fmt: skip
def test_a_name_of_the_wrapper_that_is_given_to_the_model_inside(text: str, told: bool) -> None:
    assert found(text) == ({"code.bypassed_models"} if told else set())


SEVERAL = """
from accelerate import Accelerator
accelerator = Accelerator()
unet, encoder, opt = accelerator.prepare(Net(), Net(), opt)

def bare(*models):
    return tuple(m.module if isinstance(m, DDP) else m for m in models)

def bare_of(unet, encoder, network=None):
    return (inside(m) for m in [network, unet, encoder] if m is not None)

def inside(model):
    return model.module if isinstance(model, DDP) else model

def both(unet, encoder):
    return unet.module, encoder.module
"""
STEP = loop("loss = unet(x, encoder(x)).mean()", "accelerator.backward(loss)")
TAKEN_OUT = {
    "by a function of any number": "unet, encoder = bare(unet, encoder)\n",
    "by a function that leaves out what is not there": "unet, encoder = bare_of(unet, encoder)\n",
    "by a function of two": "unet, encoder = both(unet, encoder)\n",
    "one beside the other": "unet, encoder = inside(unet), inside(encoder)\n",
    "by map": "unet, encoder = map(accelerator.unwrap_model, (unet, encoder))\n",
    "by map of one's own": "models = [unet, encoder]\nunet, encoder = map(inside, models)\n",
    "by map of a lambda": "unet, encoder = list(map(lambda m: m.module, [unet, encoder]))\n",
    "in a list": "unet, encoder = [accelerator.unwrap_model(each) for each in (unet, encoder)]\n",
    "as items": "models = [m.module for m in (unet, encoder)]\nunet = models[0]\nencoder = models[1]\n",
}


@pytest.mark.parametrize("taken", TAKEN_OUT.values(), ids=TAKEN_OUT)
def test_several_models_that_are_taken_out_at_once(taken: str) -> None:
    assert found(SEVERAL + taken + STEP) == {"code.bypassed_models"}


@pytest.mark.parametrize(
    "taken",
    [
        "plain, other = bare(unet, encoder)\nprint(plain, other)\n",
        "unet, encoder = bare(unet, encoder)\nunet, encoder = accelerator.prepare(unet, encoder)\n",
        "unet, encoder = (m for m in (unet, encoder))\n",
        "unet, encoder = order(m.module for m in (unet, encoder))\n",
        "unet, encoder = (m.module for m in (unet, encoder) if chosen(m))\n",
        "unet, encoder = (m.module for m in models())\n",
    ],
)
def test_several_models_that_training_calls_with_their_wrappers_or_that_are_not_known(taken: str) -> None:
    assert found(SEVERAL + taken + STEP) == set()


FLAG = "model.require_backward_grad_sync = i % 4 == 3"


@pytest.mark.parametrize("built", [WRAPPED, IF_DDP])
@pytest.mark.parametrize("forward", ["loss = model(x)", "loss = loss_of(model, x)"])
@pytest.mark.parametrize("flag", [[FLAG], ["if ddp:", f"    {FLAG}"]])
def test_a_flag_that_the_forward_pass_has_read_already(built: str, forward: str, flag: list[str]) -> None:
    step = "if i % 4 == 3: opt.step()"
    assert found(LOSS + built + loop(forward, *flag, BACKWARD, step)) == {"code.late_flags"}
    assert found(LOSS + built + loop(*flag, forward, BACKWARD, step)) == set()


def test_a_flag_that_is_only_turned_on_is_as_it_was() -> None:
    late = loop("loss = model(x)", "model.require_backward_grad_sync = True", BACKWARD)
    assert found(WRAPPED + late) == set()
    assert found(WRAPPED + "model.require_backward_grad_sync = False\n" + late) == {"code.late_flags"}


def test_a_flag_in_a_loop_that_does_not_count() -> None:
    text = "for x in batches:\n    n = 0\n    while n < 4:\n        {}\n        n += 1\n        loss.backward()\n    opt.step()"
    late = "loss = model(x)\n        model.require_backward_grad_sync = n == 3"
    early = "model.require_backward_grad_sync = n == 3\n        loss = model(x)"
    assert found(WRAPPED + text.format(late)) == {"code.late_flags"}
    assert found(WRAPPED + text.format(early)) == set()


@pytest.mark.parametrize(
    ("steps", "batches"),
    [
        ("steps = 1", 1),
        ("steps = 4", 4),
        ("steps = 64 // 64", 1),
        ("steps = settings.steps", None),
        ("steps = 256 // (8 * dist.get_world_size())", (256, 8)),
        ("world_size = int(os.environ['WORLD_SIZE'])\nsteps = max(1, 256 // 8 // world_size)", (256, 8)),
    ],
)
@pytest.mark.parametrize(
    ("loop", "last"), [("for i in range(steps)", "i == steps - 1"), ("for i, x in enumerate(all)", "i % steps == 0")]
)
def test_how_many_micro_batches_a_flag_is_late_for(steps: str, batches: object, loop: str, last: str) -> None:
    text = (
        f"import torch.distributed as dist\n{WRAPPED}{steps}\n{loop}:\n    loss = model(x)\n"
        f"    model.require_backward_grad_sync = {last}\n    loss.backward()\nopt.step()\n"
    )
    (flag,) = code.collections(link({"train.py": read_module(Source("train.py", HEAD + text))}))["code.late_flags"]
    told = [
        found.value if isinstance(found := flag.fields[name], Value) else None for name in ("batches", "total", "each")
    ]
    assert told == ([None, *batches] if isinstance(batches, tuple) else [batches, None, None])


def test_what_is_exchanged_on_the_wrong_turn_where_the_model_is_wrapped_under_a_condition() -> None:
    text = "for i in range(4):\n    if ddp:\n        model.require_backward_grad_sync = i == {}\n    model(x).backward()\nopt.step()\n"
    assert found(IF_DDP + text.format(0)) == {"code.wrong_microsteps"}
    assert found(IF_DDP + text.format(3)) == set()
    assert found(OFF + text.format(0)) == set()


def test_a_model_that_is_moved_after_it_was_wrapped_under_a_condition() -> None:
    moved = "for x in batches:\n    {}.cpu()\n    model(x).backward()\n"
    assert found(IF_DDP + moved.format("model")) == {"code.moved_models"}
    assert found(OFF + moved.format("model")) == set()


PARTS = "encoder = build().cuda()\nhead = build()\n"
THROUGH_PARTS = loop("loss = head(encoder(x)).mean()", BACKWARD)
WHOLE = "model = DDP(Whole(encoder, head))\n"
CLASS = """
class Trainer:
    def __init__(self):
        self.encoder = build().cuda()
        self.wrapped = DDP(Whole(self.encoder, 3))

    def fit(self):
        for x in batches:
            loss = self.encoder(x).mean()
            loss.backward()
"""
ACCELERATED = "from accelerate import Accelerator\nacc = Accelerator()\n"


@pytest.mark.parametrize(
    "text",
    [
        PARTS + WHOLE + THROUGH_PARTS,
        PARTS + "model = Whole(encoder, head)\nmodel = DDP(model.cuda())\n" + THROUGH_PARTS,
        PARTS + "model = DDP(torch.nn.Sequential(*[encoder, head]))\n" + THROUGH_PARTS,
        PARTS + "model = DDP(torch.nn.ModuleDict({'a': encoder, 'b': head}))\n" + THROUGH_PARTS,
        PARTS + WHOLE + THROUGH_PARTS + "\n    torch.save(model.module.state_dict(), 'x')",
        LOSS.replace("model", "net") + PARTS + WHOLE + loop("loss = loss_of(encoder, x)", BACKWARD),
        CLASS,
        ACCELERATED + PARTS + "model, opt = acc.prepare(Whole(encoder, head), opt)\n" + THROUGH_PARTS,
        ACCELERATED + "net = Net()\nmodel, opt = acc.prepare(net, opt)\n" + loop("loss = net(x).mean()", BACKWARD),
    ],
)
def test_models_that_are_trained_beside_a_wrapper_that_nothing_calls(text: str) -> None:
    assert found(text) == {"code.bypassed_models"}


@pytest.mark.parametrize(
    "text",
    [
        PARTS + WHOLE + loop("loss = model(x).mean()", BACKWARD),
        PARTS + WHOLE + loop("loss = model(x).mean() + head(x).mean()", BACKWARD),
        PARTS + WHOLE + loop("with torch.no_grad():\n        shown = head(encoder(x))", "train(model, x).backward()"),
        PARTS + WHOLE + "models = {'a': model}\n" + THROUGH_PARTS,
        PARTS + WHOLE + "encoder, head = DDP(encoder), DDP(head)\n" + THROUGH_PARTS,
        PARTS + WHOLE + "run = model.module.forward\n" + THROUGH_PARTS,
        "def criterion(x):\n    return x.sum()\nmodel = DDP(Whole(criterion))\n"
        + loop("loss = criterion(x)", BACKWARD),
        "criterion = build()\nmodel = DDP(Whole(criterion))\n" + loop("loss = criterion(x)", BACKWARD),
        CLASS + "\nTrainer().wrapped(x)\n",
        CLASS + "\n    def other(self, x):\n        return self.wrapped(x)\n",
        CLASS.replace("self.encoder(x).mean()", "self.run(self.encoder(x))")
        + "\n    def run(self, x):\n        return self.wrapped(x)\n",
        ACCELERATED + PARTS + "model, opt = acc.prepare(Whole(encoder, head), opt)\n" + loop("model(x).backward()"),
    ],
)
def test_parts_beside_a_wrapper_that_may_be_called(text: str) -> None:
    assert found(text) == set()


def test_a_wrapper_that_another_file_may_call() -> None:
    assert found(f"import other\n{CLASS}", other="def run(trainer, x):\n    return trainer.encoder(x)\n")
    assert not found(f"import other\n{CLASS}", other="def run(trainer, x):\n    return trainer.wrapped(x)\n")


METHODS = ["h = model.module.encode(x)", "loss = loss_of(model.module.decode(h), x)", BACKWARD]
LOSS_OF = "def loss_of(out, x):\n    return F.mse_loss(out, x)\n"
COUNT = "def count(net):\n    print(sum(p.numel() for p in net.parameters()))\n"
SCORE = "@torch.no_grad()\ndef score(net, x):\n    net.eval()\n    return net(x).mean()\n"
DEEPER = "def score(net, x):\n    with torch.no_grad():\n        return inner(net, x)\ndef inner(net, x):\n    return net(x)\n"
REBOUND = "model = Net().cuda()\nmodel = DDP(model)\n"
OWNED = """
class Trainer:
    def __init__(self):
        self.net = Net()
        self.net = DDP(self.net)

    def step(self, x):
        h = self.net.module.encoder(x)
        loss = self.net.module.head(h).mean()
        loss.backward()
        opt.step()
"""


@pytest.mark.parametrize(
    "text",
    [
        LOSS_OF + REBOUND + loop(*METHODS),
        LOSS_OF + "model = build()\nopt = build_optimizer(model)\nmodel = DDP(model)\n" + loop(*METHODS),
        LOSS_OF + COUNT + REBOUND + "count(model)\n" + loop(*METHODS),
        LOSS_OF + SCORE + REBOUND + loop(*METHODS) + "\n    score(model, x)",
        LOSS_OF + DEEPER + REBOUND + loop(*METHODS) + "\nprint(score(model, x))",
        REBOUND + loop("with torch.no_grad():", "    model(x)", "loss = model.module.loss(x)", BACKWARD),
        REBOUND + loop("loss = model.module.net.encoder(x).mean()", BACKWARD),
        REBOUND + "raw = getattr(model, 'module', model)\n" + loop("loss = raw.loss(x)", BACKWARD),
        OWNED,
        REBOUND + loop("for layer in model.module.layers:", "    x = layer(x)", "loss = x.mean()", BACKWARD),
        "net = Net()\nmodel = DDP(net)\n" + loop("h = net.encode(x)", "loss = net.head(h).mean()", BACKWARD),
        "net = Net()\nmodel = DDP(net)\n"
        + loop("with torch.no_grad():", "    model(x)", "loss = model.module.loss(x)", BACKWARD),
    ],
)
def test_methods_of_the_model_inside_a_wrapper_that_nothing_calls_with_gradients(text: str) -> None:
    assert found(text) == {"code.bypassed_models"}


@pytest.mark.parametrize(
    "text",
    [
        LOSS_OF + REBOUND + loop(*METHODS) + "\n    train(model, x)",
        LOSS_OF + SCORE.replace("@torch.no_grad()", "") + REBOUND + "score(model, 1)\n" + loop(*METHODS),
        LOSS_OF + "def keep(net):\n    nets.append(net)\n" + REBOUND + "keep(model)\n" + loop(*METHODS),
        LOSS_OF + "def run(net, x):\n    net.forward(x)\n" + REBOUND + loop("run(model, x)", *METHODS),
        REBOUND + loop("out = model(x)", "loss = model.module.criterion.weigh(out)", BACKWARD),
        REBOUND + loop("raw = getattr(model, 'ema', model)", "loss = raw(x).mean()", BACKWARD),
        OWNED + "\n    def other(self, x):\n        return self.net(x)\n",
        REBOUND + loop("for part in model.module.parts:", "    part.zero_grad()", "loss = model(x).mean()", BACKWARD),
        "net = Net()\nmodel = DDP(net)\n" + loop("loss = net.loss(model(x))", BACKWARD),
        "net = Net()\nmodel = DDP(net)\n" + loop("n = sum(net.parameters())", "loss = run(x, n)", BACKWARD),
        "net = Net()\nmodel = DDP(net)\n" + loop("loss = train(model, x)", "loss += net.penalty()", BACKWARD),
    ],
)
def test_methods_of_the_model_inside_a_wrapper_that_may_be_called(text: str) -> None:
    assert found(text) == set()


KEPT = """
class Trainer:
    def __init__(self):
        self.model = DDP(Net().cuda())
        {set}

    {read}

    def step(self, x):
        {more}
        logits, feature = {net}.segment(x)
        loss = F.mse_loss(logits, x) + {net}.judge(feature).mean()
        loss.backward()
        opt.step()

    def fit(self):
        for x in batches:
            self.step(x)
{after}
Trainer().fit()
"""
READS = "def net(self):\n        model = self.model\n        return model.module if isinstance(model, DDP) else model"
PASS = "pass"


def kept(read: str = "", net: str = "self.net", set: str = PASS, more: str = PASS, after: str = "") -> str:  # noqa: A002
    return KEPT.format(read=read, net=net, set=set, more=more, after=after)


@pytest.mark.parametrize(
    "text",
    [
        kept(f"@property\n    {READS}"),
        kept(f"@functools.cached_property\n    {READS}"),
        kept("@property\n    def net(self):\n        return getattr(self.model, 'module', self.model)"),
        kept(f"@property\n    {READS}", net="net", more="net = self.net"),
        kept(set="self.net = self.model.module"),
        kept(set="self.net = self.model.module if isinstance(self.model, DDP) else self.model"),
        kept(
            f"@property\n    {READS}",
            after="    @torch.no_grad()\n    def score(self, x):\n        return self.model(x)\n",
        ),
        kept(after="    @property\n    def net(self):\n        return self.model.module\n"),
    ],
)
def test_the_model_inside_that_an_object_keeps_or_reads_through_a_property(text: str) -> None:
    assert found(f"import functools\n{text}") == {"code.bypassed_models"}


@pytest.mark.parametrize(
    "text",
    [
        kept(f"@property\n    {READS}", more="x = self.model(x)"),
        kept(f"@property\n    {READS}", after="    def other(self, x):\n        return self.model(x)\n"),
        kept(set="self.net = self.model.module", after="    def other(self, x):\n        return self.model(x)\n"),
        kept("@property\n    def net(self):\n        return self.model"),
        kept(f"@property\n    {READS}").replace("loss.backward()", "print(loss)"),
        kept(f"@property\n    {READS}").replace("DDP(Net().cuda())", "FSDP(Net().cuda())"),
        kept(f"@property\n    {READS}")
        .replace("self.net.segment(x)", "self.model(x)")
        .replace("self.net.judge(feature).mean()", "self.net.penalty()"),
    ],
)
def test_the_model_inside_that_an_object_keeps_beside_a_wrapper_that_is_called(text: str) -> None:
    assert not found(f"import functools\n{text}")


def test_the_model_inside_that_an_object_keeps_where_another_file_calls_the_wrapper() -> None:
    text = kept(f"@property\n    {READS}")
    assert not found(f"import other\n{text}", other="def run(trainer, x):\n    return trainer.model(x)\n")
    assert found(f"import other\n{text}", other="def run(trainer, x):\n    return trainer.model.eval()\n")
