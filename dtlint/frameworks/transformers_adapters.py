"""Which part of a model a Hugging Face program trains, by its flags: adapters, frozen parts, quantized weights."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dtlint.frameworks import Claim
from dtlint.frameworks.flag_list import Flags, switch
from dtlint.frameworks.options import Option, integer
from dtlint.languages.traced import setting_of
from dtlint.value import Origin, Setting, Unknown, Value

MODELS = ("model-name-or-path", "model")
_FOUR_BITS = re.compile(r"int4|awq|gptq|4bit|nf4", re.IGNORECASE)
"""What the names of models with weights of four bits say."""

KINDS = ("finetuning-type", "tuner-type", "train-type", "sft-type", "tuning-type", "tuning-method", "peft-type")
"""Flags whose value names the way of tuning: full, lora, freeze ..."""

SWITCHES = (
    "use-lora",
    "lora-enable",
    "lora",
    "use-peft",
    "q-lora",
    "use-qlora",
    "enable-lora",
    "peft",
    "lora-training",
)
RANKS = ("lora-rank", "lora-r", "use-llm-lora", "lora-dim", "peft-lora-r")
BITS = ("quantization-bit", "bits", "quant-bits")
QUANTIZERS = {"load-in-4bit": "nf4", "load-in-8bit": "int8", "q-lora": "nf4", "use-qlora": "nf4", "use-4bit": "nf4"}
_BIT_FORMATS = {"4": "nf4", "3": "nf4", "2": "nf4", "8": "int8", "16": "bf16", "32": "fp32"}

_ADAPTERS = ("lora", "dora", "adalora", "longlora", "qlora", "oft", "vera", "loha", "lokr")
_PARTIAL = re.compile(
    r"freeze|frozen|^tune-|^fix-|-only$|prefix-tuning|pre-seq-len|p-?tuning|prompt-tuning|badam|bitfit|ia3|adalora"
    r"|tunable-|trainable-(?:parts|modules)|^bnb-[48]bit|^(?:use|load-in)-[48]bit"
)
"""Flags of programs that train a part of the model in ways of their own; weights of few bits are never trained."""
_WHOLE = re.compile(r"language_model|\bllm\b|\ball\b")
"""Among the parts that a flag picks: the language model, which is nearly all of it."""
_NOTHING = frozenset({"false", "0", "no", "none", ""})


def adapter_claims(flags: Flags, script: str, default_rank: int) -> Iterator[Claim]:
    """The rank of the adapters, 0 where the whole model trains; nothing where no flag speaks of either.

    `script` is the program's name, which may tell (`train_lora.py`); `default_rank` what the program takes where no
    rank is given, 0 if that is its own affair.
    """
    found = _rank(flags, script, default_rank)
    if found is not None:
        yield found
    stored = _stored(flags)
    if stored is not None:
        yield stored
    elif found is not None and not default_rank and not _is_zero(found.value):
        reason = "how the frozen weights are stored is the program's affair"
        yield Claim("precision.frozen", Unknown(reason, "--set precision.frozen=bf16"))


def _is_zero(value: Setting) -> bool:
    return isinstance(value, Value) and value.value == 0


def _rank(flags: Flags, script: str, default_rank: int) -> Claim | None:
    kind = flags.first(KINDS)
    if kind is not None:
        return _of_kind(kind, flags, default_rank)
    on = next((option for name in SWITCHES if (option := flags.flags.get(name)) is not None), None)
    if on is not None:
        return _of_switch(on, flags, default_rank)
    if flags.first(RANKS) is not None:
        return _with_rank(flags.first(RANKS), flags, default_rank)
    if "lora" in script:
        return Claim("model.lora_rank", Unknown("the program trains adapters", "--set model.lora_rank=N"))
    return _partly(flags)


def _of_kind(kind: Option, flags: Flags, default_rank: int) -> Claim:
    text = (kind.value.text or "").lower() if kind.value is not None else ""
    if text == "full" and kind.value is not None:
        return _partly(flags) or Claim("model.lora_rank", setting_of(kind.value, 0), kind.spelled)
    if text in _ADAPTERS:
        return _with_rank(kind, flags, default_rank)
    return Claim("model.lora_rank", _undecided(kind, "part of the model is trained"), kind.spelled)


def _of_switch(on: Option, flags: Flags, default_rank: int) -> Claim:
    value = switch(on)
    if isinstance(value, Value) and not value.value:
        return _partly(flags) or Claim("model.lora_rank", value._replace(value=0), on.spelled)
    if isinstance(value, Value):
        return _with_rank(on, flags, default_rank)
    return Claim("model.lora_rank", value, on.spelled)


def _with_rank(saying: Option | None, flags: Flags, default_rank: int) -> Claim:
    rank = flags.first(RANKS)
    if rank is not None:
        return Claim("model.lora_rank", integer(rank.value), rank.spelled)
    assert saying is not None
    if default_rank:
        return Claim("model.lora_rank", setting_of(saying.value or saying.flag, default_rank), saying.spelled)
    return Claim("model.lora_rank", _undecided(saying, "the rank of the adapters is not in the files"), saying.spelled)


def _partly(flags: Flags) -> Claim | None:
    """An unknown part of the model, where a flag freezes or picks some."""
    for name, option in flags.flags.items():
        if "tunable" in name and _WHOLE.search(flags.word(name) or ""):
            continue
        if _PARTIAL.search(name) and (name.startswith("tune-") or flags.word(name) not in _NOTHING or not option.value):
            return Claim("model.lora_rank", _undecided(option, "part of the model is frozen"), option.spelled)
    return None


def _undecided(option: Option, reason: str) -> Unknown:
    return Unknown(reason, "--set model.trainable_parameters=N", Origin("written", option.place))


def _stored(flags: Flags) -> Claim | None:
    """The format of quantized weights."""
    for name, stored in QUANTIZERS.items():
        if name in flags.flags and flags.on(name) is not False:
            value = switch(flags.flags[name])
            return Claim("precision.frozen", value._replace(value=stored) if isinstance(value, Value) else value, name)
    option = flags.first(BITS)
    if option is None or option.value is None:
        return _stored_in(flags.first(MODELS))
    value = setting_of(option.value)
    known = _BIT_FORMATS.get(option.value.text or "")
    if isinstance(value, Value):
        value = value._replace(value=known) if known else Unknown("the number of bits is not known here")
    return Claim("precision.frozen", value, option.spelled)


def _stored_in(model: Option | None) -> Claim | None:
    """The format that a model's name tells (`Qwen-7B-Chat-Int4`)."""
    if model is None or model.value is None or not _FOUR_BITS.search(model.value.shown):
        return None
    return Claim("precision.frozen", setting_of(model.value, "nf4"), model.spelled)
