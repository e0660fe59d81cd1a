"""What Megatron's flags say together about the model: attention, experts, embeddings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from dtlint.frameworks import Claim
from dtlint.frameworks.megatron.given import Given
from dtlint.frameworks.options import integer, literal_place
from dtlint.languages.traced import setting_of
from dtlint.value import Origin, Unknown

MOST_LAYERS = 20_000
"""Longest layer pattern that is worked out."""

_BACKENDS = {"flash": True, "fused": True, "auto": True, "unfused": False, "local": False}
_LATENT = {
    "query": ("q-lora-rank", 0),
    "key_value": ("kv-lora-rank", 32),
    "rope": ("qk-pos-emb-head-dim", 64),
    "nope": ("qk-head-dim", 128),
    "value": ("v-head-dim", 128),
}
"""Widths of latent attention: the flag, and its default (megatron/training/arguments.py, core_v0.12.0 to d98e8a64)."""
_BESIDE: Mapping[str, str] = {
    "decoder-num-layers": "an encoder and a decoder",
    "decoder-seq-length": "an encoder and a decoder",
    "pipeline-model-parallel-split-rank": "an encoder and a decoder",
    "encoder-pipeline-model-parallel-size": "an encoder of its own",
    "encoder-tensor-model-parallel-size": "an encoder of its own",
    "retro-add-retriever": "an encoder for what it retrieves",
    "biencoder-projection-dim": "an encoder for the question and one for the text",
    "biencoder-shared-query-context-model": "an encoder for the question and one for the text",
    "vision-model-type": "an encoder for images",
    "language-model-type": "an encoder for images",
}
"""Flags that only a model of more than one stack of layers has, of which --num-layers tells one: pretrain_t5.py,
pretrain_retro.py, pretrain_ict.py and examples/multimodal of Megatron-LM (arguments.py, core_v0.4 to 0.19).
"""
_UNLIKE: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "hybrid-layer-pattern", "hybrid-override-pattern", "hybrid-attention-ratio", "hybrid-mlp-ratio",
            "is-hybrid-model", "mamba-num-heads", "mamba-num-groups", "mamba-head-dim", "mamba-state-dim",
        ),
        "some layers hold a state space or a feed-forward network alone",
    ),
    "linear-attention-freq": "some layers have another attention",
    "experimental-attention-variant": "some layers have another attention",
}  # fmt: skip
"""Flags of models whose layers are not all alike, so that the numbers of one do not tell those of the others
(pretrain_mamba.py; arguments.py, core_v0.8 to 0.20).
"""
_OWN_DEGREES = {
    "encoder-pipeline-model-parallel-size": "parallel.pipeline",
    "encoder-tensor-model-parallel-size": "parallel.tensor",
}
"""Degrees of the encoder, whose ranks stand beside those of the decoder (core_v0.9 to 0.12, parallel_state.py)."""


def model_claims(given: Given) -> Iterator[Claim]:
    """Claims that hang on more than one flag, or on a flag that is not a plain value."""
    yield from _attention(given)
    yield from _latent_attention(given)
    yield from _experts(given)
    if given.has("squared-relu"):
        flag = given.flags["squared-relu"].flag
        yield Claim("model.gated_mlp", setting_of(flag, False), "--squared-relu")
    yield from _further_stacks(given)


def _further_stacks(given: Given) -> Iterator[Claim]:
    """What is not known of a model of which the flags tell one of several stacks of layers."""
    name = next((each for each in _BESIDE if _is_in_use(given, each)), "")
    if not name:
        yield from _unlike_layers(given)
        return
    reason = f"--{name} is of a model with {_BESIDE[name]}: --num-layers tells one stack of layers"
    origin = Origin("written", literal_place(given.flags[name].flag))
    for setting in ("model.layers", "model.parameters"):
        yield Claim(setting, Unknown(reason, f"--set {setting}=N", origin), f"--{name}")
    for flag, setting in _OWN_DEGREES.items():
        if _is_in_use(given, flag):
            told = Unknown(f"--{flag} gives the encoder ranks of its own", f"--set {setting}=N", origin)
            yield Claim(setting, told, f"--{flag}")


def _unlike_layers(given: Given) -> Iterator[Claim]:
    """Layers that are counted, and whose weights are not all of one size."""
    name = next((each for each in _UNLIKE if _is_in_use(given, each)), "")
    if name:
        origin = Origin("written", literal_place(given.flags[name].flag))
        why = Unknown(f"--{name}: {_UNLIKE[name]}", "--set model.parameters=N", origin)
        yield Claim("model.parameters", why, f"--{name}")


def _is_in_use(given: Given, name: str) -> bool:
    """Whether a flag is given, and not with 0, which is its default where it counts something."""
    return given.has(name) and given.number(name) != 0


def _attention(given: Given) -> Iterator[Claim]:
    """Key-value heads count only under --group-query-attention, which means one group if their number is not given."""
    groups, grouped = given.word("num-query-groups"), given.flags.get("group-query-attention")
    if grouped is not None and given.has("group-query-attention"):
        value = setting_of(grouped.flag, 1) if groups is None else integer(groups)
        yield Claim("model.kv_heads", value, "--num-query-groups" if groups else "--group-query-attention")
    backend = given.word("attention-backend")
    flash = _BACKENDS.get((backend.text or "") if backend is not None else "")
    if backend is not None and flash is not None:
        yield Claim("attention.flash", setting_of(backend, flash), "--attention-backend")


def _latent_attention(given: Given) -> Iterator[Claim]:
    from dtlint.catalog import LatentAttention

    if not given.has("multi-latent-attention"):
        return
    flag = given.flags["multi-latent-attention"].flag
    widths = {name: given.number(option) if given.word(option) else usual for name, (option, usual) in _LATENT.items()}
    known = {name: width for name, width in widths.items() if width is not None}
    value = (
        setting_of(flag, LatentAttention(**known))
        if len(known) == len(widths)
        else Unknown("a width of the latent attention is not known", "", Origin("written", literal_place(flag)))
    )
    yield Claim("model.latent_attention", value, "--multi-latent-attention")


def _experts(given: Given) -> Iterator[Claim]:
    option = given.flags.get("num-experts")
    if option is None or option.value is None:
        return
    if len(option.values) > 1:
        reason = "the layers have different numbers of experts"
        origin = Origin("written", literal_place(option.value))
        yield Claim("model.experts", Unknown(reason, "--set model.experts=N", origin), "--num-experts")
        return
    dense = given.number("num-experts") == 1
    yield Claim("model.experts", setting_of(option.value, 0) if dense else integer(option.value), "--num-experts")
    if not dense:
        yield from _expert_layers(given)


def _expert_layers(given: Given) -> Iterator[Claim]:
    """How many layers have experts: every Nth, or by a pattern of 0 and 1."""
    name = "expert-interval" if given.word("expert-interval") is not None else "moe-layer-freq"
    word, layers = given.word(name), given.number("num-layers")
    if word is None or word.text is None:
        return
    count = _count_expert_layers(word.text, layers)
    if count is not None:
        yield Claim("model.moe_layers", setting_of(word, count), "--" + name)


def _count_expert_layers(text: str, layers: int | None) -> int | None:
    if text.isdecimal() and len(text) < 6 and int(text):
        return None if not layers else -(-layers // int(text))
    pattern = unrolled_pattern(text)
    return None if pattern is None else sum(1 for each in pattern if each)


def unrolled_pattern(text: str) -> list[int] | None:
    """The list that `([0]*3+[1]*58)` stands for; None for another form or more than MOST_LAYERS entries.

    The forms are a sum of lists of 0 and 1, each of which may be repeated, in brackets or not.
    """
    compact = text.replace(" ", "")
    repeated = re.fullmatch(r"\((.*)\)\*(\d{1,4})", compact)
    times = int(repeated[2]) if repeated else 1
    found: list[int] = []
    for part in (repeated[1] if repeated else compact.strip("()")).split("+"):
        match = re.fullmatch(r"\(?\[([01](?:,[01]){0,999})\](?:\*(\d{1,4}))?\)?", part)
        if match is None or (len(match[1]) * int(match[2] or 1) + len(found)) * times > MOST_LAYERS:
            return None
        found.extend([int(each) for each in match[1].split(",")] * int(match[2] or 1))
    return found * times
