"""The numbers that a picture of a plan shows: where groups lie, memory by stage, the parts of a step, throughput."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from dtlint.cost import Estimate, Memory, Step, estimate, sizes
from dtlint.cost.assemble import layout_of
from dtlint.cost.communication import Group, axis_size, axis_stride, group_of, nodes_spanned
from dtlint.cost.job import BOUNDS, Completed
from dtlint.cost.memory import stage_memory
from dtlint.cost.pipeline import bubble
from dtlint.cost.stages import every_stage
from dtlint.cost.traffic import sent_bytes
from dtlint.facts.registry import first_unknown, missing
from dtlint.interval import Interval, hull, point, scale
from dtlint.record import NamedTuple
from dtlint.report.words import counted
from dtlint.value import Unknown, Value

if TYPE_CHECKING:
    from dtlint.cost.figures import Layout
    from dtlint.plan import Plan

Amount: TypeAlias = "Interval | Unknown"
"""A number with its bounds, or why it is not known."""

AXES: Mapping[str, str] = {
    "tensor": "TP",
    "context": "CP",
    "ulysses": "Ulysses",
    "expert": "EP",
    "pipeline": "PP",
    "data": "DP",
}
"""The axes that communicate by the names of the cost model, with those that people give them."""

LAYOUT = tuple(f"parallel.{axis}" for axis in AXES)
"""The settings that lay the ranks out."""


MOST_STAGES = 512
"""Stages up to which each is looked at; no pipeline of a real run has as many."""


class Axis(NamedTuple):
    """The groups of one axis: ranks `stride` apart, `inside` of them in one NVLink domain, over `domains` of them at
    worst.

    `sent` bytes leave each GPU in a step at `rate` bytes per second; the step waits `exposed` seconds for them,
    `hidden` ones pass beside compute.
    """

    axis: str
    ranks: int
    stride: int
    domains: int
    inside: int
    sent: Amount
    rate: Amount
    exposed: Amount
    hidden: Amount

    @property
    def name(self) -> str:
        """What people call it."""
        return AXES[self.axis]

    def members(self, rank: int) -> range:
        """The ranks of the group that `rank` is in."""
        first = rank - rank // self.stride % self.ranks * self.stride
        return range(first, first + self.ranks * self.stride, self.stride)


class Topology(NamedTuple):
    """The ranks, `domain` of them in an NVLink domain of `per_node` in a node, and the axes of more than one rank."""

    world: int
    domain: int
    per_node: int
    axes: tuple[Axis, ...]

    @property
    def box(self) -> str:
        """What the GPUs that reach each other over NVLink are called."""
        return "node" if self.domain == self.per_node else "NVLink domain"

    def where(self, axis: Axis) -> str:
        """Which machines a group of the axis spans."""
        if axis.domains == 1:
            return f"inside the {self.box}"
        within = f", {axis.inside} GPUs of each" if axis.inside > 1 else ""
        return f"over {counted(axis.domains, self.box)}{within}"


class StageMemory(NamedTuple):
    """Bytes on one GPU of a pipeline stage: by part, `allocated` at the peak, `device` as nvidia-smi shows it; model
    `states`, and `weights_only`: 2 bytes a parameter and nothing else."""

    stage: int
    layers: int
    parts: Mapping[str, Interval]
    allocated: Interval
    device: Interval
    states: Interval
    weights_only: Interval


class PipelineFigures(NamedTuple):
    """The schedule and the share of a step that a stage idles."""

    schedule: str
    stages: int
    microbatches: int
    chunks: int

    @property
    def bubble(self) -> float:
        """The idle share by the formula of the schedule."""
        return bubble(self.stages, self.microbatches, self.chunks, self.schedule)


class Throughput(NamedTuple):
    """What the step amounts to."""

    tokens_per_second_per_gpu: Interval
    mfu: Interval
    gpu_hours_per_day: Interval
    usd_per_day: Amount


class StepFigures(NamedTuple):
    """Seconds of a step, and its parts at the fastest and at the slowest completion of what the plan leaves open."""

    seconds: Interval
    fastest: Step
    slowest: Step


class Figures(NamedTuple):
    """All of them; each is unknown for a reason of its own, `pipeline` is None without stages."""

    topology: Topology | Unknown
    available: Amount
    stages: tuple[StageMemory, ...] | Unknown
    step: StepFigures | Unknown
    throughput: Throughput | Unknown
    pipeline: PipelineFigures | Unknown | None
    assumed: tuple[str, ...]


def figures_of(plan: Plan) -> Figures:
    """The figures of a plan."""
    found, sized = estimate(plan), sizes(plan)
    return Figures(
        _topology(plan),
        available_bytes(plan),
        sized if isinstance(sized, Unknown) else _stages(sized.completed),
        found if isinstance(found, Unknown) else _step(found),
        found if isinstance(found, Unknown) else _throughput(plan, found),
        _pipeline(plan),
        () if isinstance(found, Unknown) else found.assumed,
    )


def available_bytes(plan: Plan) -> Amount:
    """The memory of one GPU."""
    found = plan.number("cluster.gpu_memory_gib")
    return Unknown("no file tells the GPU", "--set cluster.gpu=...") if found is None else point(found * 2**30)


def _topology(plan: Plan) -> Topology | Unknown:
    unknown = first_unknown(plan, "parallel.world_size", "cluster.nvlink_domain", *LAYOUT)
    if unknown is not None:
        return unknown
    names = (*LAYOUT, "parallel.world_size", "parallel.order", "parallel.expert_tensor", "framework")
    layout = layout_of({name: plan.value(name) for name in names})
    domain = plan.integer("cluster.nvlink_domain") or 1
    if layout.data != plan.integer("parallel.data"):
        return Unknown("the degrees of parallelism do not make up the number of GPUs")
    split = [axis for axis in AXES if axis_size(layout, axis) > 1]
    per_node = min(domain, plan.integer("cluster.gpus_per_node") or domain)
    return Topology(layout.world, domain, per_node, tuple(_axis(plan, layout, axis, domain) for axis in split))


def _axis(plan: Plan, layout: Layout, axis: str, domain: int) -> Axis:
    ranks, stride = axis_size(layout, axis), axis_stride(layout, axis)
    domains = nodes_spanned(stride, ranks, domain, layout.world)
    inside = ranks if domains == 1 else max(1, min(ranks // domains, domain // stride))
    sized, found = sizes(plan), estimate(plan)
    if isinstance(sized, Unknown) or isinstance(found, Unknown):
        why = next(each for each in (sized, found) if isinstance(each, Unknown))
        return Axis(axis, ranks, stride, domains, inside, why, why, why, why)
    sent = hull(sent_bytes(job).get(axis, 0.0) for job in sized.completed.jobs)
    return Axis(axis, ranks, stride, domains, inside, sent, _rate(plan, sized.completed, axis), *_waits(found, axis))


def _rate(plan: Plan, completed: Completed, axis: str) -> Amount:
    """How fast a collective runs over the links that the axis uses, where the files tell the links."""
    groups = [group_of(job.layout, job.machine, axis) for job in completed.jobs]
    link = "cluster.intranode_gb_per_s" if groups[0].nodes == 1 else "cluster.internode_gbit_per_s"
    if not isinstance(plan.get(link), Value):
        return Unknown(missing(plan, link).reason, f"--set {link}=...")
    return hull(map(_link_rate, groups))


def _link_rate(group: Group) -> float:
    return group.intranode if group.nodes == 1 else group.internode


def _waits(found: Estimate, axis: str) -> tuple[Interval, Interval]:
    part = {"ulysses": "context", "pipeline": "transfer"}.get(axis, axis)
    exposed = Interval(getattr(found.low.step, part), getattr(found.high.step, part))
    return exposed, Interval(found.low.step.hidden.get(part, 0.0), found.high.step.hidden.get(part, 0.0))


def _stages(completed: Completed) -> tuple[StageMemory, ...] | Unknown:
    if max(job.layout.pipeline for job in completed.jobs) > MOST_STAGES:
        return Unknown(f"memory by stage is worked out for at most {MOST_STAGES} stages")
    by_job = [every_stage(job) for job in completed.jobs]
    if len({len(each) for each in by_job}) > 1:
        return Unknown("the number of pipeline stages is not known", "--set parallel.pipeline=...")
    bounds = list(zip(completed.jobs, BOUNDS, strict=True))
    memories = [
        [stage_memory(job, stages[index], bound) for (job, bound), stages in zip(bounds, by_job, strict=True)]
        for index in range(len(by_job[0]))
    ]
    return tuple(_stage(stage.position, stage.layers, found) for stage, found in zip(by_job[1], memories, strict=True))


def _stage(stage: int, layers: int, found: Sequence[Memory]) -> StageMemory:
    def over(read: Callable[[Memory], float]) -> Interval:
        return hull(map(read, found))

    parts = {name: hull(each.parts[name] for each in found) for name in found[0].parts}
    return StageMemory(
        stage,
        layers,
        {name: size for name, size in parts.items() if size.high > 0},
        over(lambda each: each.peak_bytes),
        over(lambda each: each.device_bytes),
        over(lambda each: each.states_bytes),
        over(lambda each: each.weights_only_bytes),
    )


def _step(found: Estimate) -> StepFigures:
    ordered = sorted(found.completions, key=lambda each: each.step_seconds)
    return StepFigures(Interval(found.low.step_seconds, found.high.step_seconds), ordered[0].step, ordered[-1].step)


def _throughput(plan: Plan, found: Estimate) -> Throughput:
    hours, price = point(found.gpu_hours_per_day), plan.number("cluster.usd_per_gpu_hour")
    return Throughput(
        Interval(found.low.tokens_per_second_per_gpu, found.high.tokens_per_second_per_gpu),
        Interval(found.low.mfu, found.high.mfu),
        hours,
        missing(plan, "cluster.usd_per_gpu_hour") if price is None else scale(hours, price),
    )


def _pipeline(plan: Plan) -> PipelineFigures | Unknown | None:
    if plan.integer("parallel.pipeline") == 1:
        return None
    unknown = first_unknown(plan, "parallel.pipeline", "schedule.microbatches")
    if unknown is not None:
        return unknown
    chunks = plan.integer("parallel.virtual_pipeline") or 1
    schedule = plan.word("schedule.kind") or ("interleaved" if chunks > 1 else "1f1b")
    return PipelineFigures(
        schedule, plan.integer("parallel.pipeline") or 1, plan.integer("schedule.microbatches") or 1, chunks
    )
