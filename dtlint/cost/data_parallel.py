"""Data parallelism: how long a step waits for gradients and parameters of other replicas, and how much of it is
hidden."""

from __future__ import annotations

from dtlint.cost import constants
from dtlint.cost.communication import all_reduce_seconds, data_group, gather_seconds
from dtlint.cost.compute import Passes
from dtlint.cost.figures import Job
from dtlint.cost.stages import Held, expert_replicas, gathered_bytes, gathering_rounds, trained
from dtlint.cost.states import state_bytes


def data_seconds(job: Job, params: Held, passes: Passes) -> tuple[float, float]:
    """(exposed, hidden) seconds of gradients and parameters over data parallelism."""
    sharding = job.sharding
    if job.layout.data * job.layout.context * job.layout.ulysses == 1:
        return 0.0, 0.0
    if sharding.stage == 3:
        return _fully_sharded(job, params, passes)
    return _reduced(job, trained(job, params), passes)


def _fully_sharded(job: Job, params: Held, passes: Passes) -> tuple[float, float]:
    """FSDP and ZeRO-3: gather forward, gather backward, reduce-scatter, in each round; beside compute, unless overlap
    is off."""
    weights = gathered_bytes(job, params)
    group = data_group(job.layout, job.machine, job.sharding.group)
    pieces = job.shape.layers / job.layout.pipeline * (constants.MATRICES_OF_A_LAYER if job.style == "deepspeed" else 1)
    gather = gather_seconds(weights, group, pieces)
    scatter = gather_seconds(job.precision.reduce * trained(job, params).total, group, pieces)
    near = data_group(job.layout, job.machine, job.sharding.copy) if job.sharding.copy else group
    again = gather_seconds(weights, near, pieces) if job.sharding.reshard else 0.0
    forward, backward = gather, again + scatter
    rounds = gathering_rounds(job)
    if not job.schedule.overlap_parameters:
        return rounds * (forward + backward), 0.0
    if too_large_to_prefetch(job):
        shown = forward + backward - scatter + _beside(scatter, passes.backward)
    else:
        shown = _beside(forward, passes.forward) + _beside(backward, passes.backward)
    once = shown + forward / max(1, job.shape.layers)
    copies = replica_seconds(job, params)
    return rounds * once + copies, rounds * (forward + backward - shown)


def too_large_to_prefetch(job: Job) -> bool:
    """ZeRO-3 fetches ahead only what its prefetch bucket holds: a weight that is larger comes when it is needed
    (zero/partitioned_param_coordinator.py)."""
    largest = job.shape.hidden * job.shape.ffn / job.layout.tensor
    return job.style == "deepspeed" and largest > constants.DEEPSPEED_PREFETCH_PARAMETERS


def _beside(communication: float, compute: float) -> float:
    """What communication adds to the compute that it runs beside: what outlasts it, and the contention of what it
    hides."""
    return max(0.0, communication - compute) + constants.CONTENTION * min(communication, compute)


def replica_seconds(job: Job, params: Held) -> float:
    """Gradients of a shard summed over the shard groups (hybrid sharding), once a step."""
    copies = job.layout.data * job.layout.context * job.layout.ulysses // job.sharding.group
    if copies <= 1:
        return 0.0
    group = data_group(job.layout, job.machine, job.sharding.group * copies)._replace(
        ranks=copies, inside=1, nodes=copies
    )
    return all_reduce_seconds(job.precision.reduce * params.total / job.sharding.group, group)


def _reduced(job: Job, params: Held, passes: Passes) -> tuple[float, float]:
    """Stages 0 to 2: gradients once a step, at stage 2 for every micro-batch; parameters after the step where they are
    sharded (FSDP gathers them for every micro-batch)."""
    layout, sharding = job.layout, job.sharding
    group = data_group(layout, job.machine, layout.data * layout.context * layout.ulysses)
    width = state_bytes(job.style, job.precision, sharding.stage, 1).gradients
    reduce = _gradient_seconds(job, params, width if job.style == "megatron" else job.precision.reduce)
    rounds = job.batch.microbatches if sharding.stage == 2 and job.style in ("deepspeed", "fsdp") else 1
    gathers = rounds if job.style == "fsdp" else min(1, sharding.stage)
    gather = gathers * gather_seconds(2 * params.dense, group)
    shown = reduce * rounds
    if job.schedule.overlap_gradients:
        shown = rounds * _beside(reduce, passes.backward * constants.REDUCE_WINDOW)
    gathered = gather
    if job.schedule.overlap_parameters and job.style != "deepspeed":
        gathered = _beside(gather, gathers * passes.forward * constants.REDUCE_WINDOW)
    return shown + gathered, reduce * rounds - shown + gather - gathered


def _gradient_seconds(job: Job, params: Held, width: float) -> float:
    """Reducing gradients: all-reduce, or reduce-scatter where the optimizer is sharded (DeepSpeed's stage 1 and 2
    all-reduce all the same)."""
    layout = job.layout
    group = data_group(layout, job.machine, layout.data * layout.context * layout.ulysses)
    scatters = job.sharding.stage and job.style != "deepspeed"
    reduce = gather_seconds if scatters else all_reduce_seconds
    seconds = reduce(width * params.dense, group)
    if params.expert:
        replicas = expert_replicas(layout)
        apart = group._replace(
            ranks=replicas, inside=max(1, group.inside // layout.expert), nodes=min(replicas, group.nodes)
        )
        seconds += reduce(width * params.expert, apart)
    return seconds
