"""OLMo's YAML config, which its scripts/train.py takes with options over it (`--fsdp.sharding_strategy=HYBRID_SHARD`).

allenai/OLMo 59a53e3 olmo/config.py, olmo/train.py, olmo/model.py and scripts/train.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil

from dtlint.frameworks import Claim, Reading
from dtlint.frameworks.deepspeed.values import known, number, whole_number, word
from dtlint.frameworks.dotted_keys import Keys
from dtlint.frameworks.hydra.omegaconf import resolved
from dtlint.frameworks.keys import ON, Meaning, claims_of, flag_words, hidden, keys_of, spelled
from dtlint.frameworks.options import is_number
from dtlint.languages.json_tree import Document, Node, entry, setting
from dtlint.languages.traced import Word
from dtlint.value import Origin, Plain, Setting, Unknown, Value

LAYER = "olmo"

_FORMATS: Mapping[str, Plain] = {"amp_bf16": "bf16", "amp_fp16": "fp16", "fp32": "fp32"}
_STAGES: Mapping[str, Plain] = {
    "full_shard": 3, "shard_grad_op": 2, "no_shard": 0, "hybrid_shard": 3, "_hybrid_shard_zero2": 2,
}  # fmt: skip
_TABLE = {
    "global_train_batch_size": Meaning("batch.global"),
    "device_train_microbatch_size": Meaning("batch.micro"),
    "precision": Meaning("precision.compute", words=_FORMATS),
    "max_grad_norm": Meaning("optimizer.clip", number),
    "optimizer.name": Meaning("optimizer.name", word),
    "fused_loss": Meaning("model.fused_loss", words=ON),
    "model.max_sequence_length": Meaning("data.sequence_length"),
    "model.d_model": Meaning("model.hidden"),
    "model.n_layers": Meaning("model.layers"),
    "model.n_heads": Meaning("model.heads"),
    "model.n_kv_heads": Meaning("model.kv_heads"),
    "model.weight_tying": Meaning("model.tied_embeddings", words=ON),
    "model.flash_attention": Meaning("attention.flash", words=ON),
}
_SHARDED = {
    "fsdp.sharding_strategy": Meaning("sharding.stage", words=_STAGES),
    "fsdp.hybrid_sharding_num_model_replicas": Meaning("sharding.instances"),
}
_COPIED = {
    "ddp.find_unused_params": Meaning("communication.find_unused", words=ON),
    "ddp.grad_sync_mode": Meaning("sharding.sums_each_microbatch", words={"batch": False, "micro_batch": True}),
}
_SHARES = {
    "whole_layer": (1, 1), "one_in_two": (1, 2), "one_in_three": (1, 3), "one_in_four": (1, 4), "one_in_eight": (1, 8),
    "two_in_three": (2, 3), "three_in_four": (3, 4),
}  # fmt: skip
"""How many of how many layers a strategy of recomputation takes."""
_SPELLED = {
    **_TABLE,
    **_COPIED,
    "fsdp.sharding_strategy": Meaning("sharding.stage", words={"FULL_SHARD": 3, "SHARD_GRAD_OP": 2, "NO_SHARD": 0}),
    "fsdp.hybrid_sharding_num_model_replicas": Meaning("sharding.instances"),
    "fsdp.wrapping_strategy": Meaning("sharding.units", words={"by_block": "wrapped"}),
    "fsdp.precision": Meaning("precision.reduce", words={"pure": "bf16", "mixed": "fp32"}),
    "activation_checkpointing": Meaning(
        "checkpointing.activations", words={"whole_layer": "full", "fine_grained": "selective", "null": "none"}
    ),
}


def recognise(document: Document) -> bool:
    """Whether a file is a config of OLMo: its batch is told for all devices, and its model by its shape alone."""
    root = document.root
    keys = {each.key for each in root.entries} if root is not None else set()
    model = entry(root, "model")
    shaped = model is not None and entry(model.node, "d_model") is not None and entry(model.node, "name") is None
    return shaped and "global_train_batch_size" in keys and "train_loader" not in keys


def recognise_program(program: Sequence[Word]) -> bool:
    """No program is known to be OLMo's before its config is read."""
    return False


def read_program(program: Sequence[Word]) -> Reading:
    """Never asked: the config that a program is given decides."""
    return Reading("program")


def read_config(documents: Sequence[Document], words: Sequence[Word] = ()) -> Reading:
    """What a config, and options over it, claim; without distributed_strategy FSDP shards the model."""
    roots = [document.root for document in documents]
    keys = resolved(keys_of(roots, flag_words(words)))
    place = next((root.span for root in roots if root is not None), None)
    framework = _framework(keys)
    claims = (
        *claims_of(keys, _TABLE),
        *_duration(keys),
        *_recomputed(keys),
        *_shape(keys),
        *(_sharding(keys) if framework == "fsdp" else claims_of(keys, _COPIED)),
    )
    return Reading(LAYER, place, claims, framework=framework, frontend="olmo", open=hidden(roots, words))


