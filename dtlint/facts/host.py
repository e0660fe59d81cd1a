"""Facts about the main memory of one machine: what loading and offloading need of it."""

from __future__ import annotations

from collections.abc import Callable

from dtlint.cost import constants
from dtlint.cost.estimate import Point
from dtlint.cost.sizing import hosted_bytes
from dtlint.facts.registry import (
    TIMING,
    FactValue,
    fact,
    first_unknown,
    lower,
    missing,
    over_completions,
    register,
)
from dtlint.facts.variables import values_of
from dtlint.plan import Plan
from dtlint.value import Unknown


@register(
    "host.copies",
    "number",
    "copies",
    ("loading.whole_copies", "launch.processes_per_node"),
    "transformers-fsdp-loading",
)
def copies(plan: Plan) -> FactValue:
    """Whole checkpoints that one machine holds in main memory while the model is loaded."""
    which, processes = plan.word("loading.whole_copies"), plan.integer("launch.processes_per_node")
    if which is None:
        return missing(plan, "loading.whole_copies")
    if which == "all":
        return processes if processes is not None else missing(plan, "launch.processes_per_node")
    return 1 if which == "first" else 0


@register(
    "host.offloaded_bytes",
    "number",
    "bytes",
    ("model.parameters", "sharding.stage", "sharding.offload_optimizer", "sharding.offload_parameters"),
    "deepspeed-memory",
)
def offloaded_bytes(plan: Plan) -> FactValue:
    """What offloading keeps in the main memory of one machine: 16N / machines for an optimizer with its gradients.

    A lower end: buffers, pinned copies and what the program itself holds come on top (DeepSpeed's own estimate takes
    half as much again).
    """
    held, each, processes = (
        fact(plan, "memory.parameters_held"),
        hosted_bytes(plan),
        plan.integer("launch.processes_per_node"),
    )
    unknown = next((found for found in (held, each) if isinstance(found, Unknown)), None)
    if unknown is not None or processes is None:
        return unknown or first_unknown(plan, "launch.processes_per_node") or missing(plan, "launch.processes_per_node")
    return lower(held) * lower(each) * processes


@register("host.one_thread_seconds", "number", "s", TIMING, "cpu-adam")
def one_thread_seconds(plan: Plan) -> FactValue:
    """Seconds that the step of an offloaded optimizer takes longer if each process computes its share in one thread."""
    return _in_one_thread(plan, lambda point, factor: point.step.offload * factor)


@register("host.one_thread_share", "number", "share of a step", TIMING, "cpu-adam")
def one_thread_share(plan: Plan) -> FactValue:
    """The same as a share of the step that is longer for it."""
    return _in_one_thread(plan, lambda point, factor: _share(point.step.offload * factor, point.step_seconds))


def _in_one_thread(plan: Plan, read: Callable[[Point, float], float]) -> FactValue:
    processes = plan.integer("launch.processes_per_node")
    if processes is None:
        return first_unknown(plan, "launch.processes_per_node") or missing(plan, "launch.processes_per_node")
    if plan.word("sharding.offload_optimizer") not in ("cpu", "nvme"):
        return 0.0
    factor = _longer(processes)
    return over_completions(plan, lambda point: read(point, factor))


def delayed(plan: Plan, point: Point) -> float:
    """Seconds by which a step is longer than its estimate, for the launcher leaves the optimizer on the host one thread
    of each process: torchrun and Accelerate export OMP_NUM_THREADS=1 where several start and nothing is set
    (torch/distributed/run.py, config_from_args).
    """
    processes = plan.integer("launch.processes_per_node") or 1
    if processes == 1 or plan.word("launch.launcher") not in _ONE_THREADED or fact(plan, "launch.shares_cores"):
        return 0.0
    if plan.word("sharding.offload_optimizer") not in ("cpu", "nvme") or _threads(plan) not in ("", "1"):
        return 0.0
    return point.step.offload * _longer(processes)


_ONE_THREADED = ("torchrun", "accelerate", "torch.distributed.launch")


def _threads(plan: Plan) -> str | None:
    """What OMP_NUM_THREADS is where the launch starts, "" where it is known not to be set."""
    return next((value for value in values_of(plan, "OMP_NUM_THREADS") if value is not None), None)


def _longer(processes: int) -> float:
    """By how much of itself an offloaded step takes longer in one thread of each process.

    With all threads the processes share the memory's rate; what travels over the links stays as it is: the two formats
    of a parameter against the states, each read and written, of some seven times as many bytes.
    """
    streaming = _STREAMED * processes / constants.HOST_MEMORY_RATE
    alone = _STREAMED / constants.HOST_THREAD_RATE
    return max(0.0, alone - streaming) / (streaming + 1 / constants.HOST_LINK_RATE)


_STREAMED = 7
"""Bytes that an optimizer on the host reads and writes for each that travels: 28 of 4 (12 of states both ways, and the
gradient and the weight, of which each is 2)."""


def _share(extra: float, step: float) -> float:
    return extra / (extra + step)
