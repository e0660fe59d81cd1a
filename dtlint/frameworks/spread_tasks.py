"""How the tasks of an srun spread over the nodes of its job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from dtlint.frameworks import Claim, Member, Reading
from dtlint.value import Choice, Origin, Setting, Unknown, Value

_NODES = "cluster.nodes"
_TASKS = "launch.tasks_per_node"
_WRITTEN = "launch.tasks"


def with_spread_tasks(readings: Sequence[Reading]) -> tuple[Reading, ...]:
    """The readings, with the tasks of each node that follow from the --ntasks of an srun and the nodes of its job.

    srun takes --ntasks-per-node from the job for an upper limit once it is told --ntasks (man srun).
    """
    nodes = next(_claims(readings, _NODES), None)
    readings = _without_replaced(readings)
    spread = tuple(_spread(reading, nodes) for reading in readings)
    if spread == tuple(readings):
        return spread
    return tuple(_without_tasks(reading) if reading.layer == "sbatch" else reading for reading in spread)


def _without_replaced(readings: Sequence[Reading]) -> Sequence[Reading]:
    """The readings, without the job's number of tasks where the step writes one in its place: --ntasks for anything,
    --ntasks-per-node for all but --ntasks.
    """
    own = [
        member for reading in readings if reading.layer == "srun" for member in reading.collections.get(_WRITTEN, ())
    ]
    if not own:
        return readings
    return [_without(reading, own) if reading.layer == "sbatch" else reading for reading in readings]


def _without(job: Reading, own: Sequence[Member]) -> Reading:
    whole = any(_says(member, "tasks") for member in own)
    kept = tuple(each for each in job.collections.get(_WRITTEN, ()) if _says(each, "tasks") and not whole)
    return job._replace(collections={**job.collections, _WRITTEN: kept})


def _says(member: Member, field: str) -> bool:
    return isinstance(member.fields.get(field), Value)


def _spread(step: Reading, nodes: Setting | None) -> Reading:
    members = step.collections.get("launch.steps", ())
    tasks = next((member.fields["tasks"] for member in members if "tasks" in member.fields), None)
    if step.layer != "srun" or tasks is None or any(claim.setting == _TASKS for claim in step.claims):
        return step
    own = next(_claims([step], _NODES), nodes)
    return step._replace(claims=(*step.claims, Claim(_TASKS, _tasks_of_a_node(tasks, own), "--ntasks")))


def _without_tasks(job: Reading) -> Reading:
    return job._replace(claims=tuple(claim for claim in job.claims if claim.setting != _TASKS))


def _claims(readings: Iterable[Reading], setting: str) -> Iterator[Setting]:
    return (claim.value for reading in readings for claim in reading.claims if claim.setting == setting)


def _tasks_of_a_node(tasks: Setting, nodes: Setting | None) -> Setting:
    """One where as many tasks as nodes are asked for, be the number known or not."""
    if isinstance(tasks, Choice):
        return Unknown("the tasks hang on conditions", f"--set {_TASKS}=N")
    if isinstance(tasks, Unknown):
        return Value(1, tasks.origin or Origin("derived")) if tasks.means == _NODES else tasks
    count = nodes.value if isinstance(nodes, Value) else None
    if isinstance(tasks.value, int) and isinstance(count, int) and count and tasks.value % count == 0:
        return tasks._replace(value=tasks.value // count)
    return Unknown(
        f"{tasks.value} tasks, and how they spread over the nodes is not told", f"--set {_TASKS}=N", tasks.origin
    )
