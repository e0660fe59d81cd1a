"""What DDP, device meshes and activation checkpointing in a script claim about the plan."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from python_texts import plain, program_of

from dtlint.frameworks import Reading
from dtlint.frameworks.pytorch import ddp, fsdp
from dtlint.frameworks.pytorch import program as pytorch
from dtlint.languages.python import link, read_module
from dtlint.languages.python.program import Program
from dtlint.source import Source
from dtlint.value import Unknown, Value

HEAD = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.device_mesh import init_device_mesh
"""


def program(text: str, **others: str) -> Program:
    return program_of(HEAD, text, **{name: HEAD + other for name, other in others.items()})


def claims(reading: Reading) -> dict[str, object]:
    return {claim.setting: plain(claim.value) for claim in reading.claims}


def test_ddp_shares_nothing_out() -> None:
    reading = ddp.read(program("model = DDP(Net())"))
    assert (reading.framework, claims(reading)) == ("ddp", {"sharding.stage": 0})
    assert reading.place is not None
    assert reading.place.text == "DDP"


def test_ddp_arguments() -> None:
    reading = ddp.read(program("model = DDP(Net(), find_unused_parameters=True, bucket_cap_mb=100)"))
    assert claims(reading) == {
        "sharding.stage": 0,
        "communication.find_unused": True,
        "communication.bucket_bytes": 100 * 1024 * 1024,
    }


def test_ddp_by_its_full_name() -> None:
    assert ddp.read(program("model = torch.nn.parallel.DistributedDataParallel(Net())")).framework == "ddp"
    assert (
        ddp.read(program("import torch.nn as nn\nmodel = nn.parallel.DistributedDataParallel(Net())")).framework
        == "ddp"
    )


@pytest.mark.parametrize("module", ["apex.parallel", "megatron.core.distributed", "fairscale.nn.data_parallel"])
def test_other_classes_of_the_same_name_are_not_torchs(module: str) -> None:
    assert ddp.read(program(f"from {module} import DistributedDataParallel as DDP\nm = DDP(Net())")).framework == ""


def test_an_import_that_depends_on_what_is_installed_decides_nothing() -> None:
    text = (
        "try:\n"
        "    from apex.parallel import DistributedDataParallel as DDP\n"
        "except ImportError:\n"
        "    pass\n"
        "m = DDP(Net())"
    )
    assert ddp.read(program(text)).framework == ""


def test_a_condition_picks_the_wrapper() -> None:
    read = program("if flag:\n    m = FSDP(Net())\nelse:\n    m = DDP(Net())")
    assert (ddp.read(read).framework, claims(ddp.read(read))) == ("", {})
    assert fsdp.read(read).framework == ""
    assert claims(fsdp.read(read)) == {"sharding.units": {"flag": "none", "not (flag)": "?"}}


def test_a_decided_condition_picks_the_wrapper() -> None:
    read = program("sharded = False\nif sharded:\n    m = FSDP(Net())\nelse:\n    m = DDP(Net())")
    assert (ddp.read(read).framework, fsdp.read(read).framework) == ("ddp", "")


def test_a_helper_that_only_a_dead_branch_calls() -> None:
    read = program("def wrap(m):\n    return FSDP(m)\nif False:\n    wrap(Net())\nmodel = DDP(Net())")
    assert (ddp.read(read).framework, fsdp.read(read).framework) == ("ddp", "")


def test_the_axes_of_a_mesh() -> None:
    text = 'mesh = init_device_mesh("cuda", (2, 4, 8), mesh_dim_names=("pp", "dp", "tp"))'
    assert claims(pytorch.read(program(text))) == {
        "parallel.pipeline": 2,
        "parallel.data": 4,
        "parallel.tensor": 8,
        "parallel.order": ("tensor", "data", "pipeline"),
    }


def test_replicate_and_shard_are_one_axis() -> None:
    text = 'mesh = init_device_mesh("cuda", (4, 8), mesh_dim_names=("dp_replicate", "dp_shard"))'
    assert claims(pytorch.read(program(text))) == {"sharding.group": 8, "parallel.data": 32}


