"""What readings claim of a setting, and where the Trainer's arguments stand among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dtlint.frameworks import Claim, Reading
from dtlint.runs.settle import starts_engine
from dtlint.source import Span
from dtlint.value import Setting, Value

CONFIG = "deepspeed-json"
"""The layer of a DeepSpeed config."""


def claimed(readings: Sequence[Reading], setting: str, layer: str) -> Claim | None:
    """The last claim of a setting in the readings of a layer, or of those whose name begins so."""
    found = (claim for reading in readings if reading.layer.startswith(layer) for claim in reading.claims)
    return next((claim for claim in reversed(list(found)) if claim.setting == setting), None)


def trainer_place(readings: Sequence[Reading]) -> Span | None:
    """Where the Trainer's arguments stand, if all of them are known, and those that are not written have the
    Trainer's own defaults.
    """
    own = [reading for reading in readings if reading.layer.startswith("transformers") and reading.place is not None]
    if starts_engine(readings) or any(reading.open or reading.frontend == "ms-swift" for reading in own):
        return None
    return own[0].place if own else None


def says(config: Reading, setting: str) -> bool:
    """Whether a DeepSpeed config holds a setting."""
    return claimed([config], setting, config.layer) is not None


def word_in(settings: Mapping[str, Setting], name: str) -> str:
    """The value of a setting as text, "" where it is not known."""
    found = settings.get(name)
    return str(found.value) if isinstance(found, Value) else ""


def text_in(value: Setting) -> str:
    """A value as text, "" for one that is not known."""
    return str(value.value) if isinstance(value, Value) else ""
