"""What each pipeline stage holds: its layers, the embedding, the output head, and how many parameters of them one rank
has."""

from __future__ import annotations

from functools import lru_cache

from dtlint.cost.figures import Job, Layout, Shape
from dtlint.record import NamedTuple


class Stage(NamedTuple):
    """The layers of one pipeline stage (`dense` and `expert` ones), and whether it holds the embedding or the output
    head."""

    position: int
    dense: int
    expert: int
    embedding: bool
    head: bool

    @property
    def layers(self) -> int:
        """Layers in all."""
        return self.dense + self.expert


class Held(NamedTuple):
    """Parameters that one rank of a stage holds: `dense` ones replicated over data parallelism, `expert` ones over
    fewer ranks."""

    dense: float
    expert: float

    @property
    def total(self) -> float:
        """Parameters in all."""
        return self.dense + self.expert


def stages(job: Job) -> tuple[Stage, ...]:
    """The stages that can be the most loaded: the first, one in the middle, the last."""
    return _stages(job.shape, job.layout)


def every_stage(job: Job) -> tuple[Stage, ...]:
    """All stages in their order."""
    counts = stage_layers(job.shape, job.layout)
    return tuple(_stage(job.shape, counts, index) for index in range(len(counts)))


@lru_cache(maxsize=1024)
def _stages(shape: Shape, layout: Layout) -> tuple[Stage, ...]:
    counts = stage_layers(shape, layout)
    last = len(counts) - 1
    middle = max(range(1, last), key=counts.__getitem__) if last > 1 else 0
    chosen = sorted({0, middle, last})
    return tuple(_stage(shape, counts, index) for index in chosen)


def stage_layers(shape: Shape, layout: Layout) -> tuple[int, ...]:
    """Layers of each stage: as stated; evenly; or, where only layers + 2 divide, one less where the embedding and the
    head lie."""
    count, cells = layout.pipeline, layout.pipeline * layout.chunks
    if len(layout.stage_layers) == count:
        return layout.stage_layers
    if shape.layers % cells and (shape.layers + 2) % cells == 0 and count > 1:
        each = (shape.layers + 2) // count
        return (each - 1, *[each] * (count - 2), each - 1)
    each, more = divmod(shape.layers, count)
    return (
        tuple(each + (1 if 0 < index <= more else 0) for index in range(count))
        if count > 1 and more < count - 1
        else _front_loaded(each, more, count)
    )


def _front_loaded(each: int, more: int, count: int) -> tuple[int, ...]:
    return tuple(each + (1 if index < more else 0) for index in range(count))


def _stage(shape: Shape, counts: tuple[int, ...], index: int) -> Stage:
    """Dense layers of a model with experts come first."""
    before, own = sum(counts[:index]), counts[index]
    dense = max(0, min(own, shape.layers - shape.moe_layers - before))
    return Stage(index, dense, own - dense, index == 0, index == len(counts) - 1)


def attention_parameters(shape: Shape) -> float:
    """Weights of one attention block: h*d*(A+2K) + A*d*h; for latent attention the down and up projections of its
    ranks (DeepSeek-V2)."""
    latent = shape.latent
    if latent is None:
        return shape.hidden * shape.head_dim * (2 * shape.heads + 2 * shape.kv_heads)
    width = latent.nope + latent.rope
    query = latent.query * (shape.hidden + shape.heads * width) if latent.query else shape.hidden * shape.heads * width
    keys = shape.hidden * (latent.key_value + latent.rope) + latent.key_value * shape.heads * (
        latent.nope + latent.value
    )
    return query + keys + shape.heads * latent.value * shape.hidden


def feed_forward_parameters(shape: Shape, width: int) -> float:
    """Weights of one feed-forward block: 2hF, or 3hF with a gate."""
    return (3 if shape.gated else 2) * shape.hidden * width


def parameters(shape: Shape) -> float:
    """Parameters of the whole model."""
    return _all_dense(shape) + shape.moe_layers * shape.experts * feed_forward_parameters(shape, shape.expert_ffn)


