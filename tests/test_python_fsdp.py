"""What torch's FSDP calls in a script claim about the plan."""

from __future__ import annotations

import pytest
from python_texts import plain, program_of

from dtlint.frameworks import Reading
from dtlint.frameworks.code.accumulated import accumulated
from dtlint.frameworks.pytorch import fsdp
from dtlint.languages.python import link, read_module
from dtlint.source import Source
from dtlint.value import Unknown, Value

IMPORTS = """
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (BackwardPrefetch, CPUOffload, FullyShardedDataParallel as FSDP, MixedPrecision,
    ShardingStrategy, fully_shard, MixedPrecisionPolicy, CPUOffloadPolicy)
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
"""


def reading(text: str, **others: str) -> Reading:
    return fsdp.read(program_of(IMPORTS, text, **others))


def claims(text: str, **others: str) -> dict[str, object]:
    return {claim.setting: plain(claim.value) for claim in reading(text, **others).claims}


@pytest.mark.parametrize(
    ("strategy", "stage"),
    [("FULL_SHARD", 3), ("SHARD_GRAD_OP", 2), ("NO_SHARD", 0), ("HYBRID_SHARD", 3), ("_HYBRID_SHARD_ZERO2", 2)],
)
def test_sharding_strategy_is_the_stage(strategy: str, stage: int) -> None:
    assert claims(f"m = FSDP(Net(), sharding_strategy=ShardingStrategy.{strategy})")["sharding.stage"] == stage


def test_left_out_arguments_are_not_claimed() -> None:
    assert claims("m = FSDP(Net())") == {"sharding.units": "none"}


def test_one_unit_is_reported_at_the_call() -> None:
    units = next(claim.value for claim in reading("m = FSDP(Net())").claims)
    assert isinstance(units, Value)
    assert units.origin.span is not None
    assert units.origin.span.text == "FSDP"


def test_a_policy_wraps() -> None:
    assert claims("m = FSDP(Net(), auto_wrap_policy=ModuleWrapPolicy({Block}))")["sharding.units"] == "wrapped"


@pytest.mark.parametrize(("policy", "units"), [("default_auto_wrap_policy", "wrapped"), ("None", "none")])
def test_a_policy_by_its_former_name(policy: str, units: str) -> None:
    assert claims(f"m = FSDP(Net(), fsdp_auto_wrap_policy={policy})")["sharding.units"] == units


def test_a_policy_of_none_is_one_unit() -> None:
    assert claims("m = FSDP(Net(), auto_wrap_policy=None)")["sharding.units"] == "none"


NET = """
class Net(torch.nn.Module):
    def __init__(self, policy):
        self.first = FSDP(First(), auto_wrap_policy=policy)
        self.second = FSDP(Second(), auto_wrap_policy=policy)
"""
BY_HAND = {
    "in the model's own class": NET + "m = FSDP(Net(None), auto_wrap_policy=None)",
    "in a loop": (
        "net = Net()\nfor i, block in enumerate(net.blocks):\n    net.blocks[i] = FSDP(block)\n"
        "m = FSDP(net, auto_wrap_policy=None)"
    ),
    "handed to the whole": (
        "first, second = First(), Second()\nfirst = FSDP(first, auto_wrap_policy=None)\n"
        "second = FSDP(second, auto_wrap_policy=None)\nnet = Net(first, second)\nm = FSDP(net, auto_wrap_policy=None)"
    ),
    "a former policy taken out": (
        NET + "kw = dict(auto_wrap_policy=by_size)\nkw['auto_wrap_policy'] = None\nm = FSDP(Net(None), **kw)"
    ),
    "handed on": "net = Net()\nnet.blocks = torch.nn.ModuleList(map(FSDP, net.blocks))\nm = FSDP(net)",
}


@pytest.mark.parametrize("text", BY_HAND.values(), ids=BY_HAND)
def test_parts_that_are_wrapped_by_hand_need_no_policy(text: str) -> None:
    assert claims(text)["sharding.units"] == "wrapped"


