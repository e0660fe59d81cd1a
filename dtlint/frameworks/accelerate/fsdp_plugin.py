"""Accelerate's plugin of FSDP in a training program: what it is given, and what it takes where no launcher says it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dtlint.frameworks import Claim, Reading
from dtlint.frameworks.accelerate.given import by_default
from dtlint.frameworks.accelerate.program import ACCELERATORS
from dtlint.frameworks.pytorch.fsdp_policies import Parameter, offload_claims
from dtlint.frameworks.pytorch.fsdp_units import policies
from dtlint.frameworks.pytorch.names import converted
from dtlint.languages.python.calls import Call, argument, calls, passed
from dtlint.languages.python.places import Place
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import standing, stands
from dtlint.value import Choice, Origin, Plain, Setting, Unknown, Value

LAYER, UNASKED = "fsdp-plugin-python", "fsdp-plugin-unasked"

_NAMES = tuple(f"accelerate{module}.FullyShardedDataParallelPlugin" for module in ("", ".utils", ".utils.dataclasses"))
_TELLING = ("sharding_strategy", "reshard_after_forward", "auto_wrap_policy", "fsdp_version")
"""Fields that say how a model is sharded; a plugin without them is one beside a config of the launcher."""
_STAGES: Mapping[str, Plain] = {
    **dict.fromkeys(("FULL_SHARD", "full_shard", "1", "HYBRID_SHARD", "hybrid_shard", "4"), 3),
    **dict.fromkeys(("SHARD_GRAD_OP", "shard_grad_op", "2", "HYBRID_SHARD_ZERO2", "_HYBRID_SHARD_ZERO2", "5"), 2),
    **dict.fromkeys(("NO_SHARD", "no_shard", "3"), 0),
}
"""Strategies by their names, and by their numbers (accelerate 1.13.0 utils/constants.py, FSDP_SHARDING_STRATEGY)."""
_HYBRID = ("HYBRID_SHARD", "hybrid_shard", "HYBRID_SHARD_ZERO2", "4", "5")
_PREFETCH: Mapping[str, Plain] = {
    **dict.fromkeys(("BACKWARD_PRE", "backward_pre", "1"), "backward_pre"),
    **dict.fromkeys(("BACKWARD_POST", "backward_post", "2"), "backward_post"),
    **dict.fromkeys(("NO_PREFETCH", "no_prefetch"), "none"),
}
_POLICIES: Mapping[str, Plain] = {
    **dict.fromkeys(("TRANSFORMER_BASED_WRAP", "transformer_based_wrap"), "wrapped"),
    **dict.fromkeys(("SIZE_BASED_WRAP", "size_based_wrap"), "wrapped"),
    **dict.fromkeys(("NO_WRAP", "no_wrap"), "none"),
}


def read(program: Program) -> Reading:
    """What the fields say that the one plugin is given which an Accelerator takes; they count before what the launcher
    says (utils/dataclasses.py, __post_init__). A Reading without framework where there is none.
    """
    call = _plugin(program)
    if call is None:
        return Reading(LAYER)
    second = _is_second(call)
    claims = (*_sharding(call, second), *_units(call), *_prefetch(call, second), *_checkpointing(call))
    offload = offload_claims(call, Parameter("cpu_offload")) if _is_policy(call, "cpu_offload") else _switched(call)
    return Reading(LAYER, call.head, (*claims, *offload), framework="fsdp", frontend="accelerate", open=call.open)


def read_unasked(program: Program) -> Reading:
    """What the plugin takes for the fields that neither it nor the launcher is given."""
    call = _plugin(program)
    if call is None or call.open:
        return Reading(UNASKED)
    found = []
    if _is_absent(call, "auto_wrap_policy"):
        found.append(Claim("sharding.units", Value("none", Origin("written", call.head)), "auto_wrap_policy"))
    if _is_absent(call, "backward_prefetch") and not _is_second(call):
        found.append(Claim("sharding.prefetch", by_default("none", call.head), "backward_prefetch"))
    return Reading(UNASKED, None, tuple(found))


def _plugin(program: Program) -> Call | None:
    """The one plugin that certainly runs and that an Accelerator is given, if it says how the model is sharded."""
    found = standing(program, _NAMES)
    taken = any(passed(call, "fsdp_plugin") for call in calls(program, ACCELERATORS))
    if len(found) != 1 or not taken or not stands(found[0].place):
        return None
    return found[0] if any(passed(found[0], name) for name in _TELLING) else None


def _is_second(call: Call) -> bool:
    version = argument(call, "fsdp_version")
    return isinstance(version, Value) and version.value == 2


def _is_absent(call: Call, name: str) -> bool:
    value = argument(call, name)
    return not passed(call, name) or (isinstance(value, Value) and value.value is None)


def _sharding(call: Call, second: bool) -> Iterator[Claim]:
    if second:
        yield Claim("sharding.implementation", Value("torch-fsdp2", Origin("written", call.head)), "fsdp_version")
        yield Claim("sharding.stage", Value(3, Origin("written", call.head)), "fsdp_version")
        resharding = argument(call, "reshard_after_forward")
        if resharding is not None:
            yield Claim("sharding.reshard_after_forward", resharding, "reshard_after_forward")
        return
    name = "sharding_strategy" if not _is_absent(call, "sharding_strategy") else "reshard_after_forward"
    strategy = argument(call, name)
    if strategy is None:
        why = Unknown("the plugin names no strategy, and the launcher may", "", Origin("written", call.head))
        yield Claim("sharding.stage", why, "sharding_strategy")
        return
    yield Claim("sharding.stage", converted(strategy, _STAGES, 3), name)
    if isinstance(strategy, Value) and str(strategy.value).endswith(_HYBRID):
        how = "--set cluster.gpus_per_node=N"
        node = Unknown("a hybrid strategy shards inside a node", how, strategy.origin, "cluster.gpus_per_node")
        yield Claim("sharding.group", node, name)


def _units(call: Call) -> Iterator[Claim]:
    """A policy by its name, or one that is built."""
    if _is_absent(call, "auto_wrap_policy"):
        return
    told = argument(call, "auto_wrap_policy")
    if isinstance(told, Value) and str(told.value) in _POLICIES:
        yield Claim("sharding.units", converted(told, _POLICIES), "auto_wrap_policy")
        return
    options = [option for item in passed(call, "auto_wrap_policy") for option in policies(item.place)]
    value: Setting = options[0].value if len(options) == 1 else Choice(tuple(options))
    yield Claim("sharding.units", value, "auto_wrap_policy")


def _prefetch(call: Call, second: bool) -> Iterator[Claim]:
    """The second version prefetches by itself."""
    value = argument(call, "backward_prefetch")
    if value is not None and not second and not _is_absent(call, "backward_prefetch"):
        yield Claim("sharding.prefetch", converted(value, _PREFETCH, "none"), "backward_prefetch")


def _checkpointing(call: Call) -> Iterator[Claim]:
    value = argument(call, "activation_checkpointing")
    if isinstance(value, Value) and isinstance(value.value, bool):
        told = value._replace(value="full" if value.value else "none")
        yield Claim("checkpointing.activations", told, "fsdp_activation_checkpointing")


def _is_policy(call: Call, name: str) -> bool:
    """Whether an argument is an object of torch that says where parameters live."""
    found = passed(call, name)
    return bool(found) and not any(isinstance(_constant(item.place), bool) for item in found)


def _constant(place: Place) -> object:
    return getattr(place.node, "value", None)


def _switched(call: Call) -> Iterator[Claim]:
    value = argument(call, "cpu_offload")
    if isinstance(value, Value) and isinstance(value.value, bool):
        for name in ("parameters", "optimizer"):
            told = value._replace(value="cpu" if value.value else "none")
            yield Claim(f"sharding.offload_{name}", told, "cpu_offload")