@pytest.mark.parametrize("shape", ["view(4, 8)", "reshape((4, 8))", "reshape([4, 8])"])
def test_a_mesh_of_all_ranks_has_the_dimensions_in_which_they_are_laid_out(shape: str) -> None:
    text = (
        "import torch\nfrom torch.distributed.device_mesh import DeviceMesh\n"
        f'mesh = DeviceMesh("cuda", torch.arange(32).{shape}, mesh_dim_names=("tp", "dp"))'
    )
    found = claims(pytorch.read(program(text)))
    assert found == {"parallel.tensor": 4, "parallel.data": 8, "parallel.order": ("data", "tensor")}


def test_no_order_of_axes_says_where_replicas_lie_on_two_sides_of_another() -> None:
    text = 'mesh = init_device_mesh("cuda", (2, 4, 4), mesh_dim_names=("dp_replicate", "tp", "dp_shard"))'
    assert claims(pytorch.read(program(text)))["parallel.order"] == "?"


@pytest.mark.parametrize(
    ("statements", "sizes"),
    [
        ("sizes.append(4)\nnames.append('tp')", {"parallel.pipeline": 2, "parallel.tensor": 4}),
        (
            "if deep:\n    sizes.append(4)\n    names.append('tp')",
            {"parallel.pipeline": "?", "parallel.tensor": "?"},
        ),
        ("for size in more:\n    sizes.append(size)\n    names.append('tp')", {}),
    ],
    ids=["as written", "under a condition", "in a loop"],
)
def test_a_mesh_has_the_dimensions_that_statements_add_to_its_list(statements: str, sizes: dict[str, object]) -> None:
    text = (
        f"sizes = [2]\nnames = ['pp']\n{statements}\n"
        "mesh = init_device_mesh('cuda', tuple(sizes), mesh_dim_names=tuple(names))"
    )
    found = claims(pytorch.read(program(text)))
    assert {name: value for name, value in found.items() if name != "parallel.order"} == sizes


def test_of_several_meshes_none_tells_the_size_of_an_axis() -> None:
    text = (
        "if long:\n    mesh = init_device_mesh('cuda', (data, context), mesh_dim_names=('dp', 'cp'))\n"
        "else:\n    mesh = init_device_mesh('cuda', (8,), mesh_dim_names=('dp',))\n"
    )
    assert claims(pytorch.read(program(text))) == {"parallel.context": "?"}


def test_several_meshes_of_data_parallelism_leave_no_axis_open() -> None:
    text = (
        "mesh = init_device_mesh('cuda', (8,), mesh_dim_names=('dp',))\n"
        "other = init_device_mesh('cuda', (8, 1), mesh_dim_names=('dp', 'tp'))\n"
    )
    assert claims(pytorch.read(program(text))) == {}


def test_the_order_is_known_where_a_size_is_not() -> None:
    text = 'tp = 4\nmesh = init_device_mesh("cuda", (world_size // tp, tp), mesh_dim_names=("tp", "dp"))'
    assert claims(pytorch.read(program(text))) == {
        "parallel.tensor": "?",
        "parallel.data": 4,
        "parallel.order": ("data", "tensor"),
    }


def test_a_mesh_over_the_world() -> None:
    text = """
import torch.distributed as dist
mesh = init_device_mesh("cuda", (dist.get_world_size(),), mesh_dim_names=("dp",))
"""
    assert claims(pytorch.read(program(text))) == {"parallel.data": "?parallel.world_size"}


@pytest.mark.parametrize(
    "text",
    [
        'mesh = init_device_mesh("cuda", (2, 4))',
        'mesh = init_device_mesh("cuda", (2, 4), mesh_dim_names=("left", "right"))',
        'mesh = init_device_mesh("cuda", tuple(dims), mesh_dim_names=tuple(names))',
    ],
)
def test_dimensions_without_names_that_are_known_claim_nothing(text: str) -> None:
    assert claims(pytorch.read(program(text))) == {}


CHECKPOINTING = {
    "model.gradient_checkpointing_enable()": "full",
    "from torch.utils.checkpoint import checkpoint\ny = checkpoint(block, x, use_reentrant=False)": "full",
    "import torch.utils.checkpoint\ny = torch.utils.checkpoint.checkpoint(block, x)": "full",
    "from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing\n"
    "apply_activation_checkpointing(model)": "full",
    "if flag:\n    model.gradient_checkpointing_enable()": {"flag": "full", "not (flag)": "none"},
    "def enable(m):\n    m.gradient_checkpointing_enable()\nif flag:\n    enable(model)": {
        "flag": "full",
        "not (flag)": "none",
    },
}


