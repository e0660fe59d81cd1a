"""Facts about launches whose number of nodes may change: what a step takes where the batch does not divide."""

from __future__ import annotations

from collections.abc import Iterator

from dtlint.facts.registry import FactValue, register
from dtlint.frameworks import Member
from dtlint.plan import Plan
from dtlint.record import NamedTuple
from dtlint.value import Unknown, Value

_MOST = 4096
"""Most sizes of a job that are tried."""
_NONE = Unknown("the program works out no accumulation from the number of nodes")


class Uneven(NamedTuple):
    """A number of nodes at which the accumulation that a program works out is rounded down."""

    nodes: int
    total: int
    taken: int


@register("batch.uneven_nodes", "number", "nodes", ("launch.processes_per_node",), "torchrun-elastic")
def uneven_nodes(plan: Plan) -> FactValue:
    """The number of nodes of an elastic launch at which the program leaves most of its global batch out."""
    found = _uneven(plan)
    return _NONE if found is None else found.nodes


@register("batch.uneven_total", "number", "samples", ("launch.processes_per_node",), "torchrun-elastic")
def uneven_total(plan: Plan) -> FactValue:
    """The global batch that the program works its accumulation out from."""
    found = _uneven(plan)
    return _NONE if found is None else found.total


@register("batch.uneven_taken", "number", "samples", ("launch.processes_per_node",), "torchrun-elastic")
def uneven_taken(plan: Plan) -> FactValue:
    """What a step takes of the global batch on that number of nodes."""
    found = _uneven(plan)
    return _NONE if found is None else found.taken


def _uneven(plan: Plan) -> Uneven | None:
    members = [each for each in plan.collection("code.floored_batches") if isinstance(each, Member)]
    ranges = [each for each in plan.collection("launch.elastic") if isinstance(each, Member)]
    per_node = plan.integer("launch.processes_per_node")
    if len(members) != 1 or len(ranges) != 1 or per_node is None:
        return None
    found = [each for each in _sizes(members[0], ranges[0], per_node) if each.taken < each.total]
    return min(found, key=lambda each: each.taken, default=None)


def _sizes(batch: Member, nodes: Member, per_node: int) -> Iterator[Uneven]:
    """What a step takes on each number of nodes of a range."""
    total, each = _number(batch, "total"), _number(batch, "each")
    least, most = _number(nodes, "minimum"), _number(nodes, "maximum")
    if min(total, each, least, most, per_node) < 1:
        return
    for count in range(least, min(most, least + _MOST) + 1):
        at_once = each * count * per_node
        yield Uneven(count, total, total // at_once * at_once)


def _number(member: Member, field: str) -> int:
    value = member.fields[field]
    return value.value if isinstance(value, Value) and isinstance(value.value, int) else 0
