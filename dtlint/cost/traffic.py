"""How many bytes each GPU sends in one optimizer step, by axis of parallelism."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dtlint.cost.activations import tokens_per_rank
from dtlint.cost.communication import ring_all_reduce_bytes
from dtlint.cost.job import Job
from dtlint.cost.stages import Stage, gathered_bytes, gathering_rounds, held, stages, trained
from dtlint.cost.states import state_bytes

HALF_PRECISION = 2.0
"""Bytes of an activation, or of a gathered 16-bit weight."""


def sent_bytes(job: Job) -> Mapping[str, float]:
    """Bytes that a GPU of the busiest stage sends in one step, for each axis of more than one rank.

    Rings: an all-reduce sends 2(n-1)/n of its size, a gather or reduce-scatter half (nccl-tests PERFORMANCE.md).
    """
    sums = {axis: max(of(job, stage) for stage in stages(job)) for axis, of in _AXES.items()}
    return {axis: size for axis, size in sums.items() if size > 0}


def tensor_bytes(job: Job, stage: Stage) -> float:
    """Four all-reduces of 2*b*s*h bytes a layer and micro-batch, six where the forward pass is run again."""
    ranks = job.layout.tensor
    each = ring_all_reduce_bytes(HALF_PRECISION * tokens_per_rank(job) * job.shape.hidden, ranks)
    pairs = 2 * stage.dense + (1 if job.layout.expert_tensor == 1 else 2) * stage.expert
    passes = 3 if job.schedule.recompute == "full" else 2
    return pairs * passes * each * job.batch.microbatches


def trading_axis(job: Job) -> str:
    """The axis whose ranks trade heads for pieces of the sequence, "" where none do."""
    if job.layout.ulysses > 1:
        return "ulysses"
    return "context" if job.layout.context > 1 and job.schedule.context_exchange == "a2a" else ""


def context_bytes(job: Job, stage: Stage) -> float:
    """Keys and values once around the ring forward, with their gradients twice as much backward."""
    shape, ranks = job.shape, job.layout.context
    if trading_axis(job) == "context":
        return _traded_bytes(job, stage, ranks)
    block = HALF_PRECISION * tokens_per_rank(job) * 2 * shape.kv_heads * shape.head_dim / job.layout.tensor
    return 3 * (ranks - 1) * block * stage.layers * job.batch.microbatches


def ulysses_bytes(job: Job, stage: Stage) -> float:
    """Queries, keys, values and outputs change places in an all-to-all each, forward and backward."""
    return _traded_bytes(job, stage, job.layout.ulysses)


def _traded_bytes(job: Job, stage: Stage, ranks: int) -> float:
    shape = job.shape
    size = HALF_PRECISION * tokens_per_rank(job) * shape.head_dim * (2 * shape.heads + 2 * shape.kv_heads)
    return 2 * size / job.layout.tensor * (ranks - 1) / ranks * stage.layers * job.batch.microbatches


def expert_bytes(job: Job, stage: Stage) -> float:
    """Tokens go to their experts and back, forward and backward; the all-gather dispatcher sends each to every rank."""
    layout, shape = job.layout, job.shape
    tokens = tokens_per_rank(job) / (layout.tensor if layout.sequence_parallel else 1)
    everywhere = job.schedule.dispatcher == "allgather"
    copies = layout.expert - 1 if everywhere else shape.experts_per_token * (layout.expert - 1) / layout.expert
    return 4 * HALF_PRECISION * tokens * shape.hidden * copies * stage.expert * job.batch.microbatches


def pipeline_bytes(job: Job, stage: Stage) -> float:
    """Activations to the next stage and gradients back, for every chunk; each tensor-parallel rank sends its part."""
    if job.layout.pipeline == 1:
        return 0.0
    size = HALF_PRECISION * tokens_per_rank(job) * job.shape.hidden / job.layout.tensor
    return 2 * job.layout.chunks * size * job.batch.microbatches


def data_bytes(job: Job, stage: Stage) -> float:
    """Gradients and gathered parameters over data parallelism, by what the sharding stage shares out.

    Stage 0 all-reduces gradients; 1 and 2 reduce-scatter them (DeepSpeed all-reduces) and gather parameters; 3 gathers
    parameters forward and backward and reduce-scatters gradients, in each round.
    """
    ranks = job.layout.data * job.layout.context * job.layout.ulysses
    whole, sharding = held(job, stage), job.sharding
    parameters = trained(job, whole).total
    if sharding.stage == 3:
        weights, near = gathered_bytes(job, whole), sharding.copy or sharding.group
        again = weights * (near - 1) / near if sharding.reshard else 0.0
        once = weights + job.precision.reduce * parameters
        return (once * (sharding.group - 1) / sharding.group + again) * gathering_rounds(job)
    width = state_bytes(job.style, job.precision, sharding.stage, 1).gradients if job.style == "megatron" else 0.0
    gradients = ring_all_reduce_bytes((width or job.precision.reduce) * parameters, ranks)
    if sharding.stage and job.style != "deepspeed":
        gradients /= 2
    rounds = job.batch.microbatches if sharding.stage == 2 and job.style in ("deepspeed", "fsdp") else 1
    gathered = HALF_PRECISION * parameters * (ranks - 1) / ranks if sharding.stage else 0.0
    return gradients * rounds + gathered


_AXES: Mapping[str, Callable[[Job, Stage], float]] = {
    "tensor": tensor_bytes,
    "context": context_bytes,
    "ulysses": ulysses_bytes,
    "expert": expert_bytes,
    "pipeline": pipeline_bytes,
    "data": data_bytes,
}