def test_models_of_which_each_is_one_unit() -> None:
    text = "actor, critic = Net(), Net()\nactor = FSDP(actor, auto_wrap_policy=None)\n"
    text += "critic = FSDP(critic, auto_wrap_policy=None)"
    assert claims(text)["sharding.units"] == "none"


@pytest.mark.parametrize("other", ["isinstance(m, FSDP)", "map(str, m.blocks)", "m.apply(start_weights)"])
def test_what_wraps_no_part(other: str) -> None:
    assert claims(f"m = FSDP(Net(), auto_wrap_policy=None)\n{other}\n")["sharding.units"] == "none"


def test_fully_shard_that_is_handed_on_for_each_part() -> None:
    text = "net = Net()\nlist(map(fully_shard, net.blocks))\nfully_shard(net)"
    assert claims(text)["sharding.units"] == "wrapped"


def test_a_policy_by_position() -> None:
    assert claims("m = FSDP(Net(), None, None, None, policy())")["sharding.units"] == "wrapped"


def test_wrapping_by_hand() -> None:
    text = "net = Net()\nfor layer in net.layers:\n    layer = FSDP(layer)\nm = FSDP(net)"
    assert claims(text)["sharding.units"] == "wrapped"


def test_enable_wrap() -> None:
    text = (
        "from torch.distributed.fsdp.wrap import enable_wrap\n"
        "with enable_wrap(wrapper_cls=FSDP):\n"
        "    net = Net()\n"
        "m = FSDP(net)"
    )
    assert claims(text)["sharding.units"] == "wrapped"


def test_a_helper_that_is_given_the_module_is_not_judged() -> None:
    assert claims("def shard(module):\n    return FSDP(module)")["sharding.units"] == "?"


def test_a_helper_is_judged_with_its_caller() -> None:
    assert claims("def shard(module):\n    return FSDP(module)\nm = shard(Net())")["sharding.units"] == "none"


def test_a_helper_in_another_file() -> None:
    helper = IMPORTS + "def shard(module, policy=None):\n    return FSDP(module, auto_wrap_policy=policy)"
    assert claims("from helper import shard\nm = shard(Net())", helper=helper)["sharding.units"] == "none"
    assert (
        claims("from helper import shard\nm = shard(Net(), ModuleWrapPolicy({B}))", helper=helper)["sharding.units"]
        == "wrapped"
    )


def test_opaque_keywords_make_it_open() -> None:
    found = reading("def f(**kw):\n    return FSDP(Net(), **kw)")
    assert found.open == "**kw"
    assert claims("def f(**kw):\n    return FSDP(Net(), **kw)")["sharding.units"] == "?"


def test_keywords_from_a_dict_are_rebuilt() -> None:
    text = """
def f(half):
    kw = {"sharding_strategy": ShardingStrategy.SHARD_GRAD_OP}
    kw["auto_wrap_policy"] = ModuleWrapPolicy({Block})
    if half:
        kw["backward_prefetch"] = None
    return FSDP(Net(), **kw)
"""
    assert claims(text) == {
        "sharding.stage": 2,
        "sharding.units": "wrapped",
        "sharding.prefetch": {"half": "none", "otherwise": "?"},
    }


@pytest.mark.parametrize(
    ("written", "prefetch"),
    [
        ("BackwardPrefetch.BACKWARD_PRE", "backward_pre"),
        ("BackwardPrefetch.BACKWARD_POST", "backward_post"),
        ("None", "none"),
    ],
)
def test_prefetch(written: str, prefetch: str) -> None:
    assert claims(f"m = FSDP(Net(), backward_prefetch={written})")["sharding.prefetch"] == prefetch


def test_hybrid_shards_inside_a_node() -> None:
    assert (
        claims("m = FSDP(Net(), sharding_strategy=ShardingStrategy.HYBRID_SHARD)")["sharding.group"]
        == "?cluster.gpus_per_node"
    )


