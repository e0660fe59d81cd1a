"""The norm at which DeepSpeed clips, beside the one that a training loop asks an Accelerator for; Accelerate's own keys
count where they stand in place of a DeepSpeed config.
"""

from __future__ import annotations

from collections.abc import Sequence

from dtlint.frameworks import AUTO, Member, Reading
from dtlint.runs.claimed import claimed
from dtlint.source import Span
from dtlint.value import Setting, Unknown, Value, written

_CLIP = "optimizer.clip"
_KEYS = "accelerate-"
"""How the layers of Accelerate's file and of its command line begin."""
_FLAGS = "accelerate-flags"
"""The layer of the command line, which counts before the file."""


def keys_in_place_of_file(readings: Sequence[Reading], *, keeping_clip: bool = False) -> Reading | None:
    """Accelerate's keys that its DeepSpeedPlugin makes a config of; None where they name a file, may hold others than
    are written, or, but for `keeping_clip`, say at which norm DeepSpeed clips.
    """
    own = [reading for reading in readings if reading.layer.startswith(_KEYS)]
    named = any(file.role == "deepspeed" for reading in own for file in reading.files)
    told = claimed(own, _CLIP, _KEYS) is not None
    if named or any(reading.open or reading.unread for reading in own) or (told and not keeping_clip):
        return None
    return next((reading for reading in reversed(own) if reading.framework == "deepspeed"), None)


def config_kind(config: Reading) -> str:
    """Where DeepSpeed's settings stand: accelerate (in keys of Accelerate), file (in a config of DeepSpeed)."""
    return "accelerate" if config.layer.startswith(_KEYS) else "file"


def place_of_config(config: Reading) -> Span | None:
    """Where DeepSpeed's settings stand; of Accelerate's keys where they tell the stage."""
    stage = claimed([config], "sharding.stage", _KEYS)
    told = stage.value.origin if stage is not None and isinstance(stage.value, Value) else None
    return told.span if told is not None and told.span is not None else config.place


def clip_of_loop(readings: Sequence[Reading], config: Reading, told: Member) -> Member | None:
    """A member of `config.left_out` for the clipping of a loop of its own; None where DeepSpeed is told the same norm,
    or one that is not known. Beside the fields of the Trainer's clipping `taken`: the norm that DeepSpeed is told.

    Accelerate makes 1.0 of an "auto" (accelerator.py, _prepare_deepspeed).
    """
    place = place_of_config(config)
    if place is None or config.open:
        return None
    layers = (_FLAGS, _KEYS) if config_kind(config) == "accelerate" else (config.layer,)
    own = readings if config_kind(config) == "accelerate" else (config,)
    claim = next((found for layer in layers if (found := claimed(own, _CLIP, layer)) is not None), None)
    fields: dict[str, Setting] = {
        **told.fields,
        "key": written("gradient_clipping", place),
        "asked": written("yes", place),
        "by": written(config_kind(config), place),
        "who": written("loop", place),
    }
    related = ((told.place, "asked for here"),)
    if claim is None:
        return Member(place, fields, related)
    filled = isinstance(claim.value, Unknown) and claim.value.reason == AUTO
    taken = written(1.0, place) if filled else claim.value
    asked = told.fields["value"]
    if not isinstance(taken, Value) or not isinstance(asked, Value) or taken.value == asked.value:
        return None
    return Member(place, {**fields, "taken": taken}, related)
