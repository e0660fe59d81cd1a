"""What a launch sets the variables of its processes to."""

from __future__ import annotations

from collections.abc import Iterator

from dtlint.frameworks import Member
from dtlint.plan import Plan
from dtlint.value import Value


def values_of(plan: Plan, variable: str) -> Iterator[str | None]:
    """The values that a variable is set to, one for each place that sets it: "" where it is set to nothing, None where
    the value is not known.
    """
    for member in plan.collection("launch.environment"):
        fields = member.fields if isinstance(member, Member) else {}
        name, value = fields.get("name"), fields.get("value")
        if isinstance(name, Value) and name.value == variable:
            yield str(value.value) if isinstance(value, Value) else None
