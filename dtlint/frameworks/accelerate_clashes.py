"""Keys of Accelerate's config that clash with others, and keys that do nothing beside them."""

from __future__ import annotations

from collections.abc import Iterator

from dtlint.frameworks import Member
from dtlint.frameworks.accelerate_fsdp import strategy, version
from dtlint.frameworks.accelerate_given import Given, Key, member
from dtlint.frameworks.accelerate_settings import FAMILIES
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.deepspeed_values import flag, known
from dtlint.languages.json_tree import setting
from dtlint.value import Value, written

_IN_FILE = frozenset((
    "gradient_accumulation_steps", "gradient_clipping", "zero_stage", "offload_optimizer_device",
    "offload_param_device", "offload_param_nvme_path", "offload_optimizer_nvme_path", "zero3_save_16bit_model",
))  # fmt: skip
"""What deepspeed_config_file decides alone (accelerate 1.15.0 utils/dataclasses.py, _deepspeed_config_checks)."""

_SECTION_OF = {
    "FSDP": "fsdp_config",
    "DEEPSPEED": "deepspeed_config",
    "MEGATRON_LM": "megatron_lm_config",
}


def beside_file(every: list[Key], names: Given) -> Iterator[Member]:
    """A DeepSpeed file decides alone: Accelerate refuses the same settings beside it."""
    file = names.node("deepspeed_config_file")
    if file is None or names.known("distributed_type") != "DEEPSPEED":
        return
    for key in every:
        clashes = key.name in _IN_FILE if key.section else key.name == "mixed_precision"
        if clashes and names.node(key.name) is not None:
            fields = texts(
                key.entry.place,
                setting=key.name,
                name=key.name,
                winner_name="deepspeed_config_file",
                effect="excluded",
            )
            told = {"value": setting(key.entry.node), "winner": setting(file)}
            yield Member(key.entry.place, {**fields, **told}, ((file.span, "the file that decides"),))


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


def inert(every: list[Key], names: Given) -> Iterator[Member]:
    """Keys that the framework in charge does not read."""
    kind = names.known("distributed_type")
    for key in every:
        wanted = next((name for name, section in _SECTION_OF.items() if section == key.name), None)
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


_FIRST_ONLY = frozenset(("fsdp_sharding_strategy", "fsdp_backward_prefetch", "fsdp_use_orig_params"))
