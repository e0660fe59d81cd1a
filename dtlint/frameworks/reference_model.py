"""The models beside the one that trains, whose answers a loss compares with: what every front end says of them."""

from __future__ import annotations

from dtlint.source import Span
from dtlint.value import Origin, Unknown

REFERENCE = "model.reference"
_HOW = "--set model.reference_copies=N"


def unknown_reference(reason: str, place: Span | None = None) -> Unknown:
    """Why it is open which models these are, said at a place."""
    return Unknown(reason, _HOW, Origin("written", place)) if place is not None else Unknown(reason, _HOW)
