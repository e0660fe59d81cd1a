"""Looks at every combination of what varies: refused by the framework, too large for the GPU, or ranked by time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from dtlint.cost import Memory
from dtlint.cost.job import Completed, complete
from dtlint.facts.memory import MEMORY_MARGIN
from dtlint.plan import Infeasible
from dtlint.plan.change import FOLLOWERS
from dtlint.plan.constraints import violations
from dtlint.record import NamedTuple
from dtlint.tune.allowed import Grounds, group_size, idle, refused
from dtlint.tune.axes import GROUP, Axis
from dtlint.tune.screen import PARTS, TIME_ONLY, memory_with, seconds_of
from dtlint.value import Plain, Unknown

if TYPE_CHECKING:
    from dtlint.plan import Plan

Assignment = Mapping[str, Plain]
Told = Callable[[int, int], None]
"""Is told how many of how many plans have been looked at."""

TOO_LARGE = "more memory than a GPU has, with the model's error"
TOO_LARGE_FOR_HOST = "more main memory than a node has"

MICRO = "batch.micro"


class Candidate(NamedTuple):
    """A plan that can be: the values of the axes; seconds of a step and of a token, and bytes of the most loaded GPU as
    the device shows them, at the middle of what is not known."""

    values: Assignment
    seconds: float
    seconds_per_token: float
    memory_bytes: float


class Search(NamedTuple):
    """What was found: the plans that fit at the middle of what is not known, the fastest first, and how many were left
    out for which reason.

    `considered` is the number of all combinations: the ranked and the refused. `priced` are those whose memory, or
    memory and time, was worked out.
    """

    axes: tuple[Axis, ...]
    considered: int
    priced: int
    ranked: tuple[Candidate, ...]
    refused: Mapping[str, int]


def search(plan: Plan, axes: Sequence[Axis], told: Told = lambda done, total: None) -> Search:
    """Every combination of the axes' values, looked at once."""
    inner = [axis for axis in axes if axis.setting in PARTS]
    outer = sorted((axis for axis in axes if axis.setting not in PARTS), key=lambda axis: axis.setting == MICRO)
    each = prod(len(axis.values) for axis in inner)
    total = each * prod(len(axis.values) for axis in outer)
    look = _Look(plan, tuple(axes), inner, Grounds(plan), each)
    for number, values in enumerate(_combinations(outer), 1):
        look.at(values)
        told(number * each, total)
    ordered = sorted(look.found, key=lambda candidate: _order(candidate, axes))
    return Search(tuple(axes), total, look.priced, tuple(ordered), dict(sorted((+look.counts).items())))


class _Look:
    """What has been found so far, and the degrees with which a micro-batch was too large already: a larger one is
    too large too."""

    def __init__(self, plan: Plan, axes: tuple[Axis, ...], inner: list[Axis], grounds: Grounds, each: int) -> None:
        self.plan, self.axes, self.inner, self.grounds, self.each = plan, axes, inner, grounds, each
        self.counts: Counter[str] = Counter()
        self.found: list[Candidate] = []
        self.priced = 0
        self._full: set[tuple[Plain, ...]] = set()

    def at(self, values: Assignment) -> None:
        """Look at every plan with these degrees."""
        degrees = tuple(value for name, value in values.items() if name != MICRO)
        reason = refused(self.grounds, values) or (TOO_LARGE if degrees in self._full else None)
        made = reason or _made(self.plan, self.axes, self.grounds, values)
        if isinstance(made, str):
            self.counts[made] += self.each
            return
        before = self.counts[TOO_LARGE]
        found = list(_inside(made, values, self.inner, self.grounds, self.counts))
        self.priced += len(found) + self.counts[TOO_LARGE] - before
        self.found += found
        if not found and self.counts[TOO_LARGE] > before and not self.counts[TOO_LARGE_FOR_HOST]:
            self._full.add(degrees)


class _Made(NamedTuple):
    """A plan of the degrees, completed, with the tokens of a step and the main memory of a node in bytes."""

    completed: Completed
    tokens: float
    host_bytes: float | None


def _combinations(axes: Sequence[Axis]) -> Iterator[Assignment]:
    names = [axis.setting for axis in axes]
    return (dict(zip(names, values, strict=True)) for values in product(*(axis.values for axis in axes)))


