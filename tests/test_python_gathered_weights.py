"""Weights of a sharded model that some ranks leave others to gather alone: switches of a saving function, generators."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest

from dtlint.frameworks import code
from dtlint.languages.python import link, read_module
from dtlint.source import Source
from dtlint.value import Value

PROGRAM = """
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from net import Net, batches, keep

{functions}

def main():
    model = Net()
    fully_shard(model)
    for batch in batches:
        model(batch).backward()
{end}

main()
"""
EARLY = """
def weights(model, rank0_only=False):
    if rank0_only and dist.get_rank() != 0:
        return
    for name, value in model.named_parameters():
        if isinstance(value, DTensor):
            value = value.full_tensor()
        yield name, value
"""
WANTED = """
def weights(model, every_rank=False):
    if not (every_rank or dist.get_rank() == 0):
        return {}
    return {name: value.full_tensor() for name, value in model.named_parameters()}
"""
CLASS = """
class Exporter:
    def __init__(self, first_only=True):
        self.first_only = first_only
        self.rank = dist.get_rank()

    def weights(self, model):
        if self.first_only and self.rank > 0:
            return
        for name, value in model.named_parameters():
            yield name, value.full_tensor() if hasattr(value, "full_tensor") else value
"""
LATE = """
def weights(model, rank0_only=False):
    for name, value in model.named_parameters():
        whole = value.full_tensor()
        if rank0_only and dist.get_rank() != 0:
            continue
        yield name, whole.cpu()
"""
APART = """
def weights(model, rank0_only=False):
    if rank0_only and dist.get_rank() != 0:
        return {}
    if not rank0_only:
        return {name: value.full_tensor() for name, value in model.named_parameters()}
    return model.held()
"""
PLAIN = """
def weights(model):
    for name, value in model.named_parameters():
        if isinstance(value, DTensor):
            value = value.full_tensor()
        yield name, value
"""


def told(functions: str, end: str) -> list[tuple[str, str]]:
    """What is called, and what it needs to be a collective, of each call that only some ranks make."""
    text = PROGRAM.format(functions=functions, end=indent(dedent(end), "    "))
    program = link({"train.py": read_module(Source("train.py", text))}, "train.py")
    found = code.collections(program).get("code.guarded_collectives", ())
    return [(text_of(each.fields["call"]), text_of(each.fields["needs"])) for each in found]


def text_of(value: object) -> str:
    return str(value.value) if isinstance(value, Value) else ""


ALWAYS, SHARDED = [("full_tensor", "always")], [("full_tensor", "sharded")]


@pytest.mark.parametrize(
    ("functions", "end", "found"),
    [
        (EARLY, "for name, value in weights(model, rank0_only=True): keep(name, value)", ALWAYS),
        (EARLY, "for name, value in weights(model): keep(name, value)", []),
        (EARLY, "for name, value in weights(model, rank0_only=False): keep(name, value)", []),
        (WANTED, "keep(weights(model))", ALWAYS),
        (WANTED, "keep(weights(model, every_rank=True))", []),
        (CLASS, "for name, value in Exporter().weights(model): keep(name, value)", ALWAYS),
        (CLASS, "for name, value in Exporter(first_only=False).weights(model): keep(name, value)", []),
        (LATE, "for name, value in weights(model, rank0_only=True): keep(name, value)", []),
        (APART, "keep(weights(model, rank0_only=True))", []),
    ],
)
def test_a_switch_that_leaves_a_function_to_one_rank(functions: str, end: str, found: list[tuple[str, str]]) -> None:
    assert told(functions, end) == found


@pytest.mark.parametrize(
    ("end", "found"),
    [
        ("if dist.get_rank() == 0:\n    for name, value in weights(model): keep(name, value)", SHARDED),
        ("if dist.get_rank() == 0:\n    keep(dict(weights(model)))", SHARDED),
        ("if dist.get_rank() == 0:\n    keep({name: value.cpu() for name, value in weights(model)})", SHARDED),
        ("def named():\n    yield from weights(model)\nif dist.get_rank() == 0:\n    keep(dict(named()))", SHARDED),
        # every rank turns over the weights, and the first keeps them
        ("for name, value in weights(model):\n    if dist.get_rank() == 0: keep(name, value)", []),
        # nothing turns over what the first rank makes
        ("made = None\nif dist.get_rank() == 0:\n    made = weights(model)", []),
    ],
)
def test_a_generator_gathers_where_something_turns_over_it(end: str, found: list[tuple[str, str]]) -> None:
    assert told(PLAIN, end) == found


MOMENTS = """
def whole(value):
    {kind}
    return value.full_tensor()
def moments(model, optimizer, names):
    assert names, "no weights"
    state = {{}}
    for group in optimizer.param_groups:
        for weight in group["params"]:
            held = optimizer.state.get(weight)
            {filter}
            state[names[weight]] = {made}
    if dist.get_rank() == 0:
        torch.save(state, "moments.pt")
"""
EACH = 'whole(held["exp_avg_sq"])'


@pytest.mark.parametrize(
    ("kind", "filtered", "made", "found"),
    [
        ("if not isinstance(value, DTensor): return value", "if not held: continue", EACH, SHARDED),
        (
            "if not hasattr(value, 'to_local'): return value",
            "if weight not in optimizer.state: continue",
            EACH,
            SHARDED,
        ),
        ("pass", "if not weight.requires_grad: continue", EACH, ALWAYS),
        ("pass", "if held is None: continue", "{k: whole(v) for k, v in held.items() if torch.is_tensor(v)}", ALWAYS),
        ("pass", "pass", "[v.full_tensor() if isinstance(v, DTensor) else v for v in held.values()]", SHARDED),
        ("if not (torch.is_tensor(value) and type(value) is DTensor): return value", "pass", EACH, SHARDED),
        (
            "if not isinstance(value, DTensor): return value\n    return value.redistribute(placements=[Replicate()])",
            "pass",
            EACH,
            [("redistribute", "sharded")],
        ),
        ("return value.redistribute(placements=[Shard(0)])", "pass", EACH, []),
        # what an item is, or a switch that no item decides, may let none pass
        ("pass", "if not is_expert(weight): continue", EACH, []),
        ("if isinstance(value, torch.Tensor): return value", "pass", EACH, []),
        ("pass", "if not weight.sharded: continue", EACH, []),
        ("pass", "if not names: continue", EACH, []),
        ("if value.requires_grad: return value", "pass", EACH, []),
        # nobody runs the generator
        ("pass", "pass", "(v.full_tensor() for v in held.values())", []),
    ],
)
def test_a_function_that_gathers_what_it_picks_out_of_the_weights(
    kind: str, filtered: str, made: str, found: list[tuple[str, str]]
) -> None:
    functions = MOMENTS.format(kind=kind, filter=filtered, made=made)
    assert told(functions, "moments(model, optimizer, names)") == []
    assert told(functions, "if dist.get_rank() == 0:\n    moments(model, optimizer, names)") == found
