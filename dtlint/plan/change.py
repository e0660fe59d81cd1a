"""Another plan on the same machines and mathematics: what a remedy changes, what must follow, and what cannot be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dtlint.plan.constraints import violations
from dtlint.value import Plain, Setting, Value, derived, given

if TYPE_CHECKING:
    from dtlint.plan import Infeasible, Plan

LAUNCH = ("parallel.world_size", "cluster.nodes", "launch.nodes", "launch.processes")
"""Counts of machines and processes: when one changes, the others follow it."""

FOLLOWERS: Mapping[str, tuple[str, ...]] = {
    "batch.accumulation": ("batch.micro", "schedule.microbatches"),
    "batch.micro": ("batch.accumulation", "schedule.microbatches"),
    "batch.global": ("batch.accumulation", "schedule.microbatches"),
    "parallel.tensor": ("parallel.data", "batch.accumulation", "schedule.microbatches"),
    "parallel.pipeline": (
        "parallel.data",
        "batch.accumulation",
        "schedule.microbatches",
        "parallel.stage_layers",
        "schedule.kind",
        "parallel.virtual_pipeline",
    ),
    "parallel.virtual_pipeline": ("schedule.kind", "parallel.stage_layers"),
    "parallel.context": ("parallel.data", "batch.accumulation", "schedule.microbatches"),
    "parallel.ulysses": ("parallel.data", "batch.accumulation", "schedule.microbatches"),
    "parallel.world_size": ("parallel.data", "batch.accumulation", "schedule.microbatches"),
}
"""Settings that are worked out again, even where they are written, when the key changes."""


def change(plan: Plan, changes: Mapping[str, Plain], keep: tuple[str, ...]) -> Plan | Infeasible:
    """The plan with `changes`; Infeasible for what the framework or arithmetic does not allow and today's plan does
    not already break.
    """
    settings: dict[str, Setting] = dict(plan.settings)
    dropped = _dropped(plan, changes)
    for name in dropped:
        settings.pop(name, None)
    settings.update(_kept(plan, changes, keep))
    settings.update({name: given(value, "remedy") for name, value in changes.items()})
    settings.update(_switched_off(changes))
    if "batch.accumulation" in dropped:
        settings.update(_accumulation(plan.restated(settings)))
    changed = plan.restated(settings)
    changed.followed = _followed(plan, changed, dropped)
    before = set(violations(plan))
    broken = [found for found in violations(changed) if found not in before]
    return broken[0] if broken else changed


def _accumulation(plan: Plan) -> dict[str, Setting]:
    """The accumulation that makes up the global batch: a front end's default would otherwise take its place, for it
    counts as written.
    """
    from dtlint.plan.derived import RULES

    found = RULES["batch.accumulation"](plan)
    return {"batch.accumulation": found} if isinstance(found, Value) else {}


def _dropped(plan: Plan, changes: Mapping[str, Plain]) -> tuple[str, ...]:
    names = {name for changed in changes for name in FOLLOWERS.get(changed, ())}
    if any(name in changes for name in LAUNCH):
        names.update(LAUNCH)
        names.update(FOLLOWERS["parallel.world_size"])
    return tuple(sorted(names - changes.keys()))


def _kept(plan: Plan, changes: Mapping[str, Plain], keep: tuple[str, ...]) -> dict[str, Setting]:
    """What stays; a change of the machines leaves the world size free, one of all three batch terms the global
    batch.
    """
    free = set(changes)
    if any(name in changes for name in LAUNCH):
        free.add("parallel.world_size")
    kept: dict[str, Setting] = {}
    for name in keep:
        found = plan.get(name)
        if name not in free and isinstance(found, Value):
            kept[name] = plan.stated(name) or derived(found.value, note="kept")
    if "batch.micro" in changes and "batch.accumulation" in changes:
        kept.pop("batch.global", None)
    return kept


def _switched_off(changes: Mapping[str, Plain]) -> dict[str, Setting]:
    off: dict[str, Setting] = {}
    if changes.get("parallel.tensor") == 1 and "parallel.sequence" not in changes:
        off["parallel.sequence"] = derived(False, "parallel.tensor")
    return off


def _followed(before: Plan, after: Plan, dropped: tuple[str, ...]) -> dict[str, Plain]:
    """Written settings whose value is another one now: they belong to the remedy."""
    changed: dict[str, Plain] = {}
    for name in dropped:
        stated = before.stated(name)
        value = after.value(name)
        if stated is not None and value is not None and value != stated.value:
            changed[name] = value
    return changed
