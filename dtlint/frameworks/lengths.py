"""The length of the longest sample: what configs tell where samples are of several lengths."""

from __future__ import annotations

from dtlint.value import Setting, Value

BOUNDS = "it bounds the samples, which may be far shorter"


def at_most(value: Setting, how: str = "--set data.sequence_length=N") -> Setting:
    """The length as one that is assumed of all samples; `how` makes them as long or tells their length."""
    if not isinstance(value, Value):
        return value
    return value._replace(origin=value.origin._replace(kind="assumed", note=BOUNDS, how=how))
