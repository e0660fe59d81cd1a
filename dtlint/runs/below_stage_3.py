"""Parameters that are meant to be offloaded where DeepSpeed's stage keeps them on the GPU, whoever asks for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dtlint.frameworks import Member, Reading
from dtlint.frameworks.arguments import texts
from dtlint.runs.claimed import word_in
from dtlint.value import Setting, Value, written

OFFLOAD = "sharding.offload_parameters"
_DEVICES = ("cpu", "nvme")


def offloads_nothing(readings: Sequence[Reading], settings: Mapping[str, Setting]) -> tuple[Member, ...]:
    """The members of `config.inert` for each source that asks for it below stage 3."""
    stage = settings.get("sharding.stage")
    if word_in(settings, "framework") != "deepspeed" or not isinstance(stage, Value) or stage.origin.kind == "assumed":
        return ()
    if not isinstance(stage.value, int) or stage.value >= 3:
        return ()
    return tuple({member.place: member for member in _members(readings, stage)}.values())


def _members(readings: Sequence[Reading], stage: Value) -> Iterator[Member]:
    for claim in (claim for reading in readings for claim in reading.claims if claim.setting == OFFLOAD):
        value = claim.value
        if not isinstance(value, Value) or value.value not in _DEVICES or value.origin.kind != "written":
            continue
        place, at = value.origin.span, stage.origin.span
        if place is not None:
            reason = f"it works at ZeRO stage 3 only, and the stage is {stage.value}"
            fields = texts(place, key=claim.name, section="", reason=reason, matters="yes")
            related = ((at, f"stage {stage.value}"),) if at is not None else ()
            yield Member(place, {**fields, "others": written(0, place)}, related)
