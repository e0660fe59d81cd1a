"""How many collectives buckets of gradients make: a bucket joins small tensors, and no framework cuts a large one."""

from __future__ import annotations

from collections.abc import Iterator

from dtlint.cost.figures import Layout, Shape
from dtlint.cost.job import Job
from dtlint.cost.stages import embedding_parameters, stages
from dtlint.record import NamedTuple

_NORMS = 2
"""Vectors of a layer with a gate, and without biases: its norms (Llama)."""
_BIASED = 10
"""Vectors of a layer without a gate: two norms with a bias each, and biases of six matrices (BERT, GPT-2)."""


class Tensors(NamedTuple):
    """Parameters of one size: the elements of each, and how many there are."""

    elements: float
    many: int


def collectives(job: Job, elements: float) -> float:
    """Reductions of the gradients of one backward pass, in buckets of so many elements, on the stage that has most.

    A tensor that does not fit beside those that wait sends these off, and one that is larger than the bucket is reduced
    alone, as a whole (DeepSpeed runtime/zero/stage_1_and_2.py, reduce_independent_p_g_buckets_and_remove_grads, and
    stage3.py; torch reducer.cpp, compute_bucket_assignment_by_size; Megatron-Core param_and_grad_buffer.py).
    """
    shape, layout = job.shape, job.layout
    return max(
        sum(each.many * min(1.0, each.elements / elements) for each in found)
        for found in (
            (
                *_of_layers(_attention(shape, layout), stage.dense + stage.expert),
                *_of_layers(_dense(shape, layout), stage.dense),
                *_of_layers(_experts(shape, layout), stage.expert),
                Tensors(embedding_parameters(shape, layout), _embeddings(job, stage.embedding, stage.head)),
            )
            for stage in stages(job)
        )
    )


def _embeddings(job: Job, first: bool, last: bool) -> int:
    return 1 if job.shape.tied and job.layout.pipeline == 1 else int(first) + int(last)


def _of_layers(tensors: Iterator[Tensors], layers: int) -> Iterator[Tensors]:
    return (each._replace(many=each.many * layers) for each in tensors)


def _attention(shape: Shape, layout: Layout) -> Iterator[Tensors]:
    """Query and output, keys and values, and the vectors of a layer."""
    width = shape.hidden * shape.head_dim / layout.tensor
    yield Tensors(width * shape.heads, 2)
    yield Tensors(width * shape.kv_heads, 2)
    yield Tensors(shape.hidden, _NORMS if shape.gated else _BIASED)


def _dense(shape: Shape, layout: Layout) -> Iterator[Tensors]:
    yield Tensors(shape.hidden * shape.ffn / layout.tensor, _matrices(shape))


def _experts(shape: Shape, layout: Layout) -> Iterator[Tensors]:
    """The experts of one rank, those that all share, and the router."""
    own = max(1, shape.experts // layout.expert)
    yield Tensors(shape.hidden * shape.expert_ffn / layout.expert_tensor, own * _matrices(shape))
    yield Tensors(shape.hidden * shape.shared_ffn / layout.tensor, _matrices(shape) if shape.shared_ffn else 0)
    yield Tensors(shape.hidden * shape.experts, 1)


def _matrices(shape: Shape) -> int:
    return 3 if shape.gated else 2
