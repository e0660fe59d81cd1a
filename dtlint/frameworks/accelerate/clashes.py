"""Keys of Accelerate's config that clash with others, and keys that do nothing beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dtlint.frameworks import Member
from dtlint.frameworks.accelerate.fsdp import OLD_PREFETCH, strategy, version
from dtlint.frameworks.accelerate.given import Given, Key, member
from dtlint.frameworks.accelerate.settings import FAMILIES, degree
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.deepspeed.values import flag, is_auto, known, whole_number
from dtlint.languages.json_tree import setting
from dtlint.value import Value, written

_IN_FILE = frozenset((
    "gradient_accumulation_steps", "gradient_clipping", "zero_stage", "offload_optimizer_device",
    "offload_param_device", "offload_param_nvme_path", "offload_optimizer_nvme_path", "zero3_save_16bit_model",
))  # fmt: skip
"""What deepspeed_config_file decides alone (accelerate 1.15.0 utils/dataclasses.py, _deepspeed_config_checks)."""

SECTION_OF = {
    "FSDP": "fsdp_config",
    "DEEPSPEED": "deepspeed_config",
    "MEGATRON_LM": "megatron_lm_config",
}
"""The section that a distributed_type reads."""


def beside_file(every: list[Key], names: Given) -> Iterator[Member]:
    """A DeepSpeed file decides alone: Accelerate refuses the same settings beside it, all of them in one sentence."""
    file = names.node("deepspeed_config_file")
    if file is None or names.known("distributed_type") != "DEEPSPEED":
        return
    clashing = [key for key in every if _decided_by_file(key) and names.node(key.name) is not None]
    for key in clashing[:1]:
        place = key.entry.place
        fields = texts(place, setting=key.name, name=key.name, winner_name="deepspeed_config_file", effect="excluded")
        told = {"value": setting(key.entry.node), "winner": setting(file), "others": written(len(clashing) - 1, place)}
        others = tuple((each.entry.place, "refused too") for each in clashing[1:])
        yield Member(place, {**fields, **told}, ((file.span, "the file that decides"), *others))


def _decided_by_file(key: Key) -> bool:
    return key.name in _IN_FILE if key.section else key.name == "mixed_precision"


def without_sync(every: list[Key], names: Given) -> Iterator[Member]:
    """Loading on one rank needs the others to be sent the weights."""
    if names.known("distributed_type") != "FSDP":
        return
    efficient, sync = names.node("fsdp_cpu_ram_efficient_loading"), names.node("fsdp_sync_module_states")
    loads_once = efficient is None or known(flag(efficient)) is True
    if loads_once and sync is not None and sync.value is False:
        key = next(each for each in every if each.name == "fsdp_sync_module_states")
        yield member(key, expected="true beside fsdp_cpu_ram_efficient_loading", effect="refused")


def of_second_version(every: list[Key], names: Given) -> Iterator[Member]:
    """What FSDP2 does not take, or takes in another form."""
    if version(names) != 2 or names.known("distributed_type") != "FSDP":
        return
    for key in every:
        node = key.entry.node
        known_kind = node.kind not in ("bare", "unknown", "null")
        if key.name == "fsdp_reshard_after_forward" and known_kind and not isinstance(flag(node), Value):
            yield member(key, expected="true or false with fsdp_version 2", effect="refused")
        if key.name == "fsdp_state_dict_type" and str(node.value).upper() == "LOCAL_STATE_DICT":
            expected = "SHARDED_STATE_DICT or FULL_STATE_DICT with fsdp_version 2"
            yield member(key, expected=expected, effect="refused")


def offloads_recomputed(every: list[Key], names: Given) -> Iterator[Member]:
    """Moving kept activations to the CPU is for FSDP2 with recomputation."""
    name = "fsdp_activation_checkpointing_offload"
    node, recomputes = names.node(name), names.node("fsdp_activation_checkpointing")
    if names.known("distributed_type") != "FSDP" or node is None or known(flag(node)) is not True:
        return
    if recomputes is None or known(flag(recomputes)) is False:
        yield member(_key(every, name), expected="fsdp_activation_checkpointing true beside it", effect="refused")
    elif version(names) == 1:
        yield member(_key(every, name), expected="fsdp_version 2 beside it", effect="refused")


def of_several_machines(every: list[Key], names: Given) -> Iterator[Member]:
    """What is read with several machines only: a count in quotes, or auto, can't be divided; a rank is a number."""
    machines = names.node("num_machines")
    several = known(whole_number(machines)) if machines is not None else 1
    if not isinstance(several, int) or several < 2:
        return
    count, rank = names.node("num_processes"), names.node("machine_rank")
    if count is not None and count.kind == "string" and (is_auto(count) or known(whole_number(count)) is not None):
        yield member(_key(every, "num_processes"), expected="a whole number without quotes", effect="refused")
    if rank is not None and rank.kind not in ("bare", "unknown") and known(whole_number(rank)) is None:
        yield member(_key(every, "machine_rank"), expected="a whole number", effect="refused")


