"""Programs with a training loop of their own: its code counts where no front end and no other framework trains."""

from __future__ import annotations

from collections.abc import Sequence

from dtlint.frameworks import Reading

_LOOP = "own-loop"
"""The layer of what a loop says."""
_LOOPS = frozenset(("", "ddp", "fsdp", "pytorch"))
"""Frameworks that leave the loop to the program."""
_FRONT_ENDS = frozenset(("", "accelerate"))
_CASTING = "precision."
"""What an Accelerator decides itself."""


def with_own_loops(readings: tuple[Reading, ...]) -> tuple[Reading, ...]:
    """The readings of a run, without what a loop says that is not the one that trains."""
    if not _owns_loop(readings):
        return tuple(reading for reading in readings if reading.layer != _LOOP)
    front = any(reading.frontend for reading in readings)
    return tuple(_uncast(each) if each.layer == _LOOP and front else each for each in readings)


def _owns_loop(readings: Sequence[Reading]) -> bool:
    return all(each.framework in _LOOPS and each.frontend in _FRONT_ENDS for each in readings)


def _uncast(reading: Reading) -> Reading:
    return reading._replace(claims=tuple(each for each in reading.claims if not each.setting.startswith(_CASTING)))
