"""Memory of one GPU on the most loaded rank, as named parts, in bytes."""

from __future__ import annotations

from collections.abc import Mapping

from dtlint.cost import constants
from dtlint.cost.activations import in_flight, kept_bytes, layer_bytes, tokens_per_rank
from dtlint.cost.figures import Job
from dtlint.cost.job import Bound
from dtlint.cost.stages import (
    Held,
    Stage,
    embedding_parameters,
    expert_replicas,
    feed_forward_parameters,
    held,
    layer_parameters,
    stages,
    trained,
)
from dtlint.cost.states import StateBytes, offloads_gradients, state_bytes
from dtlint.record import NamedTuple

HALF_PRECISION = 2.0
"""Bytes of a weight in the second copy of ZeRO++ (hpZ)."""


class Memory(NamedTuple):
    """What one GPU holds at the peak. `peak_bytes` is allocated by tensors, `reserved_bytes` by the allocator,
    `device_bytes` as nvidia-smi shows it; `available_bytes` is all that the GPU has. `states_bytes` are weights,
    gradients and optimizer; `weights_only_bytes` the view that counts 2 bytes per parameter and nothing else."""

    parts: Mapping[str, float]
    peak_bytes: float
    reserved_bytes: float
    device_bytes: float
    available_bytes: float
    states_bytes: float
    weights_only_bytes: float
    host_bytes: float


def memory(job: Job, bound: Bound = "typical") -> Memory:
    """The memory of the stage that needs most; `bound` chooses among what implementations leave open (loss, allocator,
    context)."""
    return max((stage_memory(job, stage, bound) for stage in stages(job)), key=lambda found: found.peak_bytes)


def stage_memory(job: Job, stage: Stage, bound: Bound) -> Memory:
    """The memory of one rank of a stage: states and buffers all the time, then activations with the loss, or the
    optimizer's step."""
    params = held(job, stage)
    resident, transient, host = _states(job, stage, params, bound)
    gathered, buffers = _gathered(job, stage, params), _buffers(job, params)
    reference, idle = _reference(job, params, bound)
    activations, moved = _activations(job, stage)
    working, logits = _working(job, stage), _logits(job, stage, bound)
    passing = activations + max(working, logits)
    parts = {
        **resident,
        "reference": reference,
        "gathered": gathered,
        "buckets": buffers,
        "activations": activations,
        "working": working if working >= logits else 0.0,
        "logits": logits if logits > working else 0.0,
        "step": max(0.0, transient - passing - gathered),
    }
    peak = sum(parts.values())
    reserved = peak * getattr(constants.FRAGMENTATION, bound)
    if bound != "optimistic":  # blocks that activations leave do not fit the flat arrays of the step
        reserved += min(transient, passing)
    overhead = getattr(constants.CONTEXT_BYTES, bound) + getattr(constants.NETWORK_BUFFER_BYTES, bound) * _groups(job)
    weights = 2 * params.total / (_dense_ranks(job) if job.sharding.stage >= 3 else 1)
    return Memory(
        parts,
        peak,
        reserved,
        reserved + overhead,
        job.machine.memory_bytes,
        sum(resident.values()),
        weights,
        host + moved + idle,
    )


def _groups(job: Job) -> int:
    """Communicators of a process: one for all ranks, one for each axis that is split."""
    layout = job.layout
    axes = (layout.data, layout.tensor, layout.pipeline, layout.context, layout.ulysses, layout.expert)
    return int(layout.world > 1) + sum(size > 1 for size in axes)