def few_devices(every: list[Key], names: Given) -> Iterator[Member]:
    """Several GPUs of one machine are asked for, and one is named."""
    node, machines = names.node("gpu_ids"), names.node("num_machines")
    alone = machines is None or known(whole_number(machines)) in (0, 1)
    one = node is not None and node.kind == "string" and node.value != "all" and "," not in str(node.value)
    if one and alone and FAMILIES.get(str(names.known("distributed_type"))) == "ddp":
        yield member(_key(every, "gpu_ids"), expected="two numbers or more, or all", effect="refused")


def clashing_degrees(every: list[Key], names: Given) -> Iterator[Member]:
    """Degrees of a parallelism config that exclude each other, or that nothing can carry out."""
    if not any(key.section == "parallelism_config" for key in every):
        return
    sizes = {axis: degree(names, axis) for axis in ("dp_replicate", "dp_shard", "tp", "cp", "sp")}
    if any(size is None or size < 1 for size in sizes.values()):
        return
    fault = _fault({axis: size or 1 for axis, size in sizes.items()}, names)
    if fault is not None:
        axis, expected = fault
        written_key = next((key for key in every if key.name == f"parallelism_config_{axis}_size"), None)
        yield member(written_key or _key(every, "parallelism_config"), expected=expected, effect="refused")


def _fault(sizes: Mapping[str, int], names: Given) -> tuple[str, str] | None:
    """The axis at fault and what it takes (accelerate 1.15.0 parallelism_config.py, __post_init__ and
    _validate_accelerator)."""
    several = {axis for axis, size in sizes.items() if size > 1}
    sharded = names.known("distributed_type") == "FSDP"
    if {"cp", "sp"} <= several:
        return "sp", "1 beside a context-parallel size above 1"
    if several & {"tp", "cp"} and "dp_replicate" in several and "dp_shard" not in several:
        return "dp_replicate", "1 where nothing is sharded beside tensor or context parallelism"
    if several and sharded and version(names) == 1:
        return "dp_shard", "fsdp_version 2 beside it"
    if several and sharded and version(names) == 2 and not several & {"dp_shard", "cp", "sp"}:
        return "dp_shard", "a size above 1: FSDP has nothing to shard over"
    return None


def in_charge(section: str, names: Given) -> bool:
    """Whether a section is read under the distributed_type that is written."""
    owner = next((kind for kind, name in SECTION_OF.items() if name == section), None)
    kind = names.known("distributed_type")
    return owner is None or not isinstance(kind, str) or kind not in FAMILIES or kind == owner


def _key(every: list[Key], name: str) -> Key:
    return next(key for key in every if key.name == name)


def inert(every: list[Key], names: Given) -> Iterator[Member]:
    """Keys that the framework in charge does not read."""
    kind = names.known("distributed_type")
    for key in every:
        wanted = next((name for name, section in SECTION_OF.items() if section == key.name), None)
        filled = bool(key.entry.node.entries) and not key.section
        if wanted is not None and filled and isinstance(kind, str) and kind != wanted and kind in FAMILIES:
            yield _dead(key, f"distributed_type is {kind}, and only {wanted} reads it")
    if kind == "FSDP" and version(names) == 2:
        yield from (_dead(key, "FSDP2 does not read it") for key in every if key.name in _FIRST_ONLY)
    if kind == "FSDP" and version(names) == 1:
        yield from (_first_strategy(key) for key in every if _says_strategy(key))


def _says_strategy(key: Key) -> bool:
    """Whether the key that FSDP2 reads is given a strategy of FSDP1 other than the one that holds unasked."""
    name = strategy(key.entry.node) if key.name == "fsdp_reshard_after_forward" else None
    return name is not None and name != "FULL_SHARD"


def _first_strategy(key: Key) -> Member:
    found = _dead(key, "with fsdp_version 1 the launch command passes fsdp_sharding_strategy on, FULL_SHARD unasked")
    return found._replace(fields={**found.fields, **texts(key.entry.place, matters="yes")})


def _dead(key: Key, reason: str) -> Member:
    found = member(key, reason=reason, matters="no")
    return found._replace(fields={**found.fields, "others": written(0, key.entry.place)})


_FIRST_ONLY = frozenset(("fsdp_sharding_strategy", "fsdp_backward_prefetch", OLD_PREFETCH, "fsdp_use_orig_params"))
