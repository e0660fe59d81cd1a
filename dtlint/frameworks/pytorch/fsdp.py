"""Reads torch's sharded data parallelism out of Python: FullyShardedDataParallel (FSDP1) and fully_shard (FSDP2)."""

from __future__ import annotations

from collections.abc import Mapping

from dtlint.frameworks import Claim, Reading
from dtlint.frameworks.process_groups import group_claims
from dtlint.frameworks.pytorch.device_mesh import shard_group
from dtlint.frameworks.pytorch.fsdp_policies import Parameter, offload_claims, precision_claims
from dtlint.frameworks.pytorch.fsdp_saving import full_states
from dtlint.frameworks.pytorch.fsdp_units import units_of_calls, units_of_policy
from dtlint.frameworks.pytorch.names import DDP, FSDP1, FSDP2, converted, under
from dtlint.frameworks.pytorch.trained_wraps import agreed, trained
from dtlint.languages.python.calls import Call, argument, calls, passed
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import reach, standing, stands
from dtlint.value import Choice, Option, Origin, Plain, Unknown, Value

LAYER = "fsdp-python"

_STAGES: Mapping[str, Plain] = {
    "FULL_SHARD": 3,
    "SHARD_GRAD_OP": 2,
    "NO_SHARD": 0,
    "HYBRID_SHARD": 3,
    "_HYBRID_SHARD_ZERO2": 2,
}
_PREFETCH: Mapping[str, Plain] = {"BACKWARD_PRE": "backward_pre", "BACKWARD_POST": "backward_post"}
_HYBRID = ("HYBRID_SHARD", "_HYBRID_SHARD_ZERO2")


def read(program: Program) -> Reading:
    """What the program's FSDP calls claim; a Reading without framework if it has none. FSDP2 wins where both are
    possible.

    Where a condition that is not decided picks between FSDP and DDP, the claims hold under it and no framework is
    named.
    """
    second = standing(program, FSDP2)
    first = standing(program, FSDP1)
    found = second if second and (not first or _certain(second) or not _certain(first)) else first
    if not found:
        return Reading(LAYER)
    read_one = _read_second if found is second else _read_first
    reading = agreed([read_one(program, found, _root(wraps)) for wraps in trained(program, found)])
    reading = reading._replace(claims=(*reading.claims, *group_claims(program)))
    rival = any(stands(call.place) is not False for call in calls(program, DDP))
    return _conditional(reading, _root(found)) if rival and not _certain(found) else reading


def _conditional(reading: Reading, root: Call) -> Reading:
    condition = reach(root.place).condition
    claims = (item._replace(value=under(item.value, condition, "DDP wraps the model then")) for item in reading.claims)
    return reading._replace(claims=tuple(claims), framework="")


def _certain(found: list[Call]) -> bool:
    return any(stands(call.place) for call in found)


def _read_first(program: Program, found: list[Call], root: Call) -> Reading:
    claims = [
        *_claim("sharding.stage", root, ("sharding_strategy", 2), _STAGES, absent=3),
        *_claim("sharding.prefetch", root, ("backward_prefetch", 5), _PREFETCH, absent="none"),
        *_hybrid(root),
        *offload_claims(root, Parameter("cpu_offload", 3)),
        *precision_claims(root, Parameter("mixed_precision", 6)),
        Claim("sharding.units", units_of_policy(program, root, found), "auto_wrap_policy"),
        *_sums(program),
    ]
    states = tuple(full_states(program))
    found_states = {"code.full_states": states} if states else {}
    return Reading(LAYER, root.head, tuple(claims), framework="fsdp", open=root.open, collections=found_states)


def _read_second(program: Program, found: list[Call], root: Call) -> Reading:
    claims = [
        Claim("sharding.stage", Value(3, Origin("written", root.head)), "fully_shard"),
        Claim("sharding.units", units_of_calls(program, found), "fully_shard"),
        *_resharding(found),
        *offload_claims(root, Parameter("offload_policy")),
        *precision_claims(root, Parameter("mp_policy")),
    ]
    claims += [claim for item in passed(root, "mesh") for claim in shard_group(item.place)]
    claims += _sums(program)
    return Reading(LAYER, root.head, tuple(claims), framework="fsdp", open=root.open)


