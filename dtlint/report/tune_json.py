"""What a search over plans found, as JSON for scripts: a stable form, to which fields are only added."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dtlint.report.tune import cautions, named_offers, saved, split_shown
from dtlint.value import Plain

if TYPE_CHECKING:
    from dtlint.cost import Estimate
    from dtlint.runs.model import Run
    from dtlint.source import Span
    from dtlint.tune import Change, Offer, Tuned

Json = dict[str, object]


def tuned_json(pairs: Sequence[tuple[Run, Tuned]]) -> str:
    """The search of every run."""
    return json.dumps({"version": 1, "runs": [_run(run, tuned) for run, tuned in pairs]}, indent=2) + "\n"


def _run(run: Run, tuned: Tuned) -> Json:
    launch = run.launch.place.original() if run.launch is not None else None
    return {
        "launch": None if launch is None else {"path": launch.path, "line": launch.line},
        "role": run.role,
        "files": list(run.files),
        "needs": [{"reason": need.reason, "set": need.how} for need in tuned.needs],
        "considered": tuned.search.considered,
        "priced": tuned.search.priced,
        "ranked": len(tuned.search.ranked),
        "refused": dict(tuned.search.refused),
        "not_offered_for_errors": tuned.faulty,
        "varied": {axis.setting: [_plain(value) for value in axis.values] for axis in tuned.search.axes},
        "untold": list(tuned.untold),
        "assumed": [] if tuned.estimate is None else list(tuned.estimate.assumed),
        "today": {
            "plan": split_shown(tuned.today),
            "place": tuned.place,
            "left_out_for": tuned.against or None,
            **_cost(tuned.estimate),
        },
        "best": [_offer(name, offer, tuned) for name, offer in named_offers(tuned)],
    }


def _today(tuned: Tuned) -> Json:
    place = {"place": tuned.place, "left_out_for": tuned.against or None}
    return {"plan": split_shown(tuned.today), **place, **_cost(tuned.estimate)}


def _offer(name: str, offer: Offer, tuned: Tuned) -> Json:
    return {
        "name": name,
        "plan": split_shown(offer.plan),
        "set": {change.setting: _plain(change.after) for change in offer.changes},
        "changes": [_change(change) for change in offer.changes],
        "edits": [_edit(edit.span.original(), edit.text) for edit in offer.edits],
        "saves": saved(offer, tuned),
        "fits": offer.fits,
        "raises": list(offer.raises),
        "cautions": list(cautions(offer)),
        **_cost(offer.estimate),
    }


def _change(change: Change) -> Json:
    place = change.place.original() if change.place is not None else None
    return {
        "setting": change.setting,
        "before": _plain(change.before),
        "after": _plain(change.after),
        "old": change.old or None,
        "new": change.new,
        "path": place.path if place is not None else None,
        "line": place.line if place is not None else None,
        "column": place.column if place is not None else None,
    }


def _edit(span: Span, text: str) -> Json:
    end = {"end_line": span.end_line, "end_column": span.end_column}
    return {"path": span.path, "line": span.line, "column": span.column, **end, "text": text}


def _cost(found: Estimate | None) -> Json:
    """Time and memory; nulls where they are not known."""
    if found is None:
        return {"seconds_per_step": None, "memory_bytes": None, "available_bytes": None}
    ends = (found.low, found.middle, found.high)
    return {
        "seconds_per_step": _ends([end.step_seconds for end in ends]),
        "memory_bytes": _ends([end.memory.device_bytes for end in ends]),
        "available_bytes": found.memory.available_bytes,
    }


def _ends(values: Sequence[float]) -> Json:
    return dict(zip(("low", "middle", "high"), values, strict=True))


def _plain(value: Plain) -> object:
    return list(value) if isinstance(value, tuple) else value
