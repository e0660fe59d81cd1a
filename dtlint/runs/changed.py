"""A DeepSpeed config that the program, or what it hands it to, changes before DeepSpeed reads it: of the keys that are
set then, the file tells nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dtlint.frameworks import Claim, Member, Reading
from dtlint.runs.hand_over import FILLERS
from dtlint.runs.settle import starts_engine
from dtlint.source import Source
from dtlint.value import Unknown, Value

CONFIG = "deepspeed-json"
CHANGED = "config.changed"
"""The keys that a program sets in a config of which its code does not tell where it comes from."""

OVERWRITTEN = frozenset(("steps_per_print",))
"""Keys that Accelerate sets whatever the file says (accelerate 1.15.0 utils/dataclasses.py, DeepSpeedPlugin);
the others of a file it fills where they are "auto", and compares.
"""
_FORMATS = ("fp16", "bf16", "bfloat16", "amp", "torch_autocast")
"""Sections of which one decides on the format of the matrix products, so that each may take it from the others."""

_STAGE = "zero_optimization.stage"
"""The key on which it depends which others have an effect."""


def as_changed(readings: tuple[Reading, ...]) -> tuple[Reading, ...]:
    """The readings of a run, those of DeepSpeed's config without what the program sets in it."""
    members = changes_of(readings)
    if not members:
        return readings
    from dtlint.frameworks.deepspeed.changes import paths_of

    paths = paths_of(members)
    return tuple(_without(reading, paths) if reading.layer == CONFIG else reading for reading in readings)


def changes_of(readings: Iterable[Reading]) -> tuple[Member, ...]:
    """What the programs among the readings set in the configs that they load."""
    return tuple(member for reading in readings for member in reading.collections.get(CHANGED, ()))


def changed_by_any(
    parts: Sequence[tuple[Source, Reading]], changes: tuple[Member, ...]
) -> list[tuple[Source, Reading]]:
    """A config that no launch names, with what the programs of its tree set in the configs that they load: any of them
    may load this one.
    """
    if not changes or all(reading.layer != CONFIG for _, reading in parts):
        return list(parts)
    source, first = parts[0]
    return [*parts, (source, Reading("changed-elsewhere", first.place, collections={CHANGED: changes}))]


def as_handed_over(readings: tuple[Reading, ...]) -> tuple[Reading, ...]:
    """The readings of a run, those of DeepSpeed's config without what Accelerate writes over the file: where a front
    end fills the config, or the file asks for one to fill it, and the program does not start DeepSpeed by itself.
    """
    filled = any(reading.frontend in FILLERS or reading.collections.get("config.auto") for reading in readings)
    if not filled or starts_engine(readings):
        return readings
    return tuple(_without(reading, OVERWRITTEN) if reading.layer == CONFIG else reading for reading in readings)


def _without(reading: Reading, paths: frozenset[str]) -> Reading:
    claims = tuple(_open(claim) if _is_set(claim.name, paths) else claim for claim in reading.claims)
    kept = {name: tuple(_untouched(members, paths)) for name, members in reading.collections.items()}
    if _is_set(_STAGE, paths):
        kept.pop("config.inert", None)
    return reading._replace(claims=claims, collections={name: members for name, members in kept.items() if members})


def _open(claim: Claim) -> Claim:
    why = f"the program may set {claim.name} before it hands the config over"
    return claim._replace(value=Unknown(why, f"--set {claim.setting}=..."))


def _untouched(members: Iterable[Member], paths: frozenset[str]) -> Iterable[Member]:
    return (member for member in members if not _is_set(_path(member), paths))


def _path(member: Member) -> str:
    """The dotted key that a member speaks of; of one that lacks keys (`train_batch_size or ...`) the first."""
    path = _text(member, "path")
    if path:
        return path
    key = _text(member, "key").split(" or ")[0].split("'")[0]
    return ".".join(part for part in (_text(member, "section"), key) if part)


def _text(member: Member, field: str) -> str:
    found = member.fields.get(field)
    return str(found.value) if isinstance(found, Value) else ""


def _is_set(key: str, paths: frozenset[str]) -> bool:
    from dtlint.frameworks.deepspeed.changes import is_changed

    section = key.partition(".")[0]
    others = _FORMATS if section in _FORMATS else ()
    return is_changed(paths, key) or any(is_changed(paths, other) for other in others)
