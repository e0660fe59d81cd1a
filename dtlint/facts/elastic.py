"""Facts about programs that work their accumulation out from the number of ranks: what a step takes of the batch."""

from __future__ import annotations

from collections.abc import Iterator

from dtlint.facts.registry import FactValue, register
from dtlint.frameworks import Member
from dtlint.plan import Plan
from dtlint.record import NamedTuple
from dtlint.value import Unknown, Value

_MOST = 4096
"""Most sizes of a job that are tried."""
_NONE = Unknown("the program works out no accumulation from the number of ranks")


class Step(NamedTuple):
    """What a step takes of the global batch on a number of nodes."""

    nodes: int
    taken: int


@register("batch.floored_total", "number", "samples", (), "torchrun-elastic")
def floored_total(plan: Plan) -> FactValue:
    """The global batch from which the program works its accumulation out, rounded down."""
    batch = _batch(plan)
    return _NONE if batch is None else _number(batch, "total")


@register("batch.floored_taken", "number", "samples", ("parallel.world_size",), "torchrun-elastic")
def floored_taken(plan: Plan) -> FactValue:
    """What a step takes of that batch on the ranks of the plan."""
    batch, ranks = _batch(plan), plan.integer("parallel.world_size")
    return _NONE if batch is None or not ranks else _taken(batch, ranks)


@register("batch.uneven_nodes", "number", "nodes", ("launch.processes_per_node",), "torchrun-elastic")
def uneven_nodes(plan: Plan) -> FactValue:
    """The number of nodes of an elastic launch on which a step is farthest from that batch."""
    found = _farthest(plan)
    return _NONE if found is None else found.nodes


@register("batch.uneven_taken", "number", "samples", ("launch.processes_per_node",), "torchrun-elastic")
def uneven_taken(plan: Plan) -> FactValue:
    """What a step takes on that number of nodes."""
    found = _farthest(plan)
    return _NONE if found is None else found.taken


def _batch(plan: Plan) -> Member | None:
    """The one batch that the program divides."""
    found = [each for each in plan.collection("code.floored_batches") if isinstance(each, Member)]
    return found[0] if len(found) == 1 and min(_number(found[0], "total"), _number(found[0], "each")) > 0 else None


def _farthest(plan: Plan) -> Step | None:
    batch, per_node = _batch(plan), plan.integer("launch.processes_per_node")
    ranges = [each for each in plan.collection("launch.elastic") if isinstance(each, Member)]
    if batch is None or not per_node or len(ranges) != 1:
        return None
    total = _number(batch, "total")
    found = [each for each in _steps(batch, ranges[0], per_node) if each.taken != total]
    return max(found, key=lambda each: abs(each.taken - total), default=None)


def _steps(batch: Member, nodes: Member, per_node: int) -> Iterator[Step]:
    """What a step takes on each number of nodes of a range."""
    least, most = _number(nodes, "minimum"), _number(nodes, "maximum")
    for count in range(least, min(most, least + _MOST) + 1) if least > 0 else ():
        yield Step(count, _taken(batch, count * per_node))


def _taken(batch: Member, ranks: int) -> int:
    at_once = _number(batch, "each") * ranks
    return max(_number(batch, "total") // at_once, _number(batch, "least")) * at_once


def _number(member: Member, field: str) -> int:
    value = member.fields[field]
    return value.value if isinstance(value, Value) and isinstance(value.value, int) else 0