def test_hybrid_on_a_mesh() -> None:
    text = """
mesh = init_device_mesh("cuda", (4, 8), mesh_dim_names=("replicate", "shard"))
m = FSDP(Net(), sharding_strategy=ShardingStrategy.HYBRID_SHARD, device_mesh=mesh)
"""
    assert claims(text)["sharding.group"] == 8


def test_a_mesh_of_two_dimensions_replicates_over_the_first() -> None:
    text = 'mesh = init_device_mesh("cuda", (2, 8))\nnet = Net()\nfully_shard(net, mesh=mesh)'
    assert claims(text)["sharding.group"] == 8
    assert "sharding.group" not in claims(text.replace("(2, 8)", "(16,)"))


def test_mixed_precision() -> None:
    text = (
        "mp = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)\n"
        "m = FSDP(Net(), mixed_precision=mp)"
    )
    found = claims(text)
    assert (found["precision.compute"], found["precision.reduce"]) == ("bf16", "fp32")


def test_gradients_are_reduced_in_the_compute_dtype_when_nothing_else_is_said() -> None:
    found = claims("m = FSDP(Net(), mixed_precision=MixedPrecision(param_dtype=torch.bfloat16))")
    assert found["precision.reduce"] == "bf16"


def test_a_partial_of_the_class() -> None:
    text = (
        "import functools\n"
        "wrap = functools.partial(FSDP, sharding_strategy=ShardingStrategy.SHARD_GRAD_OP)\n"
        "m = wrap(Net())"
    )
    assert claims(text) == {"sharding.stage": 2, "sharding.units": "none"}


def test_cpu_offload() -> None:
    found = claims("m = FSDP(Net(), cpu_offload=CPUOffload(offload_params=True))")
    assert (found["sharding.offload_parameters"], found["sharding.offload_optimizer"]) == ("cpu", "cpu")


def test_offload_under_a_condition_is_a_choice() -> None:
    text = "m = FSDP(Net(), cpu_offload=CPUOffload(offload_params=True) if flag else None)"
    assert claims(text)["sharding.offload_parameters"] == {"flag": "cpu", "not (flag)": "none"}
    text = "kw = {}\nif flag:\n    kw['offload_policy'] = CPUOffloadPolicy()\nfully_shard(Net(), **kw)"
    assert claims(text)["sharding.offload_parameters"] == {"flag": "cpu", "otherwise": "none"}


def test_precision_under_a_condition_is_a_choice() -> None:
    text = "mp = MixedPrecision(param_dtype=torch.bfloat16) if flag else None\nm = FSDP(Net(), mixed_precision=mp)"
    assert claims(text)["precision.compute"] == {"flag": "bf16", "not (flag)": "?"}


def test_a_policy_that_something_else_builds_is_not_known() -> None:
    assert claims("m = FSDP(Net(), mixed_precision=make_policy())")["precision.compute"] == "?"


def test_fully_shard_on_the_root_only() -> None:
    assert claims("net = Net()\nfully_shard(net)") == {"sharding.stage": 3, "sharding.units": "none"}


def test_fully_shard_of_each_layer() -> None:
    text = (
        "net = Net()\n"
        "for layer in net.layers:\n"
        "    fully_shard(layer, reshard_after_forward=False)\n"
        "fully_shard(net, reshard_after_forward=False)"
    )
    assert claims(text) == {"sharding.stage": 3, "sharding.units": "wrapped", "sharding.reshard_after_forward": False}


@pytest.mark.parametrize("method", ["set_requires_all_reduce", "set_requires_gradient_sync", "no_sync"])
def test_a_program_that_puts_off_the_exchange_does_not_sum_after_each_micro_batch(method: str) -> None:
    text = f"fully_shard(net)\nnet.{method}(False)"
    assert claims(text)["sharding.sums_each_microbatch"] is False


