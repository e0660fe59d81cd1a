"""A DeepSpeed config that a program registers for ZeRO-3's loading before anything fills its "auto" in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from dtlint.frameworks import Member, Reading
from dtlint.runs.claimed import text_in
from dtlint.value import Setting, Value, written

_BATCHES = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
"""Keys with which DeepSpeed counts as soon as it reads a config (0.9.5 runtime/config.py, _configure_train_batch_size),
as ZeRO-3's loading has it do (partition_parameters.py, Init)."""
_STAGE_3 = 3


def unfilled_registrations(
    readings: Sequence[Reading], config: Reading, settings: Mapping[str, Setting]
) -> tuple[Member, ...]:
    """config.auto of configs that are registered as they are (`early`: what is loaded then); `path` names the keys that
    DeepSpeed trips over.
    """
    stage = settings.get("sharding.stage")
    if not isinstance(stage, Value) or stage.value != _STAGE_3:
        return ()
    unfilled = [each for each in config.collections.get("config.auto", ()) if text_in(each.fields["path"]) in _BATCHES]
    early = (each for reading in readings for each in reading.collections.get("code.registrations", ()))
    return tuple(_member(each, unfilled) for each in early if unfilled and _is_of(each, config))


def _is_of(early: Member, config: Reading) -> bool:
    """Whether the file that is registered is the run's config, as far as its name tells."""
    name = PurePosixPath(text_in(early.fields["file"])).name
    return config.place is None or name in ("", PurePosixPath(config.place.path).name)


def _member(early: Member, unfilled: Sequence[Member]) -> Member:
    names = ", ".join(text_in(each.fields["path"]) for each in unfilled)
    fields = {"path": written(names, early.place), "default": written("", early.place), "early": early.fields["load"]}
    related = tuple((each.place, "not filled in yet") for each in unfilled)
    return Member(early.place, fields, (*early.related, *related))
