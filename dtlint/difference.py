"""What a change does to the plans of a tree and to what they cost: run by run, and which findings come and go."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from dtlint.cost import Estimate
from dtlint.facts import fact
from dtlint.interval import Interval
from dtlint.plan import Plan, vocabulary
from dtlint.record import NamedTuple
from dtlint.rulebook.check import Report
from dtlint.rulebook.finding import Finding
from dtlint.rulebook.operands import as_interval
from dtlint.rulebook.price import known_estimate, saved_share
from dtlint.runs.model import Run
from dtlint.value import Plain, Value

FIGURES = (
    "step.seconds",
    "memory.peak_bytes",
    "pipeline.bubble",
    "step.exposed_share",
    "step.tokens_per_second_per_gpu",
    "run.gpu_hours",
    "run.usd",
)
"""The facts of a plan that are set side by side."""

ALIKE = 0.005
"""Share by which a figure may differ and count as the same: the cost model is no more exact."""

Key = tuple[str, str, str, int]
Item = TypeVar("Item")


class SettingChange(NamedTuple):
    """A setting before and after; None where it is not known or there is no plan."""

    name: str
    before: Plain
    after: Plain


class FigureChange(NamedTuple):
    """A fact before and after; None where it is not known or there is no plan."""

    name: str
    before: Interval | None
    after: Interval | None


class RunChange(NamedTuple):
    """One run that changed, appeared (`before` None) or went (`after` None).

    `slower` is the share by which a token takes longer, below 0 where it takes less; None where that is not known.
    """

    before: Run | None
    after: Run | None
    settings: tuple[SettingChange, ...] = ()
    figures: tuple[FigureChange, ...] = ()
    slower: Interval | None = None


class Difference(NamedTuple):
    """The runs that changed, the findings that are new, and those that are gone. A finding whose numbers are others now
    is `changed`: as it was and as it is.
    """

    runs: tuple[RunChange, ...]
    new: tuple[Finding, ...]
    gone: tuple[Finding, ...]
    changed: tuple[tuple[Finding, Finding], ...]

    @property
    def is_empty(self) -> bool:
        """Whether nothing changed."""
        return not (self.runs or self.new or self.gone or self.changed)


def difference(before: Report, after: Report) -> Difference:
    """What changed between two reports on the same tree; runs and findings belong together by file and order."""
    pairs = _paired(_runs_by_key(before.runs), _runs_by_key(after.runs))
    runs = tuple(change for one, other in pairs if (change := _run_change(one, other)) is not None)
    findings = _paired(_findings_by_key(before.findings), _findings_by_key(after.findings))
    return Difference(
        runs,
        tuple(other for one, other in findings if one is None and other is not None),
        tuple(one for one, other in findings if other is None and one is not None),
        tuple((one, other) for one, other in findings if one and other and one.message != other.message),
    )


def _run_change(before: Run | None, after: Run | None) -> RunChange | None:
    """What changed in a run; None for one that is as it was, or that trains neither before nor after."""
    if all(run is None or run.role == "other" for run in (before, after)):
        return None
    one, other = _plan(before), _plan(after)
    settings = tuple(_setting_changes(one, other))
    if before is not None and after is not None and not settings:
        return None
    slower = None if one is None or other is None else slowdown(known_estimate(one), known_estimate(other))
    return RunChange(before, after, settings, tuple(_figure_changes(one, other)), slower)


def slowdown(before: Estimate | None, after: Estimate | None) -> Interval | None:
    """The share by which a token takes longer; None where one of the plans has no estimate."""
    if before is None or after is None:
        return None
    saved = saved_share(before, after)
    return None if saved is None else Interval(0.0 - saved.high, 0.0 - saved.low)


def _setting_changes(before: Plan | None, after: Plan | None) -> Iterator[SettingChange]:
    for name in vocabulary():
        one, other = _value(before, name), _value(after, name)
        if one != other:
            yield SettingChange(name, one, other)


def _value(plan: Plan | None, name: str) -> Plain:
    found = None if plan is None else plan.get(name)
    return found.value if isinstance(found, Value) else None


def _figure_changes(before: Plan | None, after: Plan | None) -> Iterator[FigureChange]:
    for name in FIGURES:
        one, other = _figure(before, name), _figure(after, name)
        if not _alike(one, other):
            yield FigureChange(name, one, other)


def _figure(plan: Plan | None, name: str) -> Interval | None:
    return None if plan is None else as_interval(fact(plan, name))


def _alike(one: Interval | None, other: Interval | None) -> bool:
    if one is None or other is None:
        return one is other
    return all(abs(here - there) <= ALIKE * max(abs(here), abs(there)) for here, there in zip(one, other, strict=True))


def _plan(run: Run | None) -> Plan | None:
    return None if run is None else run.plan


def _runs_by_key(runs: Sequence[Run]) -> dict[Key, Run]:
    return _numbered([(run.files[0] if run.files else "", run.role, run.branch or "") for run in runs], runs)


def _findings_by_key(findings: Sequence[Finding]) -> dict[Key, Finding]:
    return _numbered([(finding.span.original().path, finding.rule, "") for finding in findings], findings)


def _numbered(keys: Sequence[tuple[str, str, str]], items: Sequence[Item]) -> dict[Key, Item]:
    """The items by their keys, those of one key told apart by their order."""
    counts: dict[tuple[str, str, str], int] = {}
    found: dict[Key, Item] = {}
    for key, item in zip(keys, items, strict=True):
        counts[key] = counts.get(key, 0) + 1
        path, kind, branch = key
        found[path, kind, branch, counts[key]] = item
    return found


def _paired(before: Mapping[Key, Item], after: Mapping[Key, Item]) -> list[tuple[Item | None, Item | None]]:
    """What stands under the same key on both sides, in the order of the later one; then what is gone."""
    kept = [(before.get(key), item) for key, item in after.items()]
    return [*kept, *((item, None) for key, item in before.items() if key not in after)]