def _states(job: Job, stage: Stage, params: Held, bound: Bound) -> tuple[dict[str, float], float, float]:
    """Resident bytes by name, bytes that exist only in the optimizer's step, and bytes on the host for this rank."""
    dense = _bytes_of(job, _dense_ranks(job), bound)
    ranks = min(expert_replicas(job.layout), _dense_ranks(job) * job.layout.tensor)
    expert = _bytes_of(job, ranks, bound) if params.expert else dense
    own = trained(job, params)
    weights = dense.weights * own.dense + expert.weights * own.expert
    if job.shape.trainable is not None:
        weights += _frozen_bytes(job, params)
    if job.sharding.copy:
        weights += HALF_PRECISION * params.total / job.sharding.copy
    gradients = dense.gradients * own.dense + expert.gradients * own.expert
    if not job.precision.keeps_gradients:
        gradients = min(gradients, _largest_gradient(job, stage))
    optimizer = dense.optimizer * own.dense + expert.optimizer * own.expert
    transient = dense.transient * own.dense + expert.transient * own.expert
    host = 0.0
    if job.sharding.offload_optimizer:
        host, optimizer, transient = host + optimizer, 0.0, 0.0
    if job.sharding.offload_optimizer and offloads_gradients(job.style, job.sharding.stage):
        host, gradients = host + gradients, 0.0
    if job.sharding.offload_parameters:
        host, weights = host + weights, 0.0
    return {"weights": weights, "gradients": gradients, "optimizer": optimizer}, transient, host


def _largest_gradient(job: Job, stage: Stage) -> float:
    """The gradients that wait where each is applied as soon as it is there: those of the embedding or of one layer."""
    matrices = embedding_parameters(job.shape, job.layout) * int(stage.embedding or stage.head)
    layer = layer_parameters(job.shape, job.layout, stage.expert > 0).total
    return job.precision.gradient * max(layer, matrices)


def _bytes_of(job: Job, ranks: int, bound: Bound) -> StateBytes:
    copy = getattr(constants.STEP_COPY_BYTES, bound)
    return state_bytes(job.style, job.precision, job.sharding.stage, max(1, ranks), copy)


def _dense_ranks(job: Job) -> int:
    return job.sharding.group


def _frozen_bytes(job: Job, frozen: Held) -> float:
    """A frozen model is shared out at stage 3 only."""
    return job.precision.frozen * frozen.total / (_dense_ranks(job) if job.sharding.stage >= 3 else 1)


def _reference(job: Job, params: Held, bound: Bound) -> tuple[float, float]:
    """Bytes on the GPU and on the host of the whole models that answer and do not train.

    Under ZeRO-3 the ranks share them out, and offload them, as they do the weights; below it each has a whole one
    (prepare_deepspeed of trl 0.24.0 models/utils.py, which LLaMA-Factory 0.9.5 and ms-swift 4.6.0 call;
    get_ds_eval_config of OpenRLHF). Under FSDP's full shard releases differ: prepare_model(evaluation_mode=True) leaves
    it whole (trl 0.15.2, LLaMA-Factory 0.9.4, and KTO of trl 1.0.0), prepare_fsdp shares it out (trl 0.16.1,
    LLaMA-Factory 0.9.5). It stays in the format in which it is loaded, the model that trains may be raised to fp32.
    """
    if not job.shape.references:
        return 0.0, 0.0
    ranks = _dense_ranks(job) if _shares_reference(job, bound) else 1
    formats = job.precision.frozen, job.precision.weight
    each = {"optimistic": min(formats), "typical": job.precision.frozen, "pessimistic": max(formats)}[bound]
    size = job.shape.references * each * params.total / ranks
    away = job.sharding.offload_parameters and _shares_reference(job, bound)
    return (0.0, size) if away else (size, 0.0)


def _shares_reference(job: Job, bound: Bound) -> bool:
    return job.sharding.stage >= 3 and (job.style == "deepspeed" or bound != "pessimistic")


def _gathered(job: Job, stage: Stage, params: Held) -> float:
    """Whole weights that FSDP or ZeRO-3 gathers: two units (one in use, one on its way) and the root unit, and the
    unreduced gradients of one.

    ZeRO-3 bounds what is live with its own buckets (zero/stage3.py: 1e9 parameters live at most, 5e7 prefetched).
    """
    stage_kept = job.sharding.stage
    width = 4.0 if job.precision.compute == "fp32" else 2.0
    if stage_kept == 3 and (job.style != "deepspeed" and not job.sharding.wrapped):
        return (width + job.precision.gradient) * params.total
    if stage_kept == 3 and job.style == "deepspeed":
        largest = max(
            feed_forward_parameters(job.shape, job.shape.ffn) / (3 if job.shape.gated else 2),
            constants.DEEPSPEED_LIVE_PARAMETERS,
        )
        return width * min(largest / job.layout.tensor, params.total)
    if stage_kept == 3:
        unit = layer_parameters(job.shape, job.layout, stage.expert > 0).total
        root = embedding_parameters(job.shape, job.layout) * (int(stage.embedding) + int(stage.head))
        return width * (2 * unit + root) + (width + job.precision.reduce) * max(unit, root / 2)
    if stage_kept == 2 and job.style == "fsdp":
        return width * params.total
    return 0.0


