"""What a check finds, as values; the fields are those of the JSON report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from dtlint.interval import Interval
from dtlint.record import NamedTuple
from dtlint.rulebook.rule import Outcome, Severity, Stops
from dtlint.source import Edit, Span
from dtlint.value import Plain

Confidence = Literal["high", "medium", "low"]


class Related(NamedTuple):
    """Another place that a finding rests on, and in a few words what it contributes."""

    span: Span
    label: str


class Stop(NamedTuple):
    """What a failure brings to nothing: how many GPUs stand for how many seconds, None where no file tells. `waiting`:
    the GPU-hours that ranks first wait for each other until their timeout.
    """

    what: Stops
    gpus: int | None = None
    seconds: Interval | None = None
    waiting: float | None = None


class Amount(NamedTuple):
    """A number known without an estimate, and of what: 4 "exchanges of the model a micro-batch, where 3 do"."""

    size: Interval
    unit: str


class Cost(NamedTuple):
    """What a fault takes today.

    `share_of_step` lies between 0 and 1; GPU-hours and money are those of a day of training. `memory_bytes` is the
    peak of one GPU. `needs` are settings that would have to be told for more, `assumed` those whose bounds the ranges
    come from. `amount` stands in where neither time nor memory is known and nothing stops.
    """

    share_of_step: Interval | None = None
    seconds_per_step: Interval | None = None
    memory_bytes: Interval | None = None
    gpu_hours_per_day: Interval | None = None
    usd_per_day: Interval | None = None
    stops: Stop | None = None
    needs: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    amount: Amount | None = None


class Saving(NamedTuple):
    """What a remedy changes on the whole plan.

    The share of today's time for one token that it saves, the seconds of a step then, and the memory that one GPU
    shows as taken then and before.
    """

    share_of_step: Interval | None = None
    seconds_per_step: Interval | None = None
    memory_bytes: Interval | None = None
    memory_before: Interval | None = None


class Remedy(NamedTuple):
    """A change that helps. `set` holds every setting that changes, those that must follow too; `text` says what to
    write.

    `raises` names rules that fire on the changed plan and do not today; `enough` says whether the finding is gone then,
    None where that is not decided or no setting expresses the change.
    """

    set: Mapping[str, Plain]
    text: str
    saves: Saving = Saving()
    changes_training: bool = False
    raises: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()
    enough: bool | None = None


class Finding(NamedTuple):
    """One mistake at one place. `runs` are the indexes of the runs in which it holds, empty for a finding about the
    tree. `formula` is the arithmetic behind the headline with this plan's numbers, "" where the rule has none.
    """

    rule: str
    id: str
    severity: Severity
    outcome: Outcome
    confidence: Confidence
    message: str
    span: Span
    related: tuple[Related, ...] = ()
    cost: Cost = Cost()
    remedies: tuple[Remedy, ...] = ()
    runs: tuple[int, ...] = ()
    url: str | None = None
    formula: str = ""


class Undecided(NamedTuple):
    """A rule that could not be decided in some runs, and the settings that would decide it."""

    rule: str
    runs: tuple[int, ...]
    needs: tuple[str, ...]


class Summary(NamedTuple):
    """All remedies that leave the training mathematics unchanged, applied one after the other, and the step that
    results.

    `remedied` are texts such as "batch.micro=1", `today` the step's seconds as it is.
    """

    remedied: tuple[str, ...]
    seconds_per_step: Interval | None
    today: Interval | None = None
