"""Time of one optimizer step on the slowest rank, as named parts: compute, what communication stays exposed, the
bubble, the optimizer."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from dtlint.cost import constants
from dtlint.cost.activations import tokens_per_rank
from dtlint.cost.communication import (
    all_reduce_seconds,
    all_to_all_seconds,
    gather_seconds,
    group_of,
    transfer_seconds,
)
from dtlint.cost.compute import NOTHING, Passes, Rates, head, layer, rates, recomputed
from dtlint.cost.data_parallel import data_seconds
from dtlint.cost.figures import Batch, Job, Schedule, Sharding
from dtlint.cost.memory import stage_bytes
from dtlint.cost.pipeline import work_per_microbatch
from dtlint.cost.stages import Held, Stage, expert_replicas, held, stages, trained
from dtlint.cost.traffic import trading_axis
from dtlint.record import NamedTuple


class Step(NamedTuple):
    """Seconds of one optimizer step: exposed ones by part, and communication that runs beside compute (`hidden`, by
    axis). `reference` are the forward passes of models that answer and do not train."""

    compute: float
    reference: float
    tensor: float
    context: float
    expert: float
    transfer: float
    bubble: float
    data: float
    optimizer: float
    offload: float
    hidden: Mapping[str, float]

    @property
    def total(self) -> float:
        """All exposed parts."""
        return sum(self[:-1])


class Work(NamedTuple):
    """One micro-batch on one stage: compute, and exposed communication per axis; `hidden` communication by axis."""

    compute: Passes
    tensor: Passes
    context: Passes
    expert: Passes
    transfer: float
    hidden_tensor: float
    hidden_context: float

    @property
    def waiting(self) -> Passes:
        """The passes beside which gradients and parameters travel."""
        return self.compute.plus(self.tensor).plus(self.expert)

    @property
    def forward(self) -> float:
        """A forward pass with what it waits for on the stage itself."""
        return self.compute.forward + self.tensor.forward + self.context.forward + self.expert.forward

    @property
    def seconds(self) -> float:
        """Forward and backward pass with what they wait for."""
        return sum(self.compute) + sum(self.tensor) + sum(self.context) + sum(self.expert) + self.transfer


def step(job: Job) -> Step:
    """One optimizer step: micro-batches at the pace of the slowest stage, the bubble, gradients and parameters over
    data parallelism."""
    worked = worked_stages(job)
    slowest, work = max(worked, key=lambda item: item[1].seconds)
    count = job.batch.microbatches
    params = held(job, slowest)
    data, hidden_data = data_seconds(job, params, work.waiting)
    idle = (job.layout.pipeline - 1) / work_per_microbatch(job.schedule.kind, job.layout.chunks)
    optimizer, offload = _optimizer(job, params)
    offload += count * _activation_offload(job, slowest, work.compute)
    hidden = {"tensor": work.hidden_tensor * count, "context": work.hidden_context * count, "data": hidden_data}
    return Step(
        sum(work.compute) * count,
        job.shape.references * work.forward * count,
        sum(work.tensor) * count,
        sum(work.context) * count,
        sum(work.expert) * count,
        work.transfer * count,
        idle * mean_seconds(job, worked),
        data,
        optimizer,
        offload,
        {axis: seconds for axis, seconds in hidden.items() if seconds > 0},
    )


def mean_seconds(job: Job, worked: list[tuple[Stage, Work]]) -> float:
    """Mean time of a stage: the pipeline fills at the pace of each, not of the slowest; what is between stands for the
    inner stages."""
    if len(worked) < 3:
        return sum(work.seconds for _, work in worked) / len(worked)
    first, middle, last = (work.seconds for _, work in worked)
    return (first + last + middle * (job.layout.pipeline - 2)) / job.layout.pipeline


def worked_stages(job: Job) -> list[tuple[Stage, Work]]:
    """The stages that can be the most loaded, each with one micro-batch's work."""
    computed = computing(job)
    return [(stage, stage_work(job, stage, computed)) for stage in stages(job)]


