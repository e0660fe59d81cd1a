"""How many parameters a shape has: attention, feed-forward, experts, embeddings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtlint.catalog import LatentAttention
from dtlint.value import Plain

if TYPE_CHECKING:
    from dtlint.plan import Plan


def count_parameters(plan: Plan) -> int | None:
    """Parameters of a transformer of this shape; None where layers, hidden size or feed-forward width are unknown.

    Per layer h*d*(A+2K) + A*d*h for attention, 2hF or 3hF (gated) for the feed-forward layer, 2h for norms; the
    embedding V*h once if
    tied, else twice (Megatron-LM theoretical_memory_usage.py). An unknown vocabulary counts with its typical size.
    """
    layers, hidden = plan.integer("model.layers"), plan.integer("model.hidden")
    if layers is None or hidden is None:
        return None
    feed_forward = _feed_forward_parameters(plan, layers, hidden)
    if feed_forward is None:
        return None
    return (
        layers * (attention_parameters(plan, hidden) + 2 * hidden) + feed_forward + embedding_parameters(plan, hidden)
    )


def attention_parameters(plan: Plan, hidden: int) -> int:
    """Weights of one attention block: queries, keys, values and output."""
    heads = plan.integer("model.heads") or max(1, hidden // 128)
    latent = plan.value("model.latent_attention")
    if isinstance(latent, LatentAttention):
        return _latent_parameters(latent, hidden, heads)
    width = heads * (plan.integer("model.head_dim") or hidden // heads)
    groups = (plan.integer("model.kv_heads") or heads) * (width // heads)
    return hidden * (2 * width + 2 * groups)


def _latent_parameters(latent: LatentAttention, hidden: int, heads: int) -> int:
    """Weights of multi-head latent attention: queries, the compressed keys and values, and output (DeepSeek-V2,
    arXiv:2405.04434, section 2.1).
    """
    query = latent.nope + latent.rope
    queries = latent.query * (hidden + heads * query) if latent.query else hidden * heads * query
    compressed = hidden * (latent.key_value + latent.rope)
    return (
        queries + compressed + latent.key_value * heads * (latent.nope + latent.value) + heads * latent.value * hidden
    )


def embedding_parameters(plan: Plan, hidden: int) -> int:
    """Weights of the input and output embedding."""
    return vocabulary_size(plan) * hidden * (1 if plan.flag("model.tied_embeddings") else 2)


def vocabulary_size(plan: Plan) -> int:
    """The vocabulary, or its typical size where it is unknown."""
    from dtlint.plan.vocabulary import term

    found = plan.integer("model.vocab")
    typical = term("model.vocab").typical
    return found if found is not None else int(typical) if isinstance(typical, int) else 0


def lora_parameters(plan: Plan, rank: int) -> int | None:
    """Parameters of rank-`rank` adapters on every linear layer: rank x (in + out) each; None where the shape is
    unknown.
    """
    layers, hidden, width = plan.integer("model.layers"), plan.integer("model.hidden"), plan.integer("model.ffn")
    if layers is None or hidden is None or width is None:
        return None
    heads = plan.integer("model.heads") or 1
    groups = (plan.integer("model.kv_heads") or heads) * (hidden // heads)
    attention = 4 * hidden + 2 * (hidden + groups)
    matrices = 3 if plan.flag("model.gated_mlp") else 2
    return layers * rank * (attention + matrices * (hidden + width))


_QUERIES = frozenset(("q_proj", "query", "wq"))
_GROUPS = frozenset(("k_proj", "v_proj", "key", "value", "wk", "wv"))
_OUTPUTS = frozenset(("o_proj", "wo"))
_FUSED = frozenset(("query_key_value", "qkv_proj", "c_attn", "Wqkv", "W_pack"))
_WIDE = frozenset(("gate_proj", "up_proj", "down_proj", "dense_h_to_4h", "dense_4h_to_h", "fc_in", "fc_out"))
_GATED = frozenset(("gate_up_proj",))
"""What models of Transformers call their linear layers (models/*/modeling_*.py); a name that stands for several kinds
of layers (`dense`, `c_proj`) is left out.
"""


def adapter_parameters(plan: Plan, rank: int, targets: tuple[Plain, ...]) -> int | None:
    """Parameters of rank-`rank` adapters on the layers of these names; None where a name or the shape is unknown, or
    experts have layers of their own.
    """
    layers, hidden, width = plan.integer("model.layers"), plan.integer("model.hidden"), plan.integer("model.ffn")
    if layers is None or hidden is None or width is None or plan.integer("model.experts"):
        return None
    if targets == ("all-linear",):
        return lora_parameters(plan, rank)
    sides = _sides(plan, hidden, width)
    found = [sides.get(str(name)) for name in dict.fromkeys(targets)]
    known = [side for side in found if side is not None]
    return layers * rank * sum(known) if known and len(known) == len(found) else None


def _sides(plan: Plan, hidden: int, width: int) -> dict[str, int]:
    """Inputs and outputs of the linear layers of a block, by name."""
    heads = plan.integer("model.heads") or 1
    head = plan.integer("model.head_dim") or hidden // heads
    queries, groups = heads * head, (plan.integer("model.kv_heads") or heads) * head
    return {
        **dict.fromkeys((*_QUERIES, *_OUTPUTS), hidden + queries),
        **dict.fromkeys(_GROUPS, hidden + groups),
        **dict.fromkeys(_FUSED, hidden + queries + 2 * groups),
        **dict.fromkeys(_WIDE, hidden + width),
        **dict.fromkeys(_GATED, hidden + 2 * width),
    }


def _feed_forward_parameters(plan: Plan, layers: int, hidden: int) -> int | None:
    matrices = 3 if plan.flag("model.gated_mlp") else 2
    experts = plan.integer("model.experts") or 0
    width = plan.integer("model.ffn")
    if not experts:
        return layers * matrices * hidden * width if width is not None else None
    expert_width = plan.integer("model.expert_ffn") or width
    if expert_width is None:
        return None
    moe_layers = min(layers, plan.integer("model.moe_layers") or layers)
    shared = plan.integer("model.shared_expert_ffn") or 0
    per_layer = matrices * hidden * (experts * expert_width + shared) + hidden * experts
    return moe_layers * per_layer + (layers - moe_layers) * matrices * hidden * (width or expert_width)
