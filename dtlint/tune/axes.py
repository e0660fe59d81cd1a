"""What a search varies on a plan: each setting with the values that it tries, today's among them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from dtlint.catalog import largest, least_tokens, searched
from dtlint.plan.constraints import UNEVEN_PIPELINES
from dtlint.record import NamedTuple
from dtlint.value import Plain

if TYPE_CHECKING:
    from dtlint.plan import Plan

GROUP = "sharding.group"
WHOLE, NODE = "whole", "node"
"""Shard groups that a search tries: all ranks that could share the states, or those of one node."""

OFFLOADS = ("sharding.offload_optimizer", "sharding.offload_parameters")


class Axis(NamedTuple):
    """A setting and the values that a search tries for it, in order; `today` is the one that the plan has."""

    setting: str
    values: tuple[Plain, ...]
    today: Plain


class Wishes(NamedTuple):
    """What the user wants of a search: settings that stay as they are, and values to try for others.

    `vary` may name settings that a search leaves alone by itself, the global batch or the model among them.
    """

    keep: frozenset[str] = frozenset()
    vary: Mapping[str, tuple[Plain, ...]] = {}


def axes_of(plan: Plan, wishes: Wishes) -> tuple[Axis, ...]:
    """What is varied: what the framework offers and the plan tells today, but for what the user keeps."""
    found = searched(plan.word("framework") or "")
    values = (
        {} if found is None else {name: _numbers(plan, name) for name in found.degrees} | _words(plan, found.values)
    )
    wanted = {name: tried for name, tried in {**values, **wishes.vary}.items() if name not in wishes.keep}
    axes = (_axis(plan, name, tried) for name, tried in wanted.items())
    return tuple(axis for axis in axes if axis is not None and len(axis.values) > 1)


def left_alone(plan: Plan, wishes: Wishes) -> tuple[str, ...]:
    """Settings that the framework would let a search vary and that today's plan does not tell."""
    found = searched(plan.word("framework") or "")
    names = () if found is None else (*found.degrees, *found.values)
    return tuple(name for name in names if name != GROUP and name not in wishes.keep and plan.value(name) is None)


def _axis(plan: Plan, name: str, tried: tuple[Plain, ...]) -> Axis | None:
    """None for a setting whose value today is not known: what is better than it cannot be told."""
    today = _group_today(plan) if name == GROUP else plan.value(name)
    if today is None:
        return None
    if name == GROUP and isinstance(today, int):
        return Axis(name, (today, *tried), today)
    values = tuple(dict.fromkeys((*tried, today)))
    numbers = [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
    return Axis(name, tuple(sorted(numbers)) if len(numbers) == len(values) else values, today)


def _group_today(plan: Plan) -> Plain:
    """Where nothing states a smaller group, it is the whole one."""
    return WHOLE if plan.setting(GROUP) is None else plan.integer(GROUP)


def _words(plan: Plan, values: Mapping[str, tuple[Plain, ...]]) -> dict[str, tuple[Plain, ...]]:
    offered = {name: tried for name, tried in values.items() if _is_open(plan, name)}
    return {name: _offloads(plan, name, tried) if name in OFFLOADS else tried for name, tried in offered.items()}


def _is_open(plan: Plan, name: str) -> bool:
    """Where single layers are recomputed the choice was made by hand; a shard group within the node needs nodes."""
    if name == "checkpointing.activations":
        return plan.integer("checkpointing.layers") is None
    return name != GROUP or (plan.integer("sharding.stage") or 0) >= 2


def _offloads(plan: Plan, name: str, tried: tuple[Plain, ...]) -> tuple[Plain, ...]:
    """Main memory is offered where it is known how much there is."""
    return tried if plan.number("cluster.host_memory_gb") is not None else ("none",)


def _numbers(plan: Plan, name: str) -> tuple[Plain, ...]:
    most = largest(name)
    found = _NUMBERS[name](plan)
    return tuple(number for number in found if most is None or number <= most)


def _tensor(plan: Plan) -> Iterable[int]:
    """Divisors of the attention heads; a group over slower links than the node's is not tried unless it is today's."""
    widest = plan.integer("cluster.nvlink_domain") or plan.integer("parallel.world_size") or 1
    heads = plan.integer("model.heads") or 0
    return (width for width in _divisors(plan.integer("parallel.world_size")) if width <= widest and heads % width == 0)


def _pipeline(plan: Plan) -> Iterable[int]:
    layers, uneven = plan.integer("model.layers") or 1, plan.word("framework") in UNEVEN_PIPELINES
    counts = (count for count in _divisors(plan.integer("parallel.world_size")) if count <= layers)
    return (count for count in counts if uneven or layers % count == 0)


def _chunks(plan: Plan) -> Iterable[int]:
    return _divisors(plan.integer("model.layers"))


def _context(plan: Plan) -> Iterable[int]:
    """Each rank takes two pieces of the sequence, one from either half, and has to have enough of it."""
    tokens, least = plan.integer("data.sequence_length") or 1, least_tokens("parallel.context")
    counts = _divisors(plan.integer("parallel.world_size"))
    return (count for count in counts if count == 1 or (tokens % (2 * count) == 0 and tokens >= count * least))


def _expert(plan: Plan) -> Iterable[int]:
    experts = plan.integer("model.experts") or 0
    return _divisors(experts) if experts else (1,)


def _micro(plan: Plan) -> Iterable[int]:
    return _divisors(plan.integer("batch.global"))


def _divisors(number: int | None) -> list[int]:
    if number is None or number < 1:
        return [1]
    low = [each for each in range(1, int(number**0.5) + 1) if number % each == 0]
    return sorted({*low, *(number // each for each in low)})


_NUMBERS: Mapping[str, Callable[[Plan], Iterable[int]]] = {
    "parallel.tensor": _tensor,
    "parallel.pipeline": _pipeline,
    "parallel.virtual_pipeline": _chunks,
    "parallel.context": _context,
    "parallel.expert": _expert,
    "batch.micro": _micro,
}
"""The numbers that are tried for a degree: those that divide what it splits."""
