"""The shape of the model that whole settings describe."""

from __future__ import annotations

from collections.abc import Mapping

from dtlint.catalog import LatentAttention, model
from dtlint.cost import constants
from dtlint.cost.figures import Shape
from dtlint.cost.told import Values, amount_in, count_in, word_in


def shape_of(values: Values) -> Shape:
    """The shape of the model, by the conventions of its family where a width is not told."""
    hidden, layers = count_in(values, "model.hidden", 1), count_in(values, "model.layers", 1)
    gated = bool(values.get("model.gated_mlp"))
    heads = count_in(values, "model.heads", max(1, hidden // 128))
    experts = count_in(values, "model.experts", 0)
    expert_ffn = count_in(values, "model.expert_ffn", 0)
    ffn = count_in(values, "model.ffn", 0) or (expert_ffn if experts else (8 * hidden // 3 if gated else 4 * hidden))
    return Shape(
        layers=layers,
        hidden=hidden,
        ffn=ffn,
        heads=heads,
        kv_heads=count_in(values, "model.kv_heads", heads),
        head_dim=_head_dim(values, hidden, heads),
        vocab=count_in(values, "model.vocab", 1),
        gated=gated,
        tied=bool(values.get("model.tied_embeddings")),
        sequence=count_in(values, "data.sequence_length", 1),
        experts=experts,
        experts_per_token=min(count_in(values, "model.experts_per_token", 1), max(1, experts)),
        expert_ffn=expert_ffn or ffn,
        shared_ffn=count_in(values, "model.shared_expert_ffn", 0),
        moe_layers=_moe_layers(values, layers) if experts else 0,
        latent=_latent(values),
        trainable=amount_in(values, "model.trainable_parameters", 0.0)
        if count_in(values, "model.lora_rank", 0)
        else None,
        fused_loss=bool(values.get("model.fused_loss")),
        references=count_in(values, "model.reference_copies", 0),
        plain_loss=bool(values.get("model.plain_loss")),
    )


def _head_dim(values: Values, hidden: int, heads: int) -> int:
    """Width of a head: as told; but a catalog model of the same name and another shape does not tell it."""
    named = model(word_in(values, "model.name", ""))
    if named is not None and (named.hidden, named.heads) != (hidden, heads):
        return max(1, hidden // heads)
    return count_in(values, "model.head_dim", max(1, hidden // heads))


def _moe_layers(values: Values, layers: int) -> int:
    """Layers with experts; where a DeepSeek-like model tells only the width of its dense layers, the first one is
    dense (their config.json)."""
    told = min(layers, count_in(values, "model.moe_layers", layers))
    dense_first = word_in(values, "model.architecture", "").endswith("mla") and values.get("model.ffn") != values.get(
        "model.expert_ffn"
    )
    return layers - 1 if told == layers and layers > 1 and dense_first else told


def _latent(values: Values) -> LatentAttention | None:
    written = values.get("model.latent_attention")
    if isinstance(written, LatentAttention):
        return written
    if isinstance(written, Mapping):
        return LatentAttention._make(count_in(written, field, 0) for field in LatentAttention._fields)
    named = model(word_in(values, "model.name", ""))
    if named is not None and named.hidden == values.get("model.hidden"):
        return named.latent_attention
    return constants.USUAL_LATENT if word_in(values, "model.architecture", "").endswith("mla") else None