def _buffers(job: Job, params: Held) -> float:
    """Communication buffers: DeepSpeed's reduce and gather buckets, DDP's copy of the gradients."""
    if job.shape.trainable is not None:
        return 0.0
    if job.style == "ddp" and job.sharding.stage == 0:
        return job.precision.gradient * params.total if job.layout.data > 1 else 0.0
    if job.style != "deepspeed" or job.sharding.stage == 0:
        return 0.0
    bucket = job.sharding.bucket_bytes or constants.DEEPSPEED_BUCKET_BYTES
    bucket = min(bucket, 2 * params.total)
    return bucket * (3 if job.schedule.overlap_gradients else 2)


def _activations(job: Job, stage: Stage) -> tuple[float, float]:
    """Bytes on the GPU and on the host that the forward passes in flight keep; DeepSpeed's pipeline keeps the stage's
    outputs too (runtime/pipe/engine.py). Offloaded, two layers' stay: one in use, one on its way (torchtune
    _activation_offloading.py)."""
    layout, schedule = job.layout, job.schedule
    flying = in_flight(schedule.kind, stage.position, layout.pipeline, job.batch.microbatches, layout.chunks)
    outputs = 2 * job.shape.hidden if layout.pipeline > 1 and job.style == "deepspeed" else 0.0
    each = stage_bytes(job, stage) * tokens_per_rank(job)
    moved = each * max(0.0, flying - 2 / max(1, stage.layers)) if schedule.offload else 0.0
    return flying * (each + outputs * tokens_per_rank(job)) - moved, moved


def stage_bytes(job: Job, stage: Stage) -> float:
    """Bytes per token that the layers of a stage keep; of some layers only where recomputation leaves others out."""
    schedule = job.schedule
    each = stage.dense * kept_bytes(job, False) if stage.dense else 0.0
    each += stage.expert * kept_bytes(job, True) if stage.expert else 0.0
    chosen = schedule.recomputed_layers
    if chosen is None or schedule.recompute != "full" or stage.layers <= chosen:
        return each
    expert = stage.expert > 0
    return each + (stage.layers - chosen) * (layer_bytes(job, expert) - kept_bytes(job, expert))


def _working(job: Job, stage: Stage) -> float:
    """What one layer needs while its backward pass runs: its recomputed activations and those of the layers that are
    recomputed with it, and gradients of its widest arrays."""
    shape = job.shape
    width = shape.experts_per_token * shape.expert_ffn + shape.shared_ffn if stage.expert else shape.ffn
    gradients = 2 * (2 if shape.gated else 1) * width / job.layout.tensor + 4 * shape.hidden
    recomputed = (
        layer_bytes(job._replace(schedule=job.schedule._replace(recompute="none")), stage.expert > 0)
        * min(job.schedule.recompute_unit, stage.layers)
        if job.schedule.recompute == "full"
        else 0.0
    )
    return (gradients + recomputed) * tokens_per_rank(job)


def _logits(job: Job, stage: Stage, bound: Bound) -> float:
    """Logits of the output head with the loss: 16-bit logits, their fp32 copy, softmax and gradient, as far as they
    live at once."""
    if not stage.head:
        return 0.0
    parallel = job.style == "megatron" or job.framework in ("megatron-deepspeed", "gpt-neox")
    spread = constants.LOGIT_BYTES_PARALLEL if parallel else constants.LOGIT_BYTES
    if job.shape.plain_loss and not parallel:
        spread = constants.LOGIT_BYTES_PLAIN
    if job.shape.fused_loss:
        spread = constants.LOGIT_BYTES_FUSED
    each: float = getattr(spread, bound)
    return tokens_per_rank(job) * job.shape.vocab / job.layout.tensor * each