def active_parameters(shape: Shape) -> float:
    """Parameters that one token visits, without the input embedding: what 6N counts."""
    routed = shape.moe_layers * shape.experts_per_token * feed_forward_parameters(shape, shape.expert_ffn)
    embedding = 0 if shape.tied else shape.vocab * shape.hidden
    return _all_dense(shape) + routed - embedding


def _all_dense(shape: Shape) -> float:
    moe = shape.moe_layers
    shared = moe * (feed_forward_parameters(shape, shape.shared_ffn) + shape.hidden * shape.experts)
    plain = (shape.layers - moe) * feed_forward_parameters(shape, shape.ffn)
    embeddings = shape.vocab * shape.hidden * (1 if shape.tied else 2)
    return shape.layers * (attention_parameters(shape) + 2 * shape.hidden) + plain + shared + embeddings


def layer_parameters(shape: Shape, layout: Layout, expert: bool) -> Held:
    """Parameters of one layer on one rank; experts divide by EP x ETP, norms not at all."""
    norms = 2 * shape.hidden
    attention = attention_parameters(shape) / layout.tensor
    if not expert:
        return Held(attention + norms + feed_forward_parameters(shape, shape.ffn) / layout.tensor, 0.0)
    shared = feed_forward_parameters(shape, shape.shared_ffn) / layout.tensor
    routed = shape.experts * feed_forward_parameters(shape, shape.expert_ffn) / (layout.expert * layout.expert_tensor)
    return Held(attention + norms + shared + shape.hidden * shape.experts, routed)


def embedding_parameters(shape: Shape, layout: Layout) -> float:
    """Parameters of one embedding matrix on one rank, the vocabulary padded as Megatron pads it (to 128 x TP)."""
    multiple = 128 * layout.tensor
    return -(-shape.vocab // multiple) * 128 * shape.hidden


def held(job: Job, stage: Stage) -> Held:
    """Parameters that one rank of the stage holds; tied embeddings are held on the first and on the last stage."""
    return _held(job.shape, job.layout, stage)


@lru_cache(maxsize=1024)
def _held(shape: Shape, layout: Layout, stage: Stage) -> Held:
    plain, moe = (
        layer_parameters(shape, layout, False),
        layer_parameters(shape, layout, True) if stage.expert else Held(0.0, 0.0),
    )
    matrices = int(stage.embedding) + int(stage.head)
    if shape.tied and layout.pipeline == 1:
        matrices = 1
    dense = stage.dense * plain.dense + stage.expert * moe.dense + matrices * embedding_parameters(shape, layout)
    return Held(dense, stage.expert * moe.expert)


def expert_replicas(layout: Layout) -> int:
    """Ranks that hold the same experts: world / (EP x ETP x PP)."""
    return max(1, layout.world // (layout.expert * layout.expert_tensor * layout.pipeline))


def trained(job: Job, params: Held) -> Held:
    """The parameters of those held that get gradients: all, or the share of the adapters."""
    trainable = job.shape.trainable
    return params if trainable is None else Held(trainable / (job.layout.pipeline * job.layout.tensor), 0.0)


def gathered_bytes(job: Job, params: Held) -> float:
    """Weights as they travel: those that train in the format of the products, a frozen model beside its adapters as it
    is stored where that is less (one of 4 bits travels packed, in its quant_storage: bitsandbytes 0.43, QLoRA).
    """
    width = 4.0 if job.precision.compute == "fp32" else 2.0
    if job.shape.trainable is None:
        return width * params.total
    return width * trained(job, params).total + min(width, job.precision.frozen) * params.total


def gathering_rounds(job: Job) -> int:
    """How often a step gathers sharded parameters and scatters gradients: for every micro-batch, but once where FSDP
    keeps the parameters of a pipeline's stage for the whole flush (torch distributed/pipelining/stage.py,
    backward_maybe_with_nosync).
    """
    whole_flush = job.style == "fsdp" and job.layout.pipeline > 1 and not job.sharding.reshard
    return 1 if whole_flush else job.batch.microbatches