@pytest.mark.parametrize(("text", "value"), CHECKPOINTING.items(), ids=range(len(CHECKPOINTING)))
def test_activation_checkpointing(text: str, value: object) -> None:
    assert claims(pytorch.read(program(text)))["checkpointing.activations"] == value


def test_activation_checkpointing_that_is_switched_off() -> None:
    assert claims(pytorch.read(program("use = False\nif use:\n    model.gradient_checkpointing_enable()"))) == {}


def test_selective_checkpointing() -> None:
    text = """
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
def policy():
    return create_selective_checkpoint_contexts(keep)
for block in blocks:
    x = checkpoint(block, x, context_fn=policy)
"""
    assert claims(pytorch.read(program(text))) == {"checkpointing.activations": "selective"}


def test_a_helper_that_nothing_calls_does_not_decide() -> None:
    helper = "def enable(m):\n    m.gradient_checkpointing_enable()"
    found = claims(pytorch.read(program("import helper", helper=helper)))
    assert found == {"checkpointing.activations": {"enable is called": "full", "not (enable is called)": "none"}}


def test_a_saved_checkpoint_is_not_activation_checkpointing() -> None:
    assert claims(pytorch.read(program("checkpoint(model)\nsave_checkpoint(model)"))) == {}


def test_how_settings_are_spelled() -> None:
    assert ddp.spell("communication.find_unused", False) == "find_unused_parameters=False"
    assert fsdp.spell("sharding.prefetch", "backward_pre") == "backward_prefetch=BackwardPrefetch.BACKWARD_PRE"
    assert fsdp.spell("parallel.tensor", 8) is None


STATEMENTS = st.sampled_from(
    [
        "model = FSDP(model, **kw)",
        "model = DDP(model)",
        "kw = dict(a=1)",
        "kw['cpu_offload'] = model",
        "def f(model):\n    return f(model)",
        "class A(A):\n    def step(self):\n        self.x = self.x\n        self.step()",
        "for p in p.parameters():\n    dist.all_reduce(p.grad)",
        "grads = [g.grad for g in grads]",
        "dist.all_reduce(torch.cat(grads))",
        "f(model).backward()",
        "loss = loss / loss",
        "loss.backward()",
        "if model:\n    from a import *\nelse:\n    model = f",
        "mesh = init_device_mesh('cuda', mesh, mesh_dim_names=mesh)",
        "global model",
        "f = lambda x: f(x)",
        "p.register_hook(f)",
        "import train",
        "from train import model",
    ]
)


@settings(max_examples=80, deadline=None)
@given(st.lists(STATEMENTS, max_size=14).map("\n".join))
def test_no_program_breaks_the_readers(text: str) -> None:
    read = program("import torch.distributed as dist\n" + text, train="from train import *\n" + text)
    for reader in (fsdp.read, ddp.read, pytorch.read):
        assert isinstance(reader(read), Reading)


@pytest.mark.parametrize(
    ("code", "reentrant"),
    [
        ("x = checkpoint(block, x, use_reentrant=False)", False),
        ("run = functools.partial(checkpoint, use_reentrant=False)", False),
        ("x = checkpoint(block, x)", None),
        ("x = checkpoint(block, x, use_reentrant=True)", None),
        ("x = checkpoint(block, x, use_reentrant=False)\ny = checkpoint(block, x)", "unknown"),
        ("model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={'use_reentrant': False})", False),
    ],
)
def test_how_the_code_of_a_model_recomputes(code: str, reentrant: bool | str | None) -> None:
    text = f"import functools\nfrom torch.utils.checkpoint import checkpoint\n{code}\n"
    found = pytorch.read(link({"train": read_module(Source("train.py", text))}))
    told = [claim.value for claim in found.claims if claim.setting == "checkpointing.reentrant"]
    assert [value.value if isinstance(value, Value) else "unknown" for value in told] == (
        [] if reentrant is None else [reentrant]
    )


DECODER = """
import torch.nn as nn
from dataclasses import dataclass

@dataclass
class Shape:
    hidden: int = 1024
    vocab_size: int = 50257

class Decoder(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.up = nn.Linear(shape.hidden, 4001)
        self.head = nn.Linear(shape.hidden, {width}, bias=False)

model = Decoder(Shape())
"""


