"""Words of a launch that never reach the Trainer: the program builds its arguments itself, and its own parser drops
what it does not know.
"""

from __future__ import annotations

from collections.abc import Iterator

from dtlint.frameworks import Claim, Reading
from dtlint.value import Value

_LINE = "transformers-arguments"
_COLLECTION = "program.lenient"


def without_dropped(readings: tuple[Reading, ...]) -> tuple[Reading, ...]:
    """The readings without the claims of dropped words. What is left of the command line comes last: a setting that
    nothing writes is written where the program builds the arguments.
    """
    flags = frozenset(_flags(readings))
    line = [reading for reading in readings if reading.layer == _LINE]
    if not flags or not line:
        return readings
    kept = (
        reading._replace(claims=tuple(claim for claim in reading.claims if _is_taken(claim, flags))) for reading in line
    )
    return (*(reading for reading in readings if reading.layer != _LINE), *kept)


def _flags(readings: tuple[Reading, ...]) -> Iterator[str]:
    for member in (member for reading in readings for member in reading.collections.get(_COLLECTION, ())):
        flags = member.fields["flags"]
        if isinstance(flags, Value) and isinstance(flags.value, tuple):
            yield from map(str, flags.value)


def _is_taken(claim: Claim, flags: frozenset[str]) -> bool:
    """Whether a claim is of a flag that the parser has, or of the beginning of one, or of no flag."""
    return not claim.name.startswith("--") or any(flag.startswith(claim.name) for flag in flags)
