"""What follows about the shape of the model, and what hangs on it: parameters, buckets, precision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtlint.catalog import model
from dtlint.plan.derived.registry import RULES, TRAINERS, is_megatron, quotient, rule, same
from dtlint.plan.parameters import adapter_parameters, count_parameters, lora_parameters
from dtlint.value import Unknown, Value, assumed, default, derived

if TYPE_CHECKING:
    from dtlint.plan import Plan


NOT_ONE_STACK = {
    "encoder-decoder": "an encoder and a decoder",
    "hybrid": "layers that are not all alike",
}
"""Architectures of the catalog's models whose layers are not those of one stack, with what they have instead."""


def _from_model(setting: str, field: str) -> None:
    def rule(plan: Plan) -> Value | Unknown | None:
        name = plan.word("model.name")
        found = model(name) if name is not None else None
        if setting == "model.layers" and found is not None and found.architecture in NOT_ONE_STACK:
            return Unknown(f"{found.name} has {NOT_ONE_STACK[found.architecture]}", "--set model.layers=N")
        value = getattr(found, field) if found is not None else None
        if value is None:
            return _shape_fallback(plan, setting)
        return derived(value, "model.name", note=f"{found.name} in the catalog" if found is not None else "")

    RULES[setting] = rule


for _setting in (
    "architecture", "layers", "hidden", "ffn", "heads", "kv_heads", "head_dim", "vocab", "experts", "experts_per_token",
    "expert_ffn", "shared_expert_ffn", "moe_layers", "gated_mlp", "tied_embeddings",
):  # fmt: skip
    _from_model(f"model.{_setting}", _setting)


def _shape_fallback(plan: Plan, setting: str) -> Value | None:
    found = {
        "model.ffn": _ffn,
        "model.head_dim": _head_dim,
        "model.kv_heads": _kv_heads,
        "model.expert_ffn": _expert_ffn,
        "model.moe_layers": _moe_layers,
    }.get(setting)
    return found(plan) if found is not None else None


def _ffn(plan: Plan) -> Value | None:
    """Megatron's own width: 4h, or with a gate 8/3 h rounded down to 64 (arguments.py)."""
    hidden = plan.integer("model.hidden")
    if hidden is None or not is_megatron(plan):
        return None
    gated = bool(plan.flag("model.gated_mlp"))
    return derived(hidden * 8 // 3 // 64 * 64 if gated else 4 * hidden, "model.hidden", "model.gated_mlp")


def _head_dim(plan: Plan) -> Value | None:
    return quotient(plan.integer("model.hidden"), plan.integer("model.heads"), "model.hidden", "model.heads")


def _kv_heads(plan: Plan) -> Value | None:
    heads = plan.integer("model.heads")
    if heads is None:
        return None
    return (
        derived(heads, "model.heads")
        if is_megatron(plan)
        else assumed(heads, "no grouped queries are named", "--set model.kv_heads=N")
    )


def _expert_ffn(plan: Plan) -> Value | None:
    return same(plan, "model.ffn") if plan.integer("model.experts") else None


def _moe_layers(plan: Plan) -> Value | None:
    return same(plan, "model.layers") if plan.integer("model.experts") else None


@rule("model.parameters")
def _parameters(plan: Plan) -> Value | Unknown | None:
    name = plan.word("model.name")
    found = model(name) if name is not None else None
    if found is not None and found.parameters and plan.stated("model.layers") is None:
        return derived(found.parameters, "model.name", note=f"{found.name} in the catalog")
    if isinstance(plan.setting("model.parameters"), Unknown):
        return None  # a reader says why they do not follow from the shape
    count = count_parameters(plan)
    if count is None:
        named = plan.setting("model.name")
        return named if isinstance(named, Unknown) else None
    inputs = ("model.layers", "model.hidden", "model.ffn", "model.vocab")
    for setting, why in _COUNTED_AS_USUAL.items():
        if plan.value(setting) is None:
            return assumed(count, why, f"--set {setting}=...")
    return derived(count, *inputs)


_COUNTED_AS_USUAL = {
    "model.vocab": "the vocabulary size is not in the files",
    "model.gated_mlp": "whether the feed-forward layer has a gate is not in the files",
}
"""Settings for which the count takes a typical value, and what to say then."""


@rule("model.trainable_parameters")
def _trainable(plan: Plan) -> Value | Unknown | None:
    found = plan.get("model.lora_rank")
    if isinstance(found, Unknown) and plan.setting("model.lora_rank") is not None:
        return found
    stated = plan.setting("model.trainable_parameters")
    if isinstance(stated, Unknown):
        return stated  # a reader says why they do not follow from the rank
    rank = plan.integer("model.lora_rank")
    if not rank:
        return same(plan, "model.parameters")
    targets = plan.value("model.lora_targets")
    named = adapter_parameters(plan, rank, targets) if isinstance(targets, tuple) else None
    if named is not None:
        return derived(named, "model.lora_rank", "model.lora_targets")
    count = lora_parameters(plan, rank)
    if count is None:
        return Unknown("how many parameters the adapters have is unknown", "--set model.trainable_parameters=N")
    return assumed(count, "adapters on every linear layer", "--set model.trainable_parameters=N")


@rule("communication.bucket_bytes")
def _bucket(plan: Plan) -> Value | None:
    """What the Trainer writes for "auto": hidden size squared elements, which are of a 16-bit format
    (transformers integrations/deepspeed.py, trainer_config_finalize).
    """
    stated, hidden = plan.setting("communication.bucket_bytes"), plan.integer("model.hidden")
    filled = isinstance(stated, Unknown) and stated.reason == "auto" and plan.word("frontend") in TRAINERS
    if not filled or hidden is None:
        return None
    size = 4 if plan.word("precision.compute") == "fp32" else 2
    return derived(hidden * hidden * size, "model.hidden", note='"auto" is hidden size squared elements')


@rule("model.fused_loss")
def _fused_loss(plan: Plan) -> Value | None:
    return None if plan.setting("model.fused_loss") is not None else default(False, "every framework")


@rule("precision.frozen")
def _frozen(plan: Plan) -> Value | Unknown | None:
    if plan.setting("precision.frozen") is not None:
        return None
    compute = plan.get("precision.compute")
    if isinstance(compute, Unknown):
        return compute
    return derived("fp32" if compute.value == "fp32" else "bf16", "precision.compute")
