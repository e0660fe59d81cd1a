"""Sharding as the Hugging Face Trainer is told it: the words of --fsdp, and the file of --fsdp_config."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dtlint.frameworks import Claim, Member, Reading
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.flag_list import Flags, switch
from dtlint.frameworks.options import Option
from dtlint.languages.json_tree import Document, Entry, setting
from dtlint.languages.traced import Word, setting_of
from dtlint.value import Origin, Plain, Unknown, Value

LAYER = "transformers-fsdp"

_STAGES: dict[str, Plain] = {
    "full_shard": 3,
    "shard_grad_op": 2,
    "no_shard": 0,
    "hybrid_shard": 3,
    "hybrid_shard_zero2": 2,
}
WORDS = (*_STAGES, "offload", "auto_wrap")
"""The words of --fsdp (transformers trainer_utils.py, FSDPOption)."""
_PRESET = re.compile(r"fsdp2|.{0,4096}\.json")
"""What ms-swift takes instead: the name of a preset, or a file with the words and their settings in it."""
_ON = frozenset({"true", "1", "yes"})
_OFF = frozenset({"", "false", "0", "no", "none"})
OLD = frozenset(
    ("evaluation-strategy", "overwrite-output-dir", "fsdp-transformer-layer-cls-to-wrap", "fsdp-min-num-params")
)
"""Arguments that Transformers 5 does not have; up to 4 FSDP wraps nothing unless it is told."""


def is_fsdp(flags: Flags) -> bool:
    """Whether --fsdp is given with words that turn it on."""
    option = flags.flags.get("fsdp")
    return option is not None and _words(option).lower() not in _OFF


def is_preset(option: Option) -> bool:
    """Whether --fsdp names a preset or a file, as ms-swift takes them; what they say is not known here."""
    return _PRESET.fullmatch(_words(option)) is not None


def fsdp_claims(flags: Flags) -> Iterator[Claim]:
    """What --fsdp and the flags beside it claim (TrainingArguments, fields fsdp and fsdp_transformer_layer_cls)."""
    option = flags.flags.get("fsdp")
    if option is None or option.value is None or not is_fsdp(flags):
        return
    text = _words(option)
    if any(value.text is None for value in option.values):
        return
    if is_preset(option):
        reason, how = f"{_words(option)} tells how the model is sharded", "--set sharding.stage=..."
        yield Claim("sharding.stage", Unknown(reason, how, Origin("written", option.place)), "--fsdp")
        return
    words = text.replace(",", " ").split()
    anchor = option.value
    strategy = next((word for word in words if word in _STAGES), "full_shard" if words[0].lower() in _ON else "")
    if strategy:
        yield Claim("sharding.stage", setting_of(_part(anchor, strategy), _STAGES[strategy]), "--fsdp")
    if strategy.startswith("hybrid"):
        yield Claim("sharding.group", _node(anchor), "--fsdp")
    if "offload" in words:
        for what in ("parameters", "optimizer"):
            yield Claim(f"sharding.offload_{what}", setting_of(_part(anchor, "offload"), "cpu"), "--fsdp")
    yield from _units(flags, words, anchor)


def _units(flags: Flags, words: list[str], anchor: Word) -> Iterator[Claim]:
    """What is wrapped; without auto_wrap the version decides, of which arguments that are gone tell."""
    if "auto_wrap" in words:
        yield Claim("sharding.units", setting_of(_part(anchor, "auto_wrap"), "wrapped"), "--fsdp")
    elif "fsdp-config" in flags.flags:
        reason = "what Transformers wraps without auto_wrap depends on its version"
        yield Claim("sharding.units", Unknown(reason, "", Origin("written", anchor.place)), "--fsdp")
    elif OLD & flags.flags.keys():
        yield Claim("sharding.units", setting_of(anchor, "none"), "--fsdp")


def _words(option: Option) -> str:
    return " ".join(value.shown for value in option.values) if option.values else "true"


def _part(word: Word, text: str) -> Word:
    start = word.shown.find(text)
    return word.part(start, start + len(text)) if start >= 0 else word


def _node(word: Word) -> Unknown:
    reason, how = "a hybrid strategy shards inside a node", "--set cluster.gpus_per_node=N"
    return Unknown(reason, how, Origin("written", word.place), "cluster.gpus_per_node")


def read_config(document: Document) -> Reading:
    """The file of --fsdp_config; other keys than the Trainer's are ignored by it, a prefix `fsdp_` is left off.

    With `xla` on it is XLA's FSDP that shards, over TPU cores that no file counts: a framework that is not known here.
    """
    root = document.root
    if root is None or root.kind != "object":
        return Reading(LAYER, root.span if root is not None else None, unread="the FSDP config could not be read")
    entries = {entry.key.removeprefix("fsdp_"): entry for entry in root.entries}
    wrong = tuple(_wrong(entries))
    collections = {"config.invalid": wrong} if wrong else {}
    return Reading(LAYER, root.span, tuple(_file_claims(entries)), framework="fsdp", collections=collections)


_POLICIES = ("TRANSFORMER_BASED_WRAP", "SIZE_BASED_WRAP", "NO_WRAP")
_STATE_DICTS = ("FULL_STATE_DICT", "SHARDED_STATE_DICT", "LOCAL_STATE_DICT")
_PREFETCHES = ("BACKWARD_PRE", "BACKWARD_POST", "NO_PREFETCH")
_TRUTHS = ("y", "yes", "t", "true", "on", "1", "n", "no", "f", "false", "off", "0")
_FLAGS = (
    "activation_checkpointing", "cpu_ram_efficient_loading", "use_orig_params", "sync_module_states",
    "forward_prefetch", "limit_all_gathers",
)  # fmt: skip


def _wrong(entries: dict[str, Entry]) -> Iterator[Member]:
    """Values that the Trainer refuses (transformers 5.24.0 training_args.py, _process_fsdp_args)."""
    version = _text(entries.get("version"))
    for key, entry in entries.items():
        node = entry.node
        expected = _expected(key, str(node.value), version) if node.kind in ("string", "number", "bool") else ""
        if expected:
            fields = texts(entry.place, key=entry.key, section="fsdp_config", expected=expected, effect="refused")
            yield Member(entry.place, {**fields, "value": setting(node)})


def _expected(key: str, text: str, version: str) -> str:
    if key == "version":
        return "" if text in ("1", "2") else "1 or 2"
    if key == "auto_wrap_policy":
        return "" if text in _POLICIES else "one of " + ", ".join(_POLICIES)
    if key in _FLAGS:
        return "" if text.lower() in _TRUTHS else "true or false"
    if key == "backward_prefetch":
        return "" if text.upper() in _PREFETCHES else "one of " + ", ".join(_PREFETCHES)
    if key == "state_dict_type":
        allowed = _STATE_DICTS[:2] if version == "2" else _STATE_DICTS
        return "" if text.upper() in allowed else "one of " + ", ".join(allowed)
    if key == "reshard_after_forward" and version == "2":
        return "" if text.lower() in _TRUTHS else "true or false with version 2"
    if key == "reshard_after_forward" and version == "1":
        return "" if text.lower() in _STAGES else "one of " + ", ".join(_STAGES) + " with version 1"
    return ""


def _text(entry: Entry | None) -> str:
    return str(entry.node.value) if entry is not None else ""


def _file_claims(entries: dict[str, Entry]) -> Iterator[Claim]:
    if _is_on(entries.get("xla")):
        yield from _by_xla(entries["xla"])
    if "transformer_layer_cls_to_wrap" in entries:
        yield _claim("sharding.units", entries["transformer_layer_cls_to_wrap"], "wrapped")
    if _text(entries.get("version")) == "2":
        yield _claim("sharding.implementation", entries["version"], "torch-fsdp2")
    if "backward_prefetch" in entries:
        yield _prefetch(entries["backward_prefetch"])
    if _is_on(entries.get("activation_checkpointing")):
        yield _claim("checkpointing.activations", entries["activation_checkpointing"], "full")
    if _is_on(entries.get("cpu_offload")):
        for what in ("parameters", "optimizer"):
            yield _claim(f"sharding.offload_{what}", entries["cpu_offload"], "cpu")
    if _text(entries.get("version")) == "1" and _text(entries.get("reshard_after_forward")).lower() in _STAGES:
        strategy = entries["reshard_after_forward"]
        yield _claim("sharding.stage", strategy, _STAGES[_text(strategy).lower()])
    if "reshard_after_forward" in entries and isinstance(entries["reshard_after_forward"].node.value, bool):
        yield _claim("sharding.reshard_after_forward", entries["reshard_after_forward"], None)


def _by_xla(entry: Entry) -> Iterator[Claim]:
    origin, name = Origin("written", entry.place), f"fsdp_config.{entry.key}"
    yield Claim("framework", Unknown("XLA's FSDP shards, which is not known here", "", origin), name)
    processes = Unknown("the program starts a process for each TPU core", "--set launch.processes=N", origin)
    yield Claim("launch.processes", processes, name)


def _claim(name: str, entry: Entry, value: Plain) -> Claim:
    return Claim(name, setting(entry.node, value), f"fsdp_config.{entry.key}")


def _prefetch(entry: Entry) -> Claim:
    text = str(entry.node.value).lower()
    known = text if text in ("backward_pre", "backward_post") else "none"
    return _claim("sharding.prefetch", entry, known)


def _is_on(entry: Entry | None) -> bool:
    return entry is not None and str(entry.node.value).lower() in _ON


def checkpoints_by_flag(flags: Flags) -> Option | None:
    """The Trainer's own switch for recomputation, if it is on."""
    for name in ("gradient-checkpointing", "activation-checkpointing"):
        option = flags.flags.get(name)
        found = switch(option) if option is not None else None
        if option is not None and isinstance(found, Value) and found.value:
            return option
    return None


_KEYS: dict[tuple[str, Plain], str] = {
    ("sharding.prefetch", "backward_pre"): '"backward_prefetch": "backward_pre" in --fsdp_config',
    ("sharding.prefetch", "backward_post"): '"backward_prefetch": "backward_post" in --fsdp_config',
    ("checkpointing.placement", "inside"): '"activation_checkpointing": true in --fsdp_config',
    ("sharding.reshard_after_forward", True): '"reshard_after_forward": true in --fsdp_config',
    ("sharding.reshard_after_forward", False): '"reshard_after_forward": false in --fsdp_config',
}


def spell(name: str, value: Plain) -> str | None:
    """A setting as the file of --fsdp_config has it, None for what it does not hold."""
    return _KEYS.get((name, value))