_DELAYS = ("set_requires_all_reduce", "set_requires_gradient_sync", "no_sync")
"""Methods of a sharded module that put off the exchange of gradients to a later micro-batch; FSDP1 has the last."""


def _sums(program: Program) -> list[Claim]:
    """Shard groups sum after every micro-batch, unless the program calls a method that puts it off."""
    for module in program.modules.values():
        for name in _DELAYS:
            start = module.source.text.find(f".{name}(")
            if start >= 0:
                place = module.source.span(start + 1, start + 1 + len(name))
                return [Claim("sharding.sums_each_microbatch", Value(False, Origin("written", place)), name)]
    return []


def _root(found: list[Call]) -> Call:
    """The call that wraps the whole model: the last one outside loops, else the last."""
    outside = [call for call in found if not call.loops]
    return (outside or found)[-1]


def _claim(
    setting: str, call: Call, parameter: tuple[str, int], words: Mapping[str, Plain], absent: Plain
) -> list[Claim]:
    name, position = parameter
    value = argument(call, name, position)
    return [] if value is None else [Claim(setting, converted(value, words, absent), name)]


def _hybrid(call: Call) -> list[Claim]:
    """The shard group of a hybrid strategy: the ranks of one node, unless a mesh or process groups are passed."""
    value = argument(call, "sharding_strategy", 2)
    options = value.options if isinstance(value, Choice) else (Option("", value),) if value is not None else ()
    if not any(isinstance(item.value, Value) and str(item.value.value).endswith(_HYBRID) for item in options):
        return []
    if passed(call, "device_mesh") or passed(call, "process_group", 1):
        sizes = [claim for item in passed(call, "device_mesh") for claim in shard_group(item.place)]
        return sizes or [
            Claim("sharding.group", Unknown("the process groups are built when the script runs"), "process_group")
        ]
    origin = next(item.value.origin for item in options if isinstance(item.value, Value))
    node = Unknown(
        "a hybrid strategy shards inside a node", "--set cluster.gpus_per_node=N", origin, "cluster.gpus_per_node"
    )
    if len(options) == 1:
        return [Claim("sharding.group", node, "sharding_strategy")]
    return [Claim("sharding.group", Unknown("it depends on the sharding strategy", "", origin), "sharding_strategy")]


def _resharding(found: list[Call]) -> list[Claim]:
    """`reshard_after_forward` of the calls, if they agree; a number of ranks counts as resharding."""
    values = [argument(call, "reshard_after_forward") for call in found]
    known = [value for value in values if value is not None]
    if not known:
        return []
    first = known[0]
    if all(isinstance(value, Value) and isinstance(first, Value) and value.value == first.value for value in known):
        flag = first._replace(value=bool(first.value)) if isinstance(first, Value) and first.value is not None else None
        return [Claim("sharding.reshard_after_forward", flag, "reshard_after_forward")] if flag is not None else []
    return [
        Claim(
            "sharding.reshard_after_forward", Unknown("units differ in it, or it is computed"), "reshard_after_forward"
        )
    ]


_SPELLINGS: Mapping[str, Mapping[object, str]] = {
    "sharding.stage": {
        3: "sharding_strategy=ShardingStrategy.FULL_SHARD",
        2: "sharding_strategy=ShardingStrategy.SHARD_GRAD_OP",
    },
    "sharding.prefetch": {
        "backward_pre": "backward_prefetch=BackwardPrefetch.BACKWARD_PRE",
        "backward_post": "backward_prefetch=BackwardPrefetch.BACKWARD_POST",
    },
    "sharding.units": {"wrapped": "auto_wrap_policy=ModuleWrapPolicy({Block})"},
    "sharding.offload_parameters": {"cpu": "cpu_offload=CPUOffload(offload_params=True)", "none": "cpu_offload=None"},
    "sharding.reshard_after_forward": {True: "reshard_after_forward=True", False: "reshard_after_forward=False"},
}


def spell(setting: str, value: object) -> str | None:
    """How an FSDP call is told this value, None if it is not."""
    return _SPELLINGS.get(setting, {}).get(value)
