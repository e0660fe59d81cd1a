"""Findings of one branch of a ladder on a default that all branches share and that the caller of the script may set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dtlint.rulebook.hits import Hit
from dtlint.rulebook.rule import SEVERITIES
from dtlint.rulebook.scope import place_of
from dtlint.rulebook.stopped import cause_of
from dtlint.runs.model import Run
from dtlint.source import Span
from dtlint.value import Unknown, Value


def as_combined(hits: Sequence[Hit], runs: Sequence[Run]) -> list[Hit]:
    """The hits with the outcome that is certain: `TP=${TP:-8}` above a ladder over the model's name is what most of its
    branches are started with; that the one which it does not suit is started with it too no file says.
    """
    found = {(cause_of(hit), hit.run) for hit in hits}
    return [_combined(hit, runs, found) for hit in hits]


def _combined(hit: Hit, runs: Sequence[Run], found: set[tuple[tuple[str, str, int], int | None]]) -> Hit:
    if hit.run is None or runs[hit.run].branch is None or SEVERITIES[hit.outcome] == "note":
        return hit
    setting = _default_pointed_at(hit)
    if setting is None:
        return hit
    others = [index for index in _other_branches(runs, hit.run) if _shares(runs[index], runs[hit.run], setting)]
    alone = bool(others) and all((cause_of(hit), index) not in found for index in others)
    return hit._replace(certain="advice") if alone else hit


def _default_pointed_at(hit: Hit) -> str | None:
    """The setting that the finding points at, where it is a default that stands in a script."""
    names = hit.verdict.at or hit.ready.rule.at
    pointed = ((name, hit.scope.plan.get(name)) for name in names)
    first = next(((name, value) for name, value in pointed if _place(value) == hit.anchor.span), None)
    return first[0] if first and isinstance(first[1], Value) and first[1].origin.kind == "assumed" else None


def _other_branches(runs: Sequence[Run], run: int) -> Iterator[int]:
    """The runs of the same launch under other conditions."""
    launch = runs[run].launch
    for index, other in enumerate(runs):
        if index != run and launch is not None and other.launch is not None and other.launch.place == launch.place:
            yield index


def _shares(other: Run, run: Run, setting: str) -> bool:
    """Whether two runs have a setting from the same place."""
    place = _place(run.plan.get(setting))
    return place is not None and _place(other.plan.get(setting)) == place


def _place(found: Value | Unknown | None) -> Span | None:
    """Where the value of a setting is literally written."""
    origin = place_of(found)
    return None if origin is None or origin.span is None else origin.span.original()