OUTER = """
fully_shard(net)
for _ in range(steps):
    for micro in range(8):
        loss = net(next(batches)) / 8
        loss.backward()
    opt.step()
    opt.zero_grad()
"""
MODULUS = """
m = FSDP(net)
for step, batch in enumerate(batches):
    scaler.scale(m(batch) / 4).backward()
    if (step + 1) % 4 == 0:
        scaler.step(opt)
"""
HELPER = """
fully_shard(net)

def gather(batches, count):
    for micro in range(count):
        net(next(batches)).backward()

for _ in range(steps):
    opt.zero_grad()
    gather(batches, 16)
    opt.step()
"""


def batches_of_a_step(text: str) -> object:
    found = accumulated(program_of(IMPORTS, text))
    return None if found is None else plain(found)


@pytest.mark.parametrize(("text", "batches"), [(OUTER, 8), (MODULUS, 4), (HELPER, 16)])
def test_a_loop_tells_the_batches_of_a_step(text: str, batches: int) -> None:
    assert batches_of_a_step(text) == batches


@pytest.mark.parametrize(
    "text",
    [
        OUTER.replace("range(8)", "range(1)"),
        OUTER.replace("    opt.step()", "        opt.step()"),
        MODULUS.replace("scaler.step(opt)", "print(step)"),
        HELPER + "gather(batches, 4)\n",
        OUTER + MODULUS,
    ],
)
def test_a_step_after_each_batch_or_an_unclear_one_tells_none(text: str) -> None:
    assert batches_of_a_step(text) is None


def test_an_accelerator_counts_for_itself() -> None:
    text = "from accelerate import Accelerator\nacc = Accelerator()\n" + MODULUS.replace(
        "scaler.scale(m(batch) / 4).backward()", "acc.backward(m(batch) / 4)"
    )
    assert batches_of_a_step(text) is None


def test_fully_shard_in_a_library_helper() -> None:
    assert claims("def apply(module):\n    fully_shard(module)")["sharding.units"] == "?"


def test_fully_shard_in_a_helper_called_for_each_layer() -> None:
    text = "def one(module):\n    fully_shard(module)\nnet = Net()\nfor layer in net.layers:\n    one(layer)"
    assert claims(text)["sharding.units"] == "wrapped"


def test_two_branches_that_wrap_the_same_model_are_one_unit() -> None:
    text = "net = Net()\nif flag:\n    fully_shard(net, mesh=mesh)\nelse:\n    fully_shard(net)"
    assert claims(text)["sharding.units"] == "none"
    text = "net = Net()\nif flag:\n    m = FSDP(net, use_orig_params=True)\nelse:\n    m = FSDP(net)"
    assert claims(text)["sharding.units"] == "none"


def test_two_models_that_are_each_one_unit() -> None:
    assert claims("actor, critic = Net(), Net()\nfully_shard(actor)\nfully_shard(critic)")["sharding.units"] == "none"


def test_parts_that_are_wrapped_by_name() -> None:
    assert (
        claims("net = Net()\nfully_shard(net.first)\nfully_shard(net.second)\nfully_shard(net)")["sharding.units"]
        == "wrapped"
    )


def test_fsdp2_policies() -> None:
    text = """
kw = dict(mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32), offload_policy=CPUOffloadPolicy())
net = Net()
for layer in net.layers:
    fully_shard(layer, **kw)
fully_shard(net, **kw)
"""
    found = claims(text)
    assert found["precision.compute"] == "bf16"
    assert found["precision.reduce"] == "fp32"
    assert found["sharding.offload_parameters"] == "cpu"


@pytest.mark.parametrize(
    "text",
    [
        "from fairscale.nn import FullyShardedDataParallel as F\nm = F(Net())",
        "m = model.fully_shard(cfg)",
        "from megatron.core.distributed import fully_shard\nfully_shard(Net())",
        "class FullyShardedDataParallel: ...\nm = FullyShardedDataParallel(Net())",
        "if False:\n    m = FSDP(Net())",
    ],
)
def test_what_is_not_torchs_fsdp_claims_nothing(text: str) -> None:
    assert reading(text).framework == ""