@pytest.mark.parametrize(
    ("width", "more", "widths"),
    [
        ("shape.vocab_size", "", [50257]),
        ("out_features=shape.vocab_size", "", [50257]),
        ("shape.classes", "", []),
        ("shape.vocab_size", "second = nn.Linear(8, n_tokens)\nn_tokens = 100\n", [50257]),
        ("shape.vocab_size", "n_tokens = 100\nsecond = nn.Linear(8, n_tokens)\n", []),
        ("shape.vocab_size", "model.load(pretrained=True)\n", []),
    ],
)
def test_the_vocabulary_of_a_model_that_is_built_here(width: str, more: str, widths: list[int]) -> None:
    program = link({"train.py": read_module(Source("train.py", DECODER.format(width=width) + more))})
    reading = pytorch.read(program)
    found = [
        claim.value.value
        for claim in reading.claims
        if claim.setting == "model.vocab" and isinstance(claim.value, Value)
    ]
    assert found == widths


PIPELINE = """
import argparse
import torch.distributed as dist
from torch.distributed import pipelining
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B
from torch.distributed.pipelining.schedules import get_schedule_class
parser = argparse.ArgumentParser()
parser.add_argument("--chunks", type=int, default=4)
parser.add_argument("--schedule", default="1F1B")
args = parser.parse_args()
stages = dist.get_world_size()
stage = PipelineStage(part, dist.get_rank(), stages, device)
KNOWN = {"1F1B": Schedule1F1B, "GPipe": ScheduleGPipe}
"""


@pytest.mark.parametrize(
    ("built", "told"),
    [
        ("Schedule1F1B(stage, args.chunks, loss)", ("1f1b", 4)),
        ("pipelining.ScheduleGPipe(stage=stage, n_microbatches=2 * args.chunks, loss_fn=f)", ("gpipe", 8)),
        ("KNOWN[args.schedule](stage, n_microbatches=args.chunks, loss_fn=f)", ("1f1b", 4)),
        ("get_schedule_class(args.schedule)(stage, n_microbatches=16, loss_fn=f)", ("1f1b", 16)),
        ("ScheduleInterleaved1F1B([stage], 16, loss)", ("interleaved", 16)),
        ("unread(stage, n_microbatches=args.chunks, loss_fn=f)", (None, 4)),
        ("Schedule1F1B(stage, unread(), loss)", ("1f1b", None)),
    ],
)
def test_a_schedule_of_pipelines(built: str, told: tuple[object, object]) -> None:
    reading = pytorch.read(program_of(PIPELINE, f"schedule = {built}"))
    found = claims(reading)
    assert (reading.framework, found.get("schedule.kind"), found.get("schedule.microbatches")) == ("pytorch", *told)


@pytest.mark.parametrize(
    ("text", "stages"),
    [
        ("schedule = Schedule1F1B(PipelineStage(part, 0, 4, device), 16, loss)", 4),
        ("schedule = Schedule1F1B(stage, 16, loss)", "parallel.world_size"),
        (
            "def build():\n    return PipelineStage(part, 0, num_stages=8, device=d)\ns = Schedule1F1B(build(), 16, loss)",
            8,
        ),
        ("schedule = Schedule1F1B(pipe.build_stage(0, device), 16, loss)", "parallel.world_size"),
        ("schedule = Schedule1F1B(pipe.build_stage(0, device=device, group=pp), 16, loss)", None),
        ("schedule = Schedule1F1B(PipelineStage(part, 0, 4, device), 16)", None),
        ("schedule = ScheduleInterleaved1F1B([PipelineStage(part, 0, 4, device)], 16, loss)", None),
        ("a = Schedule1F1B(PipelineStage(part, 0, 4, device), 16, loss)\nb = ScheduleGPipe(unread(), 8, loss)", None),
        ("schedule = Schedule1F1B(PipelineStage(part, 0, unread(), device), 16, loss)", None),
    ],
)
def test_the_stages_of_a_pipeline(text: str, stages: int | str | None) -> None:
    """One without a loss goes forward alone."""
    found = (claim.value for claim in pytorch.read(program_of(PIPELINE, text)).claims)
    told = [value.means if isinstance(value, Unknown) else plain(value) for value in found]
    assert told[2:] == ([] if stages is None else [stages])
