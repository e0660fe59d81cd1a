"""Which part of a model a program trains, by its flags: adapters, frozen or picked parts, quantized weights."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from dtlint.frameworks import Claim
from dtlint.frameworks.adapter_layers import EVERY_LAYER, targets_of
from dtlint.frameworks.flag_list import Flags, switch
from dtlint.frameworks.options import Option, integer
from dtlint.languages.traced import Word, setting_of
from dtlint.value import Origin, Setting, Unknown, Value, default

MODELS = ("model-name-or-path", "model")
_FOUR_BITS = re.compile(r"int4|awq|gptq|4bit|nf4", re.IGNORECASE)
"""What the names of models with weights of four bits say."""

KINDS = ("finetuning-type", "tuner-type", "train-type", "sft-type", "tuning-type", "tuning-method", "peft-type")
"""Flags whose value names the way of tuning: full, lora, freeze ..."""

_MODES = ("training-type",)
"""Flags that name the way of tuning in some programs and something else in others, as their value tells."""

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

_TARGETS = ("lora-target-modules", "lora-target", "target-modules")
"""Flags that name the layers which have adapters, for peft, LLaMA-Factory and ms-swift."""
_EVERY = ("all", "all-linear")

_ADAPTERS = ("lora", "dora", "adalora", "longlora", "qlora", "oft", "vera", "loha", "lokr")
_WHOLE_KIND = re.compile(r"(?:^|[-_])full(?:[-_]|$)")
_PARTIAL = re.compile(
    r"freeze|frozen|^tune-|^fix-|-only$|prefix-tuning|pre-seq-len|p-?tuning|prompt-tuning|badam|bitfit|ia3|adalora"
    r"|^bnb-[48]bit|^(?:use|load-in)-[48]bit|^lora-(?:target|base|alpha|dropout|modules)|^network-(?:module|dim)$"
    r"|^only-(?:train|tune)|^linear-prob|^peft-(?:method|config)$|^(?:use|train)-adapters?$"
)
"""Flags of programs that train a part of the model in ways of their own; weights of few bits are never trained."""
_NOTHING = frozenset({"false", "0", "no", "none", ""})

_PICKING = re.compile(
    r"^(?:trainable|tunable|trained)-(?:models?|modules?|parts|layers|params|parameters)$|-tunable-parts$"
)
"""Flags whose values are the names of the parts that train."""
_WHOLES = re.compile(
    r"(?:mm_)?(?:language_model|llm|dit\d?|unet|transformer(?:_?\d)?|diffusion_model|model|backbone|all|full|\.)"
)
"""Names of what is most of a model, or all of it."""

_SCRIPTS = re.compile(r"lora|peft|adapter|controlnet|textual_?inversion|linear_?prob")
"""What a program's name holds that trains something small beside a model."""


def adapter_claims(flags: Flags, script: Word, default_rank: int) -> Iterator[Claim]:
    """The rank of the adapters, 0 where the whole model trains; nothing where no flag speaks of either.

    `script` is the program, whose name may tell (`train_lora.py`); `default_rank` what the program takes where no
    rank is given, 0 if that is its own affair.
    """
    every = _rank(flags, script, default_rank)
    found = every[-1] if every else None
    if found is not None:
        yield from every
        yield from _targets(flags)
    stored = _stored(flags)
    if stored is not None:
        yield stored
    elif (
        found is not None and not default_rank and not _is_zero(found.value) and not _is_stored_as_loaded(flags, script)
    ):
        reason = "how the frozen weights are stored is the program's affair"
        yield Claim("precision.frozen", Unknown(reason, "--set precision.frozen=bf16"))


def _is_stored_as_loaded(flags: Flags, script: Word) -> bool:
    """Whether the frozen weights stay as they are loaded: in programs that have an argument of its own for few bits
    (--q_lora, --bits), which is not given.
    """
    names = (*flags.flags, PurePosixPath(script.shown).name)
    return _is_of_family(flags) and not flags.open and not any(map(_BITS_TOLD.search, names))


def _is_of_family(flags: Flags) -> bool:
    """Whether the arguments are those of a program that descends from FastChat's, and switches adapters on."""
    return _MARK in flags.flags and any(name in flags.flags and flags.on(name) for name in _SWITCHES_OF_FAMILY)


_MARK = "lazy-preprocess"
_SWITCHES_OF_FAMILY = ("use-lora", "lora-enable")
_FAMILY = "finetune.py of Qwen, MiniCPM-V and InternLM, train.py of LLaVA"
_RANK_OF_FAMILY = 64
"""What FastChat's descendants have in common: this argument, one of these switches, and the rank that they take unasked
(lora_r in QwenLM/Qwen finetune.py and haotian-liu/LLaVA llava/train/train.py)."""
_BITS_TOLD = re.compile(r"q-?lora|bit|quant|bnb|int[48]|gptq|awq|nf4", re.IGNORECASE)
"""What names of flags and programs hold that have to do with weights of few bits."""


