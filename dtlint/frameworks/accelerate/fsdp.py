"""Accelerate's keys of FSDP, of its first and its second version."""

from __future__ import annotations

from collections.abc import Iterator

from dtlint.frameworks import Claim
from dtlint.frameworks.accelerate.given import Given, by_default, one, other, switched
from dtlint.frameworks.deepspeed.values import flag, known, whole_number
from dtlint.languages.json_tree import Node, setting
from dtlint.source import Span
from dtlint.value import Origin, Plain, Setting, Unknown

STRATEGIES = ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "HYBRID_SHARD_ZERO2")
"""FSDP1's sharding strategies; their numbers from 1 stand for them too."""

POLICIES = ("TRANSFORMER_BASED_WRAP", "SIZE_BASED_WRAP", "NO_WRAP")
PREFETCHES = ("BACKWARD_PRE", "BACKWARD_POST", "NO_PREFETCH")
STATE_DICTS = ("FULL_STATE_DICT", "LOCAL_STATE_DICT", "SHARDED_STATE_DICT")
"""Prefetches and state dicts stand for their numbers from 1 too."""
OLD_PREFETCH = "fsdp_backward_prefetch_policy"

_STAGES = {"FULL_SHARD": 3, "SHARD_GRAD_OP": 2, "NO_SHARD": 0, "HYBRID_SHARD": 3, "HYBRID_SHARD_ZERO2": 2}


def fsdp(given: Given) -> Iterator[Claim]:
    """What the keys of FSDP claim."""
    second = version(given) == 2
    yield from _fsdp_stage(given, second)
    if second:
        yield from one(given, "fsdp_version", "sharding.implementation", lambda node: setting(node, "torch-fsdp2"))
    yield from _units(given)
    yield from _prefetch(given, second)
    for name in ("parameters", "optimizer"):
        yield from switched(given, "fsdp_offload_params", f"sharding.offload_{name}", "cpu", "none")
    yield from switched(given, "fsdp_activation_checkpointing", "checkpointing.activations", "full", "none")
    yield from switched(given, "fsdp_cpu_ram_efficient_loading", "loading.whole_copies", "first", "all")


def _fsdp_stage(given: Given, second: bool) -> Iterator[Claim]:
    """FSDP1 takes a strategy; FSDP2 always shards parameters, and is told whether to free them after the forward."""
    if second or version(given) is None:
        yield from one(given, "fsdp_reshard_after_forward", "sharding.reshard_after_forward", flag)
    if second:
        return
    node = given.node("fsdp_sharding_strategy")
    if node is None:
        return
    name, spelled = strategy(node), given.spelled("fsdp_sharding_strategy")
    if name is None:
        yield Claim("sharding.stage", other(node, "a sharding strategy"), spelled)
        return
    yield Claim("sharding.stage", setting(node, _STAGES[name]), spelled)
    if name.startswith("HYBRID"):
        yield Claim("sharding.group", _one_node(node), spelled)


def strategy(node: Node) -> str | None:
    """The name of a sharding strategy, which may be written as its number."""
    text = str(node.value).upper()
    if text.isdecimal() and 1 <= int(text[:9]) <= len(STRATEGIES):
        return STRATEGIES[int(text) - 1]
    return text if text in _STAGES else None


def _one_node(node: Node) -> Unknown:
    origin = Origin("written", node.span)
    how = "--set cluster.gpus_per_node=N"
    return Unknown("a hybrid strategy shards inside a node", how, origin, "cluster.gpus_per_node")


def _units(given: Given) -> Iterator[Claim]:
    """SIZE_BASED_WRAP with a size of 0 wraps nothing, without a word."""
    node = given.node("fsdp_auto_wrap_policy")
    if node is None:
        return
    spelled, policy = given.spelled("fsdp_auto_wrap_policy"), str(node.value).upper()
    smallest = given.node("fsdp_min_num_params")
    if policy == "SIZE_BASED_WRAP" and smallest is not None and known(whole_number(smallest)) == 0:
        yield Claim("sharding.units", setting(smallest, "none"), given.spelled("fsdp_min_num_params"))
    elif policy in POLICIES:
        yield Claim("sharding.units", setting(node, "none" if policy == "NO_WRAP" else "wrapped"), spelled)
    else:
        yield Claim("sharding.units", other(node, "a wrap policy"), spelled)


def _prefetch(given: Given, second: bool) -> Iterator[Claim]:
    """FSDP2 prefetches by itself and ignores the key."""
    node = given.node("fsdp_backward_prefetch")
    if node is None or second:
        return
    name = str(node.value).upper()
    name = PREFETCHES[int(name) - 1] if name in ("1", "2") else name
    value: Plain = "none" if name == "NO_PREFETCH" else name.lower()
    found = setting(node, value) if name in PREFETCHES else other(node, "a prefetch policy")
    yield Claim("sharding.prefetch", found, given.spelled("fsdp_backward_prefetch"))


def _no_prefetch(given: Given, place: Span) -> Setting:
    """FSDP2 prefetches by itself. Releases of 2023 read the key under an old name, which today's ignore."""
    if version(given) != 1:
        return by_default("backward_pre", place) if version(given) == 2 else Unknown("FSDP's version is not known")
    old = given.node(OLD_PREFETCH)
    if old is None:
        return by_default("none", place)
    return Unknown(f"{OLD_PREFETCH} works in old releases of Accelerate only", "", Origin("written", old.span))


def absent(given: Given, place: Span) -> Iterator[Claim]:
    """What the launch command takes for keys of FSDP that are not written (accelerate 1.15.0 commands/launch.py)."""
    if given.node("fsdp_auto_wrap_policy") is None:
        units = by_default("none", _place(given, "fsdp_auto_wrap_policy", place))
        yield Claim("sharding.units", units, "fsdp_auto_wrap_policy")
    if version(given) == 2 or given.node("fsdp_backward_prefetch") is None:
        prefetch = _no_prefetch(given, _place(given, "fsdp_backward_prefetch", place))
        yield Claim("sharding.prefetch", prefetch, "fsdp_backward_prefetch")
    if given.node("fsdp_cpu_ram_efficient_loading") is None:
        yield Claim("loading.whole_copies", by_default("first", place), "fsdp_cpu_ram_efficient_loading")


def _place(given: Given, name: str, otherwise: Span) -> Span:
    """Where a key without a value stands."""
    node = given.nodes.get(name)
    return node.span if node is not None and node.span.text else otherwise


def by_plugin(place: Span) -> Iterator[Claim]:
    """FSDP without a word on how is what a program asks for that brings a plugin of its own."""
    why = Unknown("no key of FSDP is written: the program may pass a plugin", "", Origin("default", place))
    for name in ("sharding.stage", "sharding.units", "sharding.prefetch", "loading.whole_copies"):
        yield Claim(name, why, "fsdp_config")


def version(given: Given) -> int | None:
    """FSDP's version: 1 unless the key says 2, None where it is not known, as a command line's config file tells it."""
    node = given.node("fsdp_version")
    if node is None:
        return None if "config_file" in given.nodes else 1
    value = known(whole_number(node))
    return value if isinstance(value, int) else None
