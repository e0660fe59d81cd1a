"""Errors that another number of machines mends, where that number is the default of a variable."""

from __future__ import annotations

from collections.abc import Iterator
from math import lcm

from dtlint.plan import Plan
from dtlint.plan.derived.degrees import smallest_world
from dtlint.rulebook.hits import Around, Hit
from dtlint.rulebook.rule import SEVERITIES, Verdict
from dtlint.rulebook.scope import sources_of
from dtlint.value import Value, assumed

_NODES, _EACH, _ALL = "launch.nodes", "launch.processes_per_node", "launch.processes"
_MOST_DOUBLINGS = 10


def mended_by_machines(hit: Hit, _around: Around) -> str | None:
    """Whether another number of machines mends an error: `${NNODES:-1}` says how one machine is tried, and the cluster
    or the caller says how many there are. Nothing is said of it.
    """
    if hit.run is None or SEVERITIES[hit.outcome] != "error" or not _rests_on_a_default(hit):
        return None
    return "" if any(_is_mended(hit, nodes) for nodes in _numbers(hit.scope.plan)) else None


def _rests_on_a_default(hit: Hit) -> bool:
    """Whether the number of machines was read and is a default that stands in a script (`${WORLD_SIZE:-1}`)."""
    plan = hit.scope.plan
    nodes = plan.get(_NODES)
    if not isinstance(nodes, Value) or nodes.origin.kind != "assumed" or nodes.origin.span is None:
        return False
    read = {name for name, _ in sources_of(plan, hit.scope.reads)}
    return _NODES in read or (_ALL in read and _is_product(plan))


def _is_product(plan: Plan) -> bool:
    """Whether the number of processes was worked out of that default where the files were read."""
    found, each = plan.get(_ALL), plan.integer(_EACH)
    whole = isinstance(found, Value) and found.origin.kind == "assumed" and found.value
    return whole == (plan.integer(_NODES) or 1) * (each or 0)


def _numbers(plan: Plan) -> Iterator[int]:
    """Numbers of machines worth a try: as many as divide into the smallest worlds, and today's, doubled."""
    nodes, each = plan.integer(_NODES) or 1, plan.integer(_EACH)
    if each:
        yield lcm(smallest_world(plan), each) // each
    yield from (nodes * 2**doubled for doubled in range(1, _MOST_DOUBLINGS))


def _is_mended(hit: Hit, nodes: int) -> bool:
    plan = hit.scope.plan
    changes = {_NODES: nodes, **({_ALL: nodes * (plan.integer(_EACH) or 1)} if _is_product(plan) else {})}
    tried = {name: assumed(value, "another number of machines") for name, value in changes.items()}
    changed = plan.with_settings(tried)
    return not isinstance(hit.ready.judge(hit.ready.scope(changed, hit.scope.member)), Verdict)
