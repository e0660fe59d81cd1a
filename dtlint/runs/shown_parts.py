"""Words of a launch that speak of a part of the model, in a program that shows that they leave nothing frozen."""

from __future__ import annotations

from collections.abc import Iterator

from dtlint.frameworks import Claim, Reading
from dtlint.frameworks.options import canonical
from dtlint.value import Unknown, Value

_COLLECTION = "program.unfrozen"
_RANK, _STORED = "model.lora_rank", "precision.frozen"


def without_shown(readings: tuple[Reading, ...]) -> tuple[Reading, ...]:
    """The readings without what such words leave unknown of the trained part."""
    shown = frozenset(_shown(readings))
    return tuple(_without(reading, shown) for reading in readings) if shown else readings


def _shown(readings: tuple[Reading, ...]) -> Iterator[str]:
    for member in (member for reading in readings for member in reading.collections.get(_COLLECTION, ())):
        flags = member.fields["flags"]
        if isinstance(flags, Value) and isinstance(flags.value, tuple):
            yield from map(canonical, map(str, flags.value))


def _without(reading: Reading, shown: frozenset[str]) -> Reading:
    """A reading without these claims; how frozen weights are stored is asked for nothing then."""
    left = tuple(claim for claim in reading.claims if not _is_shown(claim, shown))
    if len(left) == len(reading.claims):
        return reading
    if not any(claim.setting == _RANK for claim in left):
        left = tuple(claim for claim in left if claim.setting != _STORED or isinstance(claim.value, Value))
    return reading._replace(claims=left)


def _is_shown(claim: Claim, shown: frozenset[str]) -> bool:
    return claim.setting == _RANK and isinstance(claim.value, Unknown) and canonical(claim.name) in shown
