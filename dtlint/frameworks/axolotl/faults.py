"""Keys of an Axolotl config that its schemas refuse: values of another kind, and keys that exclude each other.

axolotl 0.19.0 utils/schemas (validation.py, peft.py, config.py); only checks that a key has had as long as there is
one, since no file tells Axolotl's release (0.19.0 refuses `bf16: full`, which earlier ones have). A key that no schema
has is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from dtlint.frameworks import Member
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.deepspeed.values import is_auto, number
from dtlint.frameworks.dotted_keys import Keys
from dtlint.languages.json_tree import Node, setting
from dtlint.value import Unknown, Value

_NUMBERS = (
    "micro_batch_size", "gradient_accumulation_steps", "batch_size", "sequence_len", "tensor_parallel_size",
    "context_parallel_size", "sequence_parallel_degree", "dp_shard_size", "dp_replicate_size", "lora_r", "max_steps",
    "fsdp_version",
)  # fmt: skip
_SWITCHES = (
    "load_in_4bit", "load_in_8bit", "sample_packing", "fsdp_config.offload_params",
    "fsdp_config.reshard_after_forward", "fsdp_config.cpu_ram_efficient_loading", "fsdp_config.use_orig_params",
    "fsdp_config.activation_checkpointing",
)  # fmt: skip
_TRUTHS = frozenset(("0", "1", "on", "off", "t", "f", "true", "false", "y", "n", "yes", "no"))
"""What pydantic takes for true or false."""
_STATES = ("FULL_STATE_DICT", "LOCAL_STATE_DICT", "SHARDED_STATE_DICT")
_WORDS: Mapping[str, tuple[str, ...]] = {
    "bf16": ("auto", "full", *sorted(_TRUTHS)),
    "fp16": tuple(sorted(_TRUTHS)),
    "gradient_checkpointing": ("offload", "offload_disk", "unsloth", *sorted(_TRUTHS)),
    "fsdp_config.state_dict_type": _STATES,
    "fsdp_config.final_state_dict_type": _STATES,
    "fsdp_config.auto_wrap_policy": ("TRANSFORMER_BASED_WRAP", "SIZE_BASED_WRAP"),
}
_ADAPTERS = ("lora", "qlora", "llama-adapter")
_SHOWN = 3
"""Words that a message lists."""


def refused(keys: Keys) -> dict[str, tuple[Member, ...]]:
    """Members of `config.invalid` and `config.refused`."""
    found = {
        "config.invalid": (*_numbers(keys), *_switches(keys), *_words(keys), *_others(keys)),
        "config.refused": (*_batches(keys), *_sharding(keys), *_quantized(keys), *_optimizers(keys), *_context(keys)),
    }
    return {name: members for name, members in found.items() if members}


def _numbers(keys: Keys) -> Iterator[Member]:
    for name in _NUMBERS:
        node = keys.node(name)
        if node is not None and not _may_be_whole(node):
            yield _invalid(node, name, "a whole number")


def _may_be_whole(node: Node) -> bool:
    """Whether pydantic takes a value for a whole number, or it is not known."""
    if node.kind == "number":
        return isinstance(node.value, (int, float)) and float(node.value).is_integer()
    if node.kind == "string":
        return re.fullmatch(r"\s*[+-]?\d[\d_]*(\.0*)?\s*", str(node.value)) is not None
    return node.kind not in ("array", "object")


def _switches(keys: Keys) -> Iterator[Member]:
    for name in _SWITCHES:
        node = _node(keys, name)
        if node is not None and node.kind == "string" and str(node.value).lower() not in _TRUTHS:
            yield _invalid(node, name, "true or false")


def _words(keys: Keys) -> Iterator[Member]:
    for name, words in _WORDS.items():
        node = _node(keys, name)
        if node is None or node.kind != "string":
            continue
        text = str(node.value)
        if text not in words and text.lower() not in _TRUTHS.intersection(words):
            own = [word for word in words if word not in _TRUTHS][:_SHOWN]
            switch = () if "." in name else ("true", "false")
            yield _invalid(node, name, "one of " + ", ".join((*own, *switch)))


def _others(keys: Keys) -> Iterator[Member]:
    """A clipping that is no number, an adapter that is none and no plugin brings, DeepSpeed without a config."""
    clip, adapter, deepspeed = (keys.node(name) for name in ("max_grad_norm", "adapter", "deepspeed"))
    if clip is not None and clip.kind == "string" and isinstance(number(clip), Unknown) and not is_auto(clip):
        yield _invalid(clip, "max_grad_norm", "a number")
    if adapter is not None and _text(adapter) not in ("", *_ADAPTERS) and keys.node("plugins") is None:
        yield _invalid(adapter, "adapter", "one of " + ", ".join(_ADAPTERS))
    if deepspeed is not None and deepspeed.kind == "number" and deepspeed.value:
        yield _invalid(deepspeed, "deepspeed", "the path of a config")


def _batches(keys: Keys) -> Iterator[Member]:
    batch, steps, micro = (
        keys.node(f"{each}") for each in ("batch_size", "gradient_accumulation_steps", "micro_batch_size")
    )
    if batch is None or not _given(batch):
        return
    if steps is not None and _given(steps):
        yield _beside(batch, "batch_size", "gradient_accumulation_steps", steps, "one follows from the other")
    elif steps is None and micro is None:
        yield _needs(batch, "batch_size", "micro_batch_size", "two of the three batch sizes are wanted")


def _sharding(keys: Keys) -> Iterator[Member]:
    deepspeed, fsdp = keys.node("deepspeed"), keys.node("fsdp")
    if deepspeed is not None and fsdp is not None and _given(deepspeed) and _given(fsdp):
        yield _beside(fsdp, "fsdp", "deepspeed", deepspeed, "one of the two shards the model")


def _quantized(keys: Keys) -> Iterator[Member]:
    """Weights in few bits do not train; qlora has them in four."""
    adapter = keys.node("adapter")
    four, eight = keys.node("load_in_4bit"), keys.node("load_in_8bit")
    if adapter is None:
        for name, node in (("load_in_4bit", four), ("load_in_8bit", eight)):
            if node is not None and _is(node, True) and "adapter" not in _hidden(keys) and not _infers(keys):
                yield _needs(node, name, "adapter", "quantized weights do not train, adapters on them do")
        return
    if not _is(adapter, "qlora") or keys.node("merge_lora") is not None:
        return
    if eight is not None and _is(eight, True):
        yield _beside(eight, "load_in_8bit", "adapter: qlora", adapter, "qlora loads in 4 bits")
    elif four is None or _is(four, False):
        yield _needs(adapter, "adapter: qlora", "load_in_4bit: true", "qlora loads in 4 bits")


def _hidden(keys: Keys) -> str:
    """An adapter that is written as null and may be put in its place by a template is none of ours to judge."""
    node = keys.nodes.get("adapter")
    return "adapter" if node is not None and node.kind in ("bare", "unknown") else ""


def _infers(keys: Keys) -> bool:
    node = keys.node("inference")
    return node is not None and not _is(node, False)


def _optimizers(keys: Keys) -> Iterator[Member]:
    """Optimizers with states in 8 bits, whose kernels do not run on the CPU."""
    node = keys.node("optimizer")
    name = _text(node)
    if node is None or "8bit" not in name:
        return
    offload = _node(keys, "fsdp_config.offload_params")
    second = "2" in (_shown(keys.node("fsdp_version")), _shown(_node(keys, "fsdp_config.fsdp_version")))
    if offload is not None and _is(offload, True) and not second:
        yield _beside(node, f"optimizer: {name}", "offload_params", offload, "its kernels run on the GPU alone")


def _context(keys: Keys) -> Iterator[Member]:
    """Ring attention is built on flash attention, and takes one packed row at a time."""
    found = keys.first("context_parallel_size", "sequence_parallel_degree")
    if found is None:
        return
    name, node = found
    degree = keys.known(name)
    if not isinstance(degree, int) or degree < 2:
        return
    if _without_flash(keys):
        yield _needs(node, name, "flash_attention", "ring attention is built on flash attention")
    micro, packed = keys.node("micro_batch_size"), keys.node("sample_packing")
    rows = keys.known("micro_batch_size")
    if micro is not None and isinstance(rows, int) and rows > 1 and packed is not None and _is(packed, True):
        yield _beside(micro, f"micro_batch_size: {rows}", name, node, "ring attention takes one packed row at a time")


def _without_flash(keys: Keys) -> bool:
    """Whether it is known that attention is not computed by flash attention; a kernel with a path may be one, and
    plugins bring attention of their own.
    """
    if keys.node("plugins", "use_glm_dsa_kernels") is not None:
        return False
    named, switch = keys.node("attn_implementation"), keys.node("flash_attention")
    if named is not None:
        return named.kind == "string" and "flash" not in str(named.value) and "/" not in str(named.value)
    return switch is None or _is(switch, False)


def _node(keys: Keys, name: str) -> Node | None:
    """A key of fsdp_config may have `fsdp_` in front."""
    section, dot, last = name.rpartition(".")
    return keys.node(name, f"{section}.fsdp_{last}") if dot else keys.node(name)


def _given(node: Node) -> bool:
    """Whether a key asks for something; what a template leaves to its reader may be nothing."""
    return bool(node.entries or node.items or node.value) and node.kind not in ("bare", "unknown")


def _is(node: Node, wanted: object) -> bool:
    told = setting(node)
    return isinstance(told, Value) and told.value == wanted


def _text(node: Node | None) -> str:
    return str(node.value) if node is not None and node.kind == "string" else ""


def _shown(node: Node | None) -> str:
    return "" if node is None else str(node.value)


def _invalid(node: Node, key: str, expected: str) -> Member:
    words = texts(node.span, key=key, section="axolotl", expected=expected, effect="refused")
    return Member(node.span, {**words, "value": setting(node)})


def _beside(node: Node, key: str, partner: str, other: Node, reason: str) -> Member:
    fields = texts(node.span, key=key, relation="excludes", partner=partner, reason=reason, since="")
    return Member(node.span, fields, ((other.span, "given here"),))


def _needs(node: Node, key: str, partner: str, reason: str) -> Member:
    return Member(node.span, texts(node.span, key=key, relation="needs", partner=partner, reason=reason, since=""))