def spell(setting_name: str, value: Plain, framework: str = "") -> str | None:
    """A setting as the file has it, by its path (`fsdp.wrapping_strategy: by_block`)."""
    found = spelled(_SPELLED, setting_name, value)
    return None if found is None else ": ".join(found)


def _framework(keys: Keys) -> str:
    told = keys.known("distributed_strategy")
    return {"ddp": "ddp", "single": "pytorch"}.get(str(told), "fsdp")


def _duration(keys: Keys) -> Iterator[Claim]:
    """Steps, or tokens where a T stands behind the number; epochs tell neither."""
    node = keys.node("max_duration")
    told = None if node is None else setting(node)
    if node is None or not isinstance(told, Value):
        return
    text = str(told.value)
    if text.endswith("T") and is_number(text[:-1]):
        yield Claim("run.tokens", told._replace(value=float(text[:-1])), "max_duration")
    elif text.isdecimal() and len(text) < 20:
        yield Claim("run.steps", told._replace(value=int(text)), "max_duration")


def _recomputed(keys: Keys) -> Iterator[Claim]:
    """Whole layers, some of them or all; `fine_grained` picks inside each."""
    node = keys.node("activation_checkpointing")
    told = None if node is None else setting(node)
    if node is None or not isinstance(told, Value):
        return
    name = str(told.value)
    if name == "fine_grained":
        yield Claim("checkpointing.activations", told._replace(value="selective"), "activation_checkpointing")
        return
    taken, of = _SHARES.get(name, (0, 0))
    if not of:
        return
    yield Claim("checkpointing.activations", told._replace(value="full"), "activation_checkpointing")
    layers = keys.node("model.n_layers")
    count = None if layers is None else known(whole_number(layers))
    if of > 1:
        some = told._replace(value=ceil(count * taken / of)) if isinstance(count, int) else None
        why = Unknown("how many layers the model has is not known", "--set checkpointing.layers=N")
        yield Claim("checkpointing.layers", some or why, "activation_checkpointing")


def _shape(keys: Keys) -> Iterator[Claim]:
    """The feed-forward layer: both of its gated halves together where the activation has a gate (swiglu, unless another
    is named); the embedding may have more rows than the vocabulary.
    """
    gated = keys.known("model.activation_type") in (None, "swiglu")
    kind = keys.node("model.activation_type")
    yield Claim("model.gated_mlp", Value(gated, _origin(kind)), "model.activation_type")
    width, hidden = keys.node("model.mlp_hidden_size"), keys.node("model.d_model")
    if width is not None:
        yield Claim("model.ffn", _share(whole_number(width), 1, 2 if gated else 1), "model.mlp_hidden_size")
    elif hidden is not None:
        ratio = keys.node("model.mlp_ratio")
        times = known(whole_number(ratio)) if ratio is not None else 4
        if isinstance(times, int):
            yield Claim("model.ffn", _share(whole_number(hidden), times, 2 if gated else 1), "model.mlp_ratio")
    rows = keys.node("model.embedding_size", "model.vocab_size")
    if rows is not None:
        yield Claim("model.vocab", whole_number(rows), "model.embedding_size")


def _share(value: Setting, times: int, of: int) -> Setting:
    if isinstance(value, Value) and isinstance(value.value, int):
        return value._replace(value=value.value * times // of)
    return value


def _origin(node: Node | None) -> Origin:
    return Origin("default", note="OLMo") if node is None else Origin("written", node.span)


def _sharding(keys: Keys) -> Iterator[Claim]:
    yield from claims_of(keys, _SHARDED)
    units = keys.node("fsdp.wrapping_strategy")
    if units is not None:
        yield Claim("sharding.units", setting(units, "wrapped"), "fsdp.wrapping_strategy")
    strategy = keys.node("fsdp.sharding_strategy")
    if strategy is not None and "HYBRID" in str(strategy.value).upper() and not _replicas(keys):
        how, origin = "--set cluster.gpus_per_node=N", Origin("written", strategy.span)
        each = Unknown("a hybrid strategy shards inside a node", how, origin, "cluster.gpus_per_node")
        yield Claim("sharding.group", each, "fsdp.sharding_strategy")
    if "fsdp.precision" in keys.nodes:
        yield Claim("precision.reduce", _reduced(keys, keys.nodes["fsdp.precision"]), "fsdp.precision")


def _replicas(keys: Keys) -> bool:
    return keys.node("fsdp.hybrid_sharding_num_model_replicas") is not None


def _reduced(keys: Keys, node: Node) -> Setting:
    """pure reduces in the format of the compute; mixed, and none at all, in fp32."""
    told = setting(node)
    if not isinstance(told, Value):
        return told
    compute = _FORMATS.get(str(keys.known("precision")))
    if str(told.value) != "pure":
        return told._replace(value="fp32")
    return told._replace(value=compute) if compute else Unknown("the format of the compute is not known")