def _targets(flags: Flags) -> Iterator[Claim]:
    option = flags.first(_TARGETS)
    if option is None or not option.values or any(word.text is None for word in option.values):
        return
    named = targets_of(setting_of(option.values[0], tuple(word.text for word in option.values)))
    if named is not None:
        every = isinstance(named.value, tuple) and len(named.value) == 1 and named.value[0] in _EVERY
        yield Claim("model.lora_targets", named._replace(value=(EVERY_LAYER,)) if every else named, option.spelled)


def _is_zero(value: Setting) -> bool:
    return isinstance(value, Value) and value.value == 0


def _rank(flags: Flags, script: Word, default_rank: int) -> tuple[Claim, ...]:
    """What the flags say of it: one claim, or one of each flag that speaks of a part."""
    kind = flags.first(KINDS) or _mode(flags)
    if kind is not None:
        return _of_kind(kind, flags, default_rank)
    on = next((option for name in SWITCHES if (option := flags.flags.get(name)) is not None), None)
    if on is not None:
        return _of_switch(on, flags, default_rank)
    if flags.first(RANKS) is not None:
        return (_with_rank(flags.first(RANKS), flags, default_rank),)
    if _SCRIPTS.search(PurePosixPath(script.shown).name.lower()):
        trains, how = "the program trains adapters", "--set model.lora_rank=N"
        return (Claim("model.lora_rank", Unknown(trains, how, Origin("written", script.place))),)
    picked = _picked(flags)
    return (picked,) if picked is not None else _partly(flags)


def _mode(flags: Flags) -> Option | None:
    """A flag that names the way of tuning, by its value."""
    option = flags.first(_MODES)
    value = option.value.text if option is not None and option.value is not None else None
    return option if value is not None and re.search(r"lora|finetune", value) else None


def _picked(flags: Flags) -> Claim | None:
    """The whole model or an unknown part, where a flag names what trains."""
    option = next((option for name, option in flags.flags.items() if _PICKING.search(name)), None)
    if option is None or option.value is None:
        return None
    names = [name for value in option.values for name in re.split(r"[,\s]+", value.text or "")]
    if any(_WHOLES.fullmatch(name) for name in names):
        return Claim("model.lora_rank", setting_of(option.value, 0), option.spelled)
    return Claim("model.lora_rank", _undecided(option, "part of the model is trained"), option.spelled)


def _of_kind(kind: Option, flags: Flags, default_rank: int) -> tuple[Claim, ...]:
    text = (kind.value.text or "").lower() if kind.value is not None else ""
    if _WHOLE_KIND.search(text) and kind.value is not None:
        return _partly(flags) or (Claim("model.lora_rank", setting_of(kind.value, 0), kind.spelled),)
    if text in _ADAPTERS or kind.name in _MODES:
        return (_with_rank(kind, flags, default_rank),)
    return (Claim("model.lora_rank", _undecided(kind, "part of the model is trained"), kind.spelled),)


def _of_switch(on: Option, flags: Flags, default_rank: int) -> tuple[Claim, ...]:
    value = switch(on)
    if isinstance(value, Value) and not value.value:
        return _partly(flags) or (Claim("model.lora_rank", value._replace(value=0), on.spelled),)
    if isinstance(value, Value):
        return (_with_rank(on, flags, default_rank),)
    return (Claim("model.lora_rank", value, on.spelled),)


def _with_rank(saying: Option | None, flags: Flags, default_rank: int) -> Claim:
    named = ("rank",) if saying is not None and saying.name in _MODES else ()
    rank = flags.first((*RANKS, *named))
    if rank is not None:
        return Claim("model.lora_rank", integer(rank.value), rank.spelled)
    assert saying is not None
    if _is_of_family(flags):
        return Claim("model.lora_rank", default(_RANK_OF_FAMILY, _FAMILY), saying.spelled)
    if default_rank:
        return Claim("model.lora_rank", setting_of(saying.value or saying.flag, default_rank), saying.spelled)
    return Claim("model.lora_rank", _undecided(saying, "the rank of the adapters is not in the files"), saying.spelled)


def _partly(flags: Flags) -> tuple[Claim, ...]:
    """An unknown part of the model, for each flag that freezes or picks some."""
    return tuple(
        Claim("model.lora_rank", _undecided(option, "part of the model is frozen"), option.spelled)
        for name, option in flags.flags.items()
        if speaks_of_part(name) and (name.startswith("tune-") or flags.word(name) not in _NOTHING or not option.value)
    )


def speaks_of_part(name: str) -> bool:
    """Whether a flag by its name has to do with training a part of the model in a way of the program's own."""
    return _PARTIAL.search(name) is not None


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
