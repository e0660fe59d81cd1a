"""Programs with a trainer of their own for answers: whether the batch has to hold whole groups is then their affair."""

from __future__ import annotations

from dtlint.frameworks import GROUPING, Reading

_CHECKED = ("batch.group", "parallel.rollout", "parallel.rollout_shares")
"""What the trainer checks: the group, and the degree of the engine on its GPUs."""
_PROGRAM = "transformers-python"


def with_own_groups(readings: tuple[Reading, ...]) -> tuple[Reading, ...]:
    """The readings of a run, without the group where the program is there and starts no trainer of TRL that checks it.

    A program that is not there is supposed to do what the arguments are named after.
    """
    programs = [reading for reading in readings if reading.layer == _PROGRAM]
    if not programs or any(reading.collections.get(GROUPING) for reading in programs):
        return readings
    return tuple(_without_group(reading) for reading in readings)


def _without_group(reading: Reading) -> Reading:
    return reading._replace(claims=tuple(claim for claim in reading.claims if claim.setting not in _CHECKED))
