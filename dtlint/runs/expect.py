"""What a team expects of every plan, beside what the plan has: `[expect]` in dtlint.toml."""

from __future__ import annotations

from collections.abc import Mapping

from dtlint.frameworks import Member
from dtlint.plan import Plan
from dtlint.source import Span
from dtlint.value import Setting, Value, given

COLLECTION = "config.expectations"
"""Members with the `setting`, the value `wanted` and the plan's, `found`."""


def with_expectations(plan: Plan, expected: Mapping[str, Value], place: Span) -> Plan:
    """The plan with a member of COLLECTION for each setting that is expected to have a value, where that is written,
    else at `place`.
    """
    if not expected:
        return plan
    members = tuple(_member(name, plan.get(name), wanted, place) for name, wanted in expected.items())
    return Plan(plan.settings, {**plan.collections, COLLECTION: members}, plan.dialect, plan.open, plan.unread)


def _member(name: str, found: Setting, wanted: Value, otherwise: Span) -> Member:
    span = found.origin.span if isinstance(found, Value) else None
    return Member(span or otherwise, {"setting": given(name), "wanted": wanted, "found": found})
