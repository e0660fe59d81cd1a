"""The keys of Accelerate's config file: which it has, what each takes, and what there is to say about those written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dtlint.catalog import deepspeed_keys
from dtlint.catalog.accelerate_fields import AccelerateField, accelerate_fields
from dtlint.catalog.packages import in_doubt
from dtlint.frameworks import Member
from dtlint.frameworks.accelerate.clashes import (
    beside_file,
    clashing_degrees,
    few_devices,
    in_charge,
    inert,
    of_second_version,
    of_several_machines,
    offloads_recomputed,
    without_sync,
)
from dtlint.frameworks.accelerate.fsdp import (
    OLD_PREFETCH,
    POLICIES,
    PREFETCHES,
    STATE_DICTS,
    STRATEGIES,
    strategy,
    version,
)
from dtlint.frameworks.accelerate.given import Given, Key, member
from dtlint.frameworks.accelerate.releases import refused_since
from dtlint.frameworks.accelerate.settings import FAMILIES
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.deepspeed.values import flag, is_auto, known, number, whole_number
from dtlint.frameworks.renamed import without_doubled
from dtlint.languages.json_tree import Node
from dtlint.source import Span
from dtlint.value import Value

# Fields of ClusterConfig (commands/config/config_args.py of accelerate 0.3.0 to 1.15.0) and what each takes;
# catalog/data/accelerate_fields.csv has the releases. The last line are old fields that are converted.
_TOP = {
    **dict.fromkeys(("num_machines", "main_process_port"), "int"),
    "num_processes": "auto text int",
    "machine_rank": "any",
    **dict.fromkeys(("use_cpu", "debug", "same_network", "enable_cpu_affinity"), "flag"),
    **dict.fromkeys(
        (
            "main_process_ip", "rdzv_backend", "main_training_function",
            "downcast_bf16", "tpu_name", "tpu_zone", "tpu_use_cluster", "tpu_use_sudo", "command_file", "commands",
            "tpu_vm", "tpu_env", "fp16", "dynamo_backend",
        ),
        "any",
    ),
    **dict.fromkeys(
        (
            "fp8_config", "deepspeed_config", "fsdp_config", "parallelism_config", "megatron_lm_config",
            "mpirun_config", "dynamo_config", "ipex_config", "tp_config",
        ),
        "section",
    ),
    "compute_environment": "=LOCAL_MACHINE/AMAZON_SAGEMAKER",
    "gpu_ids": "ids",
    "mixed_precision": "no/fp16/bf16/fp8",
    "distributed_type": "=NO/MULTI_CPU/XLA/" + "/".join(name for name in FAMILIES if name != "NO"),
}  # fmt: skip

# Options of the sections (accelerate 1.15.0 commands/launch.py).
_SECTIONS: Mapping[str, Mapping[str, str]] = {
    "deepspeed_config": {
        "deepspeed_config_file": "any",
        "zero_stage": "stage",
        "gradient_accumulation_steps": "auto size",
        "gradient_clipping": "auto float",
        "offload_optimizer_device": "none/cpu/nvme",
        "offload_param_device": "none/cpu/nvme",
        "zero3_init_flag": "flag",
        "zero3_save_16bit_model": "flag",
        **dict.fromkeys(
            (
                "offload_optimizer_nvme_path", "offload_param_nvme_path", "deepspeed_hostfile",
                "deepspeed_exclusion_filter", "deepspeed_inclusion_filter", "deepspeed_moe_layer_cls_names",
            ),
            "any",
        ),
        "deepspeed_multinode_launcher": "pdsh/standard/openmpi/mvapich/mpich/nossh/slurm",
    },
    "fsdp_config": {
        "fsdp_version": "1/2",
        "fsdp_sharding_strategy": "strategy",
        "fsdp_reshard_after_forward": "any",
        "fsdp_auto_wrap_policy": "/".join(POLICIES),
        "fsdp_backward_prefetch": "#" + "/".join(PREFETCHES),
        "fsdp_min_num_params": "text int",
        "fsdp_state_dict_type": "#" + "/".join(STATE_DICTS),
        **dict.fromkeys(("fsdp_transformer_layer_cls_to_wrap", "fsdp_ignored_modules"), "any"),
        **dict.fromkeys(
            (
                "fsdp_offload_params", "fsdp_forward_prefetch", "fsdp_use_orig_params", "fsdp_sync_module_states",
                "fsdp_cpu_ram_efficient_loading", "fsdp_activation_checkpointing",
                "fsdp_activation_checkpointing_offload",
            ),
            "flag",
        ),
    },
    "parallelism_config": {
        **{f"parallelism_config_{axis}_size": "size" for axis in ("dp_replicate", "dp_shard", "tp", "cp", "sp")},
        **dict.fromkeys(
            (
                "parallelism_config_cp_backend", "parallelism_config_cp_comm_strategy", "parallelism_config_sp_backend",
                "parallelism_config_sp_seq_length", "parallelism_config_sp_seq_length_is_variable",
                "parallelism_config_sp_attn_implementation",
            ),
            "any",
        ),
    },
    "megatron_lm_config": {
        **dict.fromkeys(("megatron_lm_tp_degree", "megatron_lm_pp_degree", "megatron_lm_num_micro_batches"), "size"),
    },
}  # fmt: skip

PREFIXES = {"fsdp_config": "fsdp", "fp8_config": "fp8", "dynamo_config": "dynamo_"}
"""Sections whose keys may be written without the prefix of their options."""

_OPEN = frozenset(("megatron_lm_config", "mpirun_config", "fp8_config", "dynamo_config", "ipex_config", "tp_config"))
"""Sections whose keys are not all listed here."""

_BARE_NO_REFUSED = "0.34"
_LAST_OLD = "0.34.2"
"""The last release of Accelerate that reads the old name of fsdp_backward_prefetch."""

_CLOSE = 0.85
"""Likeness from which a key is taken for a slip of the pen."""


def keys(root: Node) -> Iterator[Key]:
    """Every key of a config, those of its sections with the prefix that they may leave out."""
    for entry in root.entries:
        yield Key("", entry.key, entry)
        if _TOP.get(entry.key) == "section":
            prefix = PREFIXES.get(entry.key, "")
            for inner in entry.node.entries:
                name = inner.key if inner.key.startswith(prefix) else f"{prefix.rstrip('_')}_{inner.key}"
                yield Key(entry.key, name, inner)


def given(root: Node) -> Given:
    """The keys by the names of their options."""
    return Given({key.name: key.entry.node for key in keys(root)})


def collections(root: Node) -> Mapping[str, tuple[Member, ...]]:
    """What there is to say about the keys of a config; empty collections are left out.

    Fields: `key`, `section`, and config.keys: `path`, `value`; config.unknown: `effect`, `suggestion`, `belongs`;
    config.removed: `first`, `last`, `instead`, `effect`, `of` (whose releases); config.newer: `first`, `effect`, `of`;
    config.inert: `reason`, `matters`, `others`;
    config.invalid: `expected`, `effect`; config.conflicts: `name` and `value` of a key refused beside `winner_name`.
    """
    every = list(keys(root))
    names = Given({key.name: key.entry.node for key in every})
    found = {
        "config.keys": [member(key, path=_path(key)) for key in every if key.entry.node.kind != "object"],
        "config.unknown": [_unknown(key) for key in every if _is_strange(key, names)],
        "config.removed": [*_old_names(every, names), *_removed(every)],
        "config.newer": list(_newer(every)),
        "config.inert": list(inert(every, names)),
        "config.invalid": [
            *_invalid(every, names),
            *without_sync(every, names),
            *of_second_version(every, names),
            *offloads_recomputed(every, names),
            *of_several_machines(every, names),
            *few_devices(every, names),
            *clashing_degrees(every, names),
        ],
        "config.needed": list(_needed(root, names)),
        "config.conflicts": list(beside_file(every, names)),
        "launch.chosen_gpus": [member(key, option=key.name) for key in every if _names_gpus(key)],
    }
    return {name: tuple(members) for name, members in found.items() if members}


def _names_gpus(key: Key) -> bool:
    """`gpu_ids: 0,1`"""
    node = key.entry.node
    return key.name == "gpu_ids" and node.kind in ("string", "bare") and str(node.value) not in ("all", "")


def _path(key: Key) -> str:
    return f"{key.section}.{key.name}" if key.section else key.name


def _expected(key: Key) -> str | None:
    """What a key takes; None for a key that Accelerate does not have."""
    if not key.section:
        return _TOP.get(key.name)
    known_keys = _SECTIONS.get(key.section, {})
    return known_keys.get(key.name, "any" if key.section in _OPEN else None)


def _is_strange(key: Key, names: Given) -> bool:
    """Whether Accelerate does not have a key; of a section that is not read, that alone is said."""
    return _expected(key) is None and not _is_old(key) and (not key.section or in_charge(key.section, names))


def _is_old(key: Key) -> bool:
    return key.name == OLD_PREFETCH


def _old_names(every: list[Key], names: Given) -> Iterator[Member]:
    """Old names that today's releases ignore, but those beside their new ones, and those where the new one would have
    no effect either: FSDP2 prefetches by itself, and the section of another framework is not read.
    """
    written = {(key.section, key.name) for key in every}
    read = (key for key in every if _is_old(key) and in_charge(key.section, names) and version(names) != 2)
    return without_doubled((_renamed(key) for key in read), written)


def _renamed(key: Key) -> Member:
    new = "fsdp_backward_prefetch"
    return member(key, first="", last=_LAST_OLD, instead=new, effect="ignored", of="accelerate", rival="", since="")


def _removed(every: list[Key]) -> Iterator[Member]:
    """Fields that newer releases refuse, as they refuse all that they do not know."""
    for key in every:
        field = _field(key)
        if field is not None and field.last:
            words = {"first": field.first, "last": field.last, "instead": field.instead}
            yield member(key, **words, effect="refused", of="accelerate", rival="", since="")


def _newer(every: list[Key]) -> Iterator[Member]:
    """Fields that the oldest release which a run may have refuses."""
    for key in every:
        field = _field(key)
        if field is not None and in_doubt("accelerate", field.first):
            yield member(key, first=field.first, effect="refused", of="accelerate")


def _field(key: Key) -> AccelerateField | None:
    return None if key.section else accelerate_fields().get(key.name)


def _unknown(key: Key) -> Member:
    """The file is refused for a strange key at the top level; in a section it is ignored."""
    from difflib import get_close_matches

    near = get_close_matches(key.name, list(_SECTIONS.get(key.section, _TOP)), 1, _CLOSE)
    suggestion = _OWN_NAMES.get((key.section, key.name), near[0] if near else "")
    effect = "ignored" if key.section else "refused"
    return member(key, effect=effect, suggestion=suggestion, belongs="" if suggestion else _home(key))


_OWN_NAMES = {
    ("deepspeed_config", "stage"): "zero_stage",
    ("deepspeed_config", "offload_optimizer"): "offload_optimizer_device",
    ("deepspeed_config", "offload_param"): "offload_param_device",
}
"""Names of DeepSpeed's own config for what Accelerate's section has under another."""

_SPOKEN_FOR = ("auto", "none", False, None)
"""Values of a key that ask for nothing, or for what Accelerate does unasked."""


_BESIDE_ANOTHER = ("data_parallel_size",)
"""Keys of DeepSpeed's own config that do nothing alone (deepspeed 0.18.2 __init__.py, initialize: it makes a mesh of
data_parallel_size where sequence_parallel_size stands beside it).
"""


def _home(key: Key) -> str:
    """Where a key of this name works, "" where it would change nothing or no place is known."""
    section = next((f"{section}.{key.name}" for section, inner in _SECTIONS.items() if key.name in inner), "")
    if section or not key.section:
        return section
    if key.name in _TOP:
        return f"{key.name} at the top level"
    idle = key.entry.node.kind != "object" and key.entry.node.value in _SPOKEN_FOR
    idle = idle or key.name in _BESIDE_ANOTHER
    return _in_own_file(key.name) if key.section == "deepspeed_config" and not idle else ""


def _in_own_file(name: str) -> str:
    """A key of DeepSpeed's own config, which Accelerate takes from a file alone (accelerate 1.15.0 commands/launch.py
    and utils/launch.py pass on the keys of _SECTIONS); "" for what DeepSpeed does not have either.
    """
    rows = [row for row in deepspeed_keys() if name in (row.name, row.name.removeprefix("stage3_")) and not row.last]
    row = next((row for row in rows if row.section in ("", "zero_optimization")), None)
    home = f"{row.section}.{row.name}".lstrip(".") if row is not None else ""
    return f"{home} in the file that deepspeed_config_file names" if home else ""


# Types


def _invalid(every: list[Key], names: Given) -> Iterator[Member]:
    """Values that Accelerate does not take; the section of another framework is not read."""
    for key in every:
        expected = defect(_expected(key) or "any", key.entry.node)
        if expected and in_charge(key.section or key.name, names):
            yield member(key, expected=expected, effect="refused", **_release_of_refusal(key))


def _release_of_refusal(key: Key) -> Mapping[str, str]:
    """From which release on a value is refused, where not from the first: process_config of config_args.py made `no` of
    false up to 0.33.
    """
    bare_no = key.name == "mixed_precision" and key.entry.node.value is False
    return refused_since(_BARE_NO_REFUSED, "take false for no") if bare_no else {}


def _needed(root: Node, names: Given) -> Iterator[Member]:
    """What the file has to tell, or the command line where the file does not (`key`)."""
    if "distributed_type" not in names.nodes and root.hidden is None:
        yield Member(root.span, texts(root.span, key="distributed_type"))
    counts = names.known("num_processes") if "num_processes" in names.nodes else -1
    if counts == -1 and names.known("distributed_type") not in ("NO", False) and root.hidden is None:
        yield Member(root.span, texts(root.span, key="num_processes"))
    if names.node("main_process_ip") is None:
        yield Member(root.span, texts(root.span, key="main_process_ip"))


def defect(kind: str, node: Node) -> str:
    """What a key of this kind takes, if the value is something else; "" for a value that it takes, or that is not
    known.

    A kind is any, section, strategy, ids, flag, float, int, size or stage; words apart by `/`, after `=` in this very
    spelling, after `#` also by their numbers. `auto` before a kind takes the word auto too, `text` quotes.
    """
    if kind == "any" or node.kind in ("bare", "unknown", "null"):
        return ""
    if kind.startswith("auto "):
        return "" if is_auto(node) else defect(kind.removeprefix("auto "), node)
    if kind == "section":
        return "" if node.kind == "object" else "a mapping of keys"
    if kind == "strategy":
        return "" if strategy(node) is not None else "one of " + ", ".join(STRATEGIES)
    if kind == "ids":
        return "" if node.kind == "string" else "a text of numbers (in quotes)"
    if "/" in kind:
        return _word_defect(kind, node)
    return _scalar_defect(kind, node)


def _word_defect(kind: str, node: Node) -> str:
    words = kind.lstrip("=#").split("/")
    if node.value is False and "no" in words:
        return "the word no in quotes (without them YAML reads it as false)"
    shown = "NO" if node.value is False and "NO" in words else str(node.value)
    numbered = kind.startswith("#") and shown.isdecimal() and 1 <= int(shown[:9]) <= len(words)
    fits = numbered or (shown in words if kind.startswith("=") else shown.lower() in (word.lower() for word in words))
    return "" if fits or shown == "None" else "one of " + ", ".join(words)


_NUMBERS = {
    "int": "a whole number",
    "size": "a whole number above 0",
    "stage": "a stage from 0 to 3",
    "float": "a number",
    "flag": "true or false",
}


def _scalar_defect(kind: str, node: Node) -> str:
    kind, quotes = kind.removeprefix("text "), kind.startswith("text ") or kind in ("size", "stage")
    if kind == "flag":
        known_flag = isinstance(flag(node), Value) or str(node.value).lower() in _TRUTHS
        return "" if known_flag or node.value == "None" else _NUMBERS[kind]
    if kind == "float":
        return "" if isinstance(number(node), Value) else _NUMBERS[kind]
    if node.kind == "string" and not quotes:
        return f"{_NUMBERS[kind]} without quotes"
    value = known(whole_number(node))
    if not isinstance(value, int) or isinstance(node.value, float):
        return _NUMBERS[kind]
    return _NUMBERS[kind] if (kind == "size" and value < 1) or (kind == "stage" and not 0 <= value <= 3) else ""


_TRUTHS = frozenset(("y", "yes", "t", "true", "on", "1", "n", "no", "f", "false", "off", "0"))
"""Texts that stand for true or false (accelerate 1.15.0 utils/environment.py, str_to_bool)."""


def section_place(root: Node, framework: str) -> Span:
    """Where a key of a framework's section would be written: its section, else what chooses the framework."""
    section = {"fsdp": "fsdp_config", "deepspeed": "deepspeed_config"}.get(framework)
    places = (entry.place for name in (section, "distributed_type") for entry in root.entries if entry.key == name)
    return next(places, root.span)