def test_a_strategy_by_the_scripts_argument() -> None:
    text = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--strategy", default="SHARD_GRAD_OP")
args = parser.parse_args()
m = FSDP(Net(), sharding_strategy=ShardingStrategy[args.strategy])
"""
    assert claims(text)["sharding.stage"] == 2


def test_the_launch_decides_an_argument() -> None:
    text = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--zero2", action="store_true")
args = parser.parse_args()
strategy = ShardingStrategy.SHARD_GRAD_OP if args.zero2 else ShardingStrategy.FULL_SHARD
m = FSDP(Net(), sharding_strategy=strategy)
"""
    module = read_module(Source("train.py", IMPORTS + text))
    stage = {
        True: fsdp.read(link({"train": module}, given={"zero2": Value(True, _given())})).claims[0].value,
        False: fsdp.read(link({"train": module}, given={})).claims[0].value,
    }
    assert {key: plain(value) for key, value in stage.items()} == {True: 2, False: 3}
    assert plain(fsdp.read(link({"train": module})).claims[0].value) == {"args.zero2": 2, "not (args.zero2)": 3}


def _given():  # type: ignore[no-untyped-def]
    from dtlint.value import Origin

    return Origin("written")


def test_unknown_is_a_value() -> None:
    units = next(
        c.value for c in reading("def f(m, **kw):\n    return FSDP(m, **kw)").claims if c.setting == "sharding.units"
    )
    assert isinstance(units, Unknown)


HANDED = """
def shard(model, apply):
    def wrap(part):
        return {call}

    model = {use}
    return wrap(model)

shard(Net(), apply_to_layers)
"""


@pytest.mark.parametrize("call", ["FSDP(part)", "fully_shard(part)"])
def test_a_function_that_wraps_and_is_handed_over_wraps_what_it_is_called_on(call: str) -> None:
    assert claims(HANDED.format(call=call, use="apply(model, wrap)"))["sharding.units"] != "none"
    assert claims(HANDED.format(call=call, use="Net()"))["sharding.units"] == "none"


def test_a_function_called_for_each_part_wraps_them() -> None:
    text = "def wrap(part):\n    return FSDP(part)\n\nnet = Net()\nfor block in net.blocks:\n    wrap(block)\n"
    assert claims(text)["sharding.units"] == "wrapped"
    text = "def wrap(part):\n    for child in part.children():\n        wrap(child)\n    return FSDP(part)\n\nwrap(Net())\n"
    assert claims(text)["sharding.units"] == "wrapped"


MESHES = """
mesh = init_device_mesh("cuda", (16,), mesh_dim_names=("fsdp",))
{other}
net = Net()
fully_shard(net, mesh=mesh)
"""


def test_of_two_meshes_with_a_data_axis_neither_tells_the_batch() -> None:
    from dtlint.frameworks.pytorch.device_mesh import mesh_claims

    def told(other: str) -> dict[str, object]:
        found = mesh_claims(program_of(IMPORTS, MESHES.format(other=other)))
        return {claim.setting: plain(claim.value) for claim in found}

    assert told("")["parallel.data"] == 16
    assert "parallel.data" not in told('split = init_device_mesh("cuda", (4, 4), mesh_dim_names=("dp", "sp"))')


SWITCHED = """
class Config:
    SHARD{kind} = {value}


def wrap(model):
    return FSDP(model)


def main():
    net = Net()
    if Config.SHARD:
        net = wrap(net)

{more}
main()
"""


@pytest.mark.parametrize(
    ("kind", "value", "more", "sharded"),
    [
        ("", "False", "", False),
        (": bool", "False", "", False),
        ("", "True", "", True),
        ("", "False", "Config.SHARD = True", True),
        ("", "False", "fill(Config, command_line())", True),
    ],
)
def test_what_a_class_of_constants_turns_off_does_not_run(kind: str, value: str, more: str, sharded: bool) -> None:
    found = reading(SWITCHED.format(kind=kind, value=value, more=more))
    assert (found.framework == "fsdp") is sharded