def stage_work(job: Job, stage: Stage, computed: Job) -> Work:
    """One micro-batch on a stage; `computed` is the job as `computing` gives it."""
    compute = NOTHING
    for expert, count in ((False, stage.dense), (True, stage.expert)):
        if count:
            once, again = layer_work(computed, expert)
            again *= _recomputed_share(job, stage)
            again += min(_restoring(job), constants.RESTORE_MOST * again)
            compute = compute.plus(Passes(once.forward, once.backward + again).times(count))
    if stage.head:
        compute = compute.plus(head_work(computed))
    tensor, hidden_tensor = _tensor(job, stage)
    context, hidden_context = _context(job, stage, compute)
    return Work(compute, tensor, context, _expert(job, stage), _transfer(job), hidden_tensor, hidden_context)


def computing(job: Job) -> Job:
    """The job with one value for all that the compute of a layer does not hang on: what differs in overlaps, sharding
    or micro-batches only is worked out once."""
    schedule = Schedule("", job.schedule.recompute, None, False, False, False, False, job.schedule.flash, "")
    return job._replace(sharding=_UNSHARDED, batch=Batch(job.batch.micro, 1), schedule=schedule)


_UNSHARDED = Sharding(0, 1, True, True, False, False, 0.0)


@lru_cache(maxsize=1024)
def layer_work(job: Job, expert: bool) -> tuple[Passes, float]:
    """Passes of one layer on one micro-batch, and seconds that its backward pass recomputes."""
    rate = job_rates(job)
    once = layer(job, expert, rate)
    return once, recomputed(job, expert, rate, once.forward)


@lru_cache(maxsize=1024)
def head_work(job: Job) -> Passes:
    """Passes of the output head and the loss on one micro-batch."""
    return head(job, job_rates(job))


def job_rates(job: Job) -> Rates:
    """The rates of the job's GPU."""
    return rates(job.machine, job.precision.compute, job.style == "megatron")


def _restoring(job: Job) -> float:
    """Seconds that recomputing a layer takes beside the work: DeepSpeed's own checkpointing waits more than PyTorch's,
    which Hugging Face models use under DeepSpeed too. Megatron-DeepSpeed uses DeepSpeed's where DeepSpeed's engine
    runs, which sharded states tell."""
    engine = job.framework == "gpt-neox" or (job.framework == "megatron-deepspeed" and job.sharding.stage > 0)
    return constants.RESTORE_SECONDS_DEEPSPEED if engine else constants.RESTORE_SECONDS


def _recomputed_share(job: Job, stage: Stage) -> float:
    chosen = job.schedule.recomputed_layers
    return 1.0 if chosen is None or not stage.layers else min(1.0, chosen / stage.layers)


def _tensor(job: Job, stage: Stage) -> tuple[Passes, float]:
    """Four all-reduces of 2*b*s*h bytes a layer (with sequence parallelism as many bytes in all-gathers and
    reduce-scatters), two more when the forward pass is recomputed. Megatron's layers hide the backward ones beside
    weight gradients (tensor_parallel/layers.py), DTensor's do not; user buffers or async TP hide the others too."""
    layout = job.layout
    if layout.tensor == 1:
        return NOTHING, 0.0
    group = group_of(layout, job.machine, "tensor")
    size = 2 * tokens_per_rank(job) * job.shape.hidden
    once = 2 * gather_seconds(size, group) if layout.sequence_parallel else all_reduce_seconds(size, group)
    pairs = 2 * stage.dense + (1 if layout.expert_tensor == 1 else 2) * stage.expert
    again = _recomputed_share(job, stage) if job.schedule.recompute == "full" else 0.0
    shown = 1 - constants.TENSOR_OVERLAP if job.schedule.overlap_tensor else 1.0
    beside = shown * (1 - constants.BACKWARD_OVERLAP if job.style in ("megatron", "deepspeed") else 1.0)
    forward = pairs * once
    exposed = Passes(forward * shown, forward * (beside + again * shown))
    edges = once * (int(stage.embedding) / 2 + int(stage.head) / 2)
    return exposed.plus(Passes(edges, edges)), forward * (2 + again) - sum(exposed)


