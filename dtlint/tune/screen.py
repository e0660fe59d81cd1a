"""Prices many plans that share their degrees: a plan is completed once, what varies inside it changes its job."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dtlint.cost.figures import Job
from dtlint.cost.job import Completed
from dtlint.cost.memory import Memory
from dtlint.cost.memory import memory as memory_of
from dtlint.cost.step import step as step_of
from dtlint.value import Plain

Read = Callable[[Plain], object]

_ON_HOST = ("cpu", "nvme")

PARTS: Mapping[str, tuple[str, str, Read]] = {
    "checkpointing.activations": ("schedule", "recompute", str),
    "overlap.gradients": ("schedule", "overlap_gradients", bool),
    "overlap.parameters": ("schedule", "overlap_parameters", bool),
    "overlap.tensor": ("schedule", "overlap_tensor", bool),
    "sharding.reshard_after_forward": ("sharding", "reshard", lambda value: value is not False),
    "sharding.offload_optimizer": ("sharding", "offload_optimizer", lambda value: value in _ON_HOST),
    "sharding.offload_parameters": ("sharding", "offload_parameters", lambda value: value in _ON_HOST),
}
"""Settings that decide one number of a job and nothing else: its part, its field, and how the value is read."""

TIME_ONLY = ("overlap.parameters", "overlap.tensor")
"""Those of them that take no memory."""


def with_values(job: Job, values: Mapping[str, Plain]) -> Job:
    """The job with other values of settings of PARTS."""
    changed: dict[str, dict[str, object]] = {}
    for name, value in values.items():
        part, field, read = PARTS[name]
        changed.setdefault(part, {})[field] = read(value)
    for part, fields in changed.items():
        job = job._replace(**{part: getattr(job, part)._replace(**fields)})
    return job


def memory_with(completed: Completed, values: Mapping[str, Plain]) -> Memory:
    """Memory of one GPU of the plan with `values`, at its typical completion."""
    return memory_of(with_values(completed.typical, values))


def seconds_of(completed: Completed, values: Mapping[str, Plain]) -> float:
    """Seconds of a step of the plan with `values`, at its typical completion."""
    return step_of(with_values(completed.typical, values)).total