def _made(plan: Plan, axes: Sequence[Axis], grounds: Grounds, values: Assignment) -> _Made | str:
    """The plan with these degrees, or why there is none."""
    changed = plan.but(changes_of(axes, grounds, values))
    if isinstance(changed, Infeasible):
        return REASONS.get(changed.setting, changed.reason)
    broken = violations(changed)
    if broken:
        return REASONS.get(broken[0].setting, broken[0].reason)
    completed = complete(changed)
    if isinstance(completed, Unknown):
        return completed.reason
    batch, layout = completed.typical.batch, completed.typical.layout
    tokens = float(batch.micro * batch.microbatches * layout.data * completed.typical.shape.sequence)
    host = plan.number("cluster.host_memory_gb")
    return _Made(completed, tokens, None if host is None else host * 1e9)


REASONS = {
    "parallel.data": "the GPUs do not divide into the degrees",
    "parallel.expert": "the GPUs do not divide into EP x ETP x PP",
    "model.heads": "attention heads do not divide over TP",
    "model.layers": "layers do not divide into stages and chunks",
    "batch.global": "the global batch does not divide",
    "schedule.microbatches": "too few micro-batches for interleaved stages",
    "schedule.group": "micro-batches are left over by interleaved stages",
    "sharding.stage": "ZeRO 2 and 3 do not go with a pipeline",
    "data.sequence_length": "the sequence does not divide over TP",
}
"""What a plan's own constraints say, without its numbers."""


def changes_of(axes: Sequence[Axis], grounds: Grounds, values: Assignment) -> dict[str, Plain]:
    """What differs from today, and what else the search decides that would be worked out anew with it."""
    today = {axis.setting: axis.today for axis in axes}
    changed = {name: value for name, value in values.items() if value != today[name]}
    follow = {name for setting in changed for name in FOLLOWERS.get(setting, ()) if name in values}
    changed.update({name: values[name] for name in follow})
    if changed:
        changed.update({name: value for name, value in values.items() if name in PARTS})
    return _with_group(changed, grounds, values)


def _with_group(changed: dict[str, Plain], grounds: Grounds, values: Assignment) -> dict[str, Plain]:
    """The shard group by the number of its ranks; the whole one follows by itself."""
    if GROUP in changed:
        del changed[GROUP]
        size = group_size(grounds, values)
        changed.update({} if size is None else {GROUP: size})
    return changed


def _inside(
    made: _Made, outer: Assignment, inner: Sequence[Axis], grounds: Grounds, counts: Counter[str]
) -> Iterator[Candidate]:
    """The plans with these degrees that fit: memory first, and time only for what has room."""
    filling = [axis for axis in inner if axis.setting not in TIME_ONLY]
    free = [axis for axis in inner if axis.setting in TIME_ONLY]
    beside = list(_combinations(free))
    for values in _combinations(filling):
        allowed = [each for each in beside if not _is_refused(grounds, {**outer, **values, **each}, counts)]
        if not allowed:
            continue
        memory = memory_with(made.completed, values)
        reason = _no_room(memory, made)
        if reason is not None:
            counts[reason] += len(allowed)
            continue
        for each in allowed:
            seconds = seconds_of(made.completed, {**values, **each})
            yield Candidate({**outer, **values, **each}, seconds, seconds / made.tokens, memory.device_bytes)


def _is_refused(grounds: Grounds, values: Assignment, counts: Counter[str]) -> bool:
    reason = idle(grounds, values)
    if reason is not None:
        counts[reason] += 1
    return reason is not None


def _no_room(memory: Memory, made: _Made) -> str | None:
    if memory.device_bytes * MEMORY_MARGIN > memory.available_bytes:
        return TOO_LARGE
    on_host = memory.host_bytes * made.completed.typical.machine.per_node
    return TOO_LARGE_FOR_HOST if made.host_bytes is not None and on_host > made.host_bytes else None


def _order(candidate: Candidate, axes: Sequence[Axis]) -> tuple[object, ...]:
    """The faster first; of equally fast ones that with fewer changes, then that with more room, then by values."""
    changes = sum(candidate.values[axis.setting] != axis.today for axis in axes)
    values = tuple(axis.values.index(candidate.values[axis.setting]) for axis in axes)
    return (round(candidate.seconds_per_token, 15), changes, candidate.memory_bytes, values)