def _context(job: Job, stage: Stage, compute: Passes) -> tuple[Passes, float]:
    """Ring attention passes the keys and values of the other ranks around, twice as much backward, beside attention;
    Ulysses, and context parallelism that exchanges as it does, trade heads for sequence in four all-to-alls each way,
    which nothing hides."""
    layout, shape = job.layout, job.shape
    tokens = tokens_per_rank(job)
    trading = trading_axis(job)
    if trading:
        group = group_of(layout, job.machine, trading)
        size = 2 * tokens * shape.head_dim * (2 * shape.heads + 2 * shape.kv_heads) / layout.tensor
        once = all_to_all_seconds(size, group) * stage.layers
        return Passes(once, once), 0.0
    if layout.context == 1:
        return NOTHING, 0.0
    group = group_of(layout, job.machine, "context")
    block = 2 * tokens * 2 * shape.kv_heads * shape.head_dim / layout.tensor
    once = (layout.context - 1) * transfer_seconds(block, group) * stage.layers
    beside = constants.CONTEXT_OVERLAP
    shown = Passes(max(0.0, once - beside * compute.forward), max(0.0, 2 * once - beside * compute.backward))
    return shown, 3 * once - sum(shown)


def _expert(job: Job, stage: Stage) -> Passes:
    """Dispatch and return of tokens, 2 bytes x hidden x top-k each, forward and again backward; the all-gather
    dispatcher sends every token to every rank of the group."""
    layout, shape = job.layout, job.shape
    if layout.expert == 1 or not stage.expert:
        return NOTHING
    group = group_of(layout, job.machine, "expert")
    tokens = tokens_per_rank(job) / (layout.tensor if layout.sequence_parallel else 1)
    if job.schedule.dispatcher == "allgather":
        once = 2 * gather_seconds(2 * tokens * shape.hidden * layout.expert, group)
    else:
        copies = min(shape.experts_per_token, group.nodes) if group.nodes > 1 else shape.experts_per_token
        once = 2 * all_to_all_seconds(2 * tokens * shape.hidden * copies, group)
    shown = once * stage.expert * constants.EXPERT_EXPOSED
    return Passes(shown, shown)


def _transfer(job: Job) -> float:
    """Activations to the next stage and their gradients back: 2*b*s*h bytes each for every chunk; each tensor-parallel
    rank sends its part (Megatron's scatter-gather, DeepSpeed's partitioned pipeline activations)."""
    layout = job.layout
    if layout.pipeline == 1 or job.schedule.overlap_pipeline:
        return 0.0
    size = 2 * tokens_per_rank(job) * job.shape.hidden / layout.tensor
    return 2 * layout.chunks * transfer_seconds(size, group_of(layout, job.machine, "pipeline"))


def _activation_offload(job: Job, stage: Stage, compute: Passes) -> float:
    """What offloaded activations of one micro-batch take beyond the passes beside which they travel to the host and
    back."""
    if not job.schedule.offload:
        return 0.0
    seconds = stage_bytes(job, stage) * tokens_per_rank(job) / constants.HOST_LINK_RATE
    return max(0.0, seconds - compute.forward) + max(0.0, seconds - compute.backward)


def _optimizer(job: Job, params: Held) -> tuple[float, float]:
    """(on the GPU, with offload) seconds of the optimizer's step: every state of the own shard is read and written
    once."""
    sharding, precision = job.sharding, job.precision
    ranks = sharding.group if sharding.stage else 1
    updated = trained(job, params)
    own = updated.dense / ranks + updated.expert / min(ranks, expert_replicas(job.layout))
    moved = own * (2 * (precision.master + precision.moments) + precision.gradient + precision.weight)
    if not sharding.offload_optimizer:
        return moved / rates(job.machine, precision.compute).memory, 0.0
    on_host = moved * job.machine.per_node / constants.HOST_MEMORY_RATE
    return 0.0, on_host + own * (precision.gradient + precision.weight) / constants.HOST_LINK_RATE
