"""The estimate of a plan: memory and time with an optimistic, a typical and a pessimistic completion of what the plan
leaves open."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from dtlint.cost.job import Completed, Job, complete
from dtlint.cost.memory import Memory
from dtlint.cost.memory import memory as memory_of
from dtlint.cost.stages import active_parameters
from dtlint.cost.step import Step
from dtlint.cost.step import step as step_of
from dtlint.record import NamedTuple
from dtlint.value import Unknown

if TYPE_CHECKING:
    from dtlint.plan import Plan


Choose = Callable[[Iterable[float]], float]


class Point(NamedTuple):
    """One end of an estimate, or its middle."""

    memory: Memory
    step: Step
    step_seconds: float
    tokens_per_second_per_gpu: float
    mfu: float


class Estimate(NamedTuple):
    """Memory and time of a plan. `low` holds the lower and `high` the higher end of every quantity; what is asked of
    the estimate itself is the middle's. `assumed` are settings that were completed with bounds, `tokens_per_step` the
    global batch in tokens, `completions` the whole jobs that were priced (for ratios, whose ends are not ratios of
    ends)."""

    low: Point
    middle: Point
    high: Point
    assumed: tuple[str, ...]
    tokens_per_step: float
    world: int
    completions: tuple[Point, ...] = ()

    @property
    def memory(self) -> Memory:
        """The middle's memory of one GPU, on the most loaded rank."""
        return self.middle.memory

    @property
    def step(self) -> Step:
        """The middle's step by parts."""
        return self.middle.step

    @property
    def step_seconds(self) -> float:
        """Seconds of one optimizer step."""
        return self.middle.step_seconds

    @property
    def tokens_per_second_per_gpu(self) -> float:
        """Throughput of one GPU."""
        return self.middle.tokens_per_second_per_gpu

    @property
    def mfu(self) -> float:
        """Model operations (6N + causal attention a token) over the data-sheet rate of the compute format."""
        return self.middle.mfu

    @property
    def gpu_hours_per_day(self) -> float:
        """GPU-hours that the run takes in a day of wall clock."""
        return self.world * 24.0


def estimate(plan: Plan) -> Estimate | Unknown:
    """Memory and time of the plan (kept on it), or which setting is missing."""
    if plan.estimate is None:
        sized = sizes(plan)
        plan.estimate = sized if isinstance(sized, Unknown) else _estimate(sized)
    found = plan.estimate
    assert isinstance(found, (Estimate, Unknown))
    return found


class Sizes(NamedTuple):
    """What an estimate begins with: the completed jobs and the memory of each, from optimistic to pessimistic."""

    completed: Completed
    memories: tuple[Memory, Memory, Memory]


def sizes(plan: Plan) -> Sizes | Unknown:
    """The memory of the plan (kept on it) without its times, which take longer; or which setting is missing."""
    if plan.sizes is None:
        completed = complete(plan)
        plan.sizes = completed if isinstance(completed, Unknown) else _sizes(completed)
    found = plan.sizes
    assert isinstance(found, (Sizes, Unknown))
    return found


def _sizes(completed: Completed) -> Sizes:
    low = memory_of(completed.optimistic, "optimistic")
    high = memory_of(completed.pessimistic, "pessimistic")
    return Sizes(completed, (low, memory_of(completed.typical, "typical"), high))


def _estimate(sized: Sizes) -> Estimate:
    completed = sized.completed
    points = [_point(job, memory) for job, memory in zip(completed.jobs, sized.memories, strict=True)]
    tokens = float(completed.typical.batch.micro * completed.typical.batch.microbatches * completed.typical.layout.data)
    return Estimate(
        _end(points, min),
        points[1],
        _end(points, max),
        completed.assumed,
        tokens * completed.typical.shape.sequence,
        completed.typical.layout.world,
        tuple(points),
    )


def _point(job: Job, memory: Memory) -> Point:
    taken = step_of(job)
    seconds = taken.total
    batch, layout, shape = job.batch, job.layout, job.shape
    tokens = batch.micro * batch.microbatches * layout.data * shape.sequence / seconds / layout.world
    return Point(memory, taken, seconds, tokens, operations_per_token(job) * tokens / peak(job))


def operations_per_token(job: Job) -> float:
    """6 operations for each parameter that the token visits (4 where it is frozen: no weight gradients), and causal
    attention: 6*L*s*A*d (half of the 12 of PaLM, appendix B)."""
    shape = job.shape
    passes = 6 if shape.trainable is None else 4
    return passes * active_parameters(shape) + 6 * shape.layers * shape.sequence * shape.heads * shape.head_dim


def peak(job: Job) -> float:
    """The data-sheet rate of the compute format, operations per second."""
    gpu, compute = job.machine.gpu, job.precision.compute
    sixteen = gpu.bf16_tflops or gpu.fp16_tflops or 100.0
    narrow = gpu.fp8_tflops if compute.startswith(("fp8", "mxfp8", "nvfp4")) else None
    return (narrow or sixteen) * 1e12


def _end(points: list[Point], choose: Choose) -> Point:
    """The lower or higher end of every quantity over the completions."""
    numbers = (choose(values) for values in zip(*(each[2:] for each in points), strict=True))
    return Point(_memory_end(points, choose), _step_end(points, choose), *numbers)


def _memory_end(points: list[Point], choose: Choose) -> Memory:
    found = [each.memory for each in points]
    parts = {name: choose(each.parts[name] for each in found) for name in found[0].parts}
    return Memory(parts, *(choose(values) for values in zip(*(each[1:] for each in found), strict=True)))


def _step_end(points: list[Point], choose: Choose) -> Step:
    found = [each.step for each in points]
    exposed = {name: choose(getattr(each, name) for each in found) for name in Step._fields if name != "hidden"}
    axes = {axis for each in found for axis in each.hidden}
    hidden = {axis: choose(each.hidden.get(axis, 0.0) for each in found) for axis in axes}
    return Step(**exposed, hidden=hidden)
