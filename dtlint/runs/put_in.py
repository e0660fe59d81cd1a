"""The accumulation that Accelerate puts into a DeepSpeed config: 1 into one that has none, whatever the arguments say,
and in its older releases the Accelerator's own in place of what stands there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dtlint.frameworks import Claim, Member, Reading
from dtlint.frameworks.arguments import texts
from dtlint.record import NamedTuple
from dtlint.release import older, releases
from dtlint.runs.claimed import claimed, says, text_in, word_in
from dtlint.value import Origin, Setting, Value, written

ACCUMULATION = "batch.accumulation"
PUT_IN = Value(1, Origin("default", note="Accelerate, for a DeepSpeed config without gradient_accumulation_steps"))
"""What the config is given (accelerate 0.19.0 to 1.15.0 utils/dataclasses.py, DeepSpeedPlugin.__post_init__)."""

_ACCELERATOR = "accelerator-python"
"""The layer of what a program tells its Accelerator."""
_KEY = "gradient_accumulation_steps"
_BATCHES = ("batch.global", "batch.micro")
_COUNTS = "code.accelerators"
"""The collection of what the Accelerator of a program accumulates by itself."""
_KEEPS = "0.23.0"
"""The first release of Accelerate that leaves the config's number alone."""
_HANDS_ON = "4.30.0"
"""The first release of transformers whose arguments hand the config to Accelerate (training_args.py; 4.29.2 does not,
and DeepSpeed works the accumulation out)."""


def refused_batch(readings: Sequence[Reading], config: Reading, settings: Mapping[str, Setting]) -> tuple[Member, ...]:
    """config.conflicts of a Trainer's accumulation that the two batch sizes of the config count, and the 1 that stands
    beside them does not; `effect` is uncounted. A config with one batch size alone fits any accumulation.
    """
    lost = _lost(readings, config, settings)
    counted = all(says(config, name) for name in _BATCHES)
    if lost is None or lost.layer.startswith("accelerate") or not counted or _is_older(settings):
        return ()
    return (_member(lost.claim, config, "uncounted"),)


def ignored_accumulation(
    readings: Sequence[Reading], config: Reading, settings: Mapping[str, Setting]
) -> tuple[Member, ...]:
    """config.conflicts of an Accelerator's accumulation, in whose place the config's 1 counts (accelerate 0.23.0 to
    1.10.0 accelerator.py, _prepare_deepspeed); `effect` is overridden.
    """
    if puts_own_in(settings):
        return ()
    lost = _lost(readings, config, settings)
    return (_member(lost.claim, config, "overridden"),) if lost is not None and lost.layer == _ACCELERATOR else ()


class Replaced(NamedTuple):
    """What the Accelerator puts in the config's place, and what there is to say of that."""

    value: Setting
    conflicts: tuple[Member, ...]


def replaced_accumulation(
    readings: Sequence[Reading], config: Reading, settings: Mapping[str, Setting]
) -> Replaced | None:
    """The Accelerator's accumulation where it replaces the number of the config; `effect` of a conflict is replaced.
    None where the config says none, and where a launcher hands one to both.
    """
    lost = claimed([config], ACCUMULATION, config.layer)
    found = next((each for reading in readings for each in reading.collections.get(_COUNTS, ())), None)
    handed = any(claimed([each], ACCUMULATION, "accelerate-") is not None for each in readings)
    if lost is None or found is None or handed or not puts_own_in(settings) or not isinstance(lost.value, Value):
        return None
    value, place = found.fields["value"], lost.value.origin.span
    known = isinstance(value, Value) and value.origin.kind != "assumed" and isinstance(value.value, int)
    if place is None or not known or text_in(value) == text_in(lost.value):
        return Replaced(value, ())
    fields = {"winner_name": found.fields["name"], "winner": value, "value": lost.value}
    words = texts(place, setting=ACCUMULATION, name=lost.name, effect="replaced")
    return Replaced(value, (Member(place, {**words, **fields}, ((found.place, "the Accelerator's counts"),)),))


def puts_own_in(settings: Mapping[str, Setting]) -> bool:
    """Whether Accelerate puts the Accelerator's accumulation in place of the config's, by its release (0.17.0 to 0.22.0
    accelerator.py, _prepare_deepspeed: "Updating DeepSpeed's gradient accumulation steps"; 0.23.0 fills "auto" alone).
    """
    word = word_in(settings, "version.accelerate")
    found, since = releases(word) if word else None, releases(_KEEPS)
    return found is not None and since is not None and older(found, since) is True


class _Lost(NamedTuple):
    claim: Claim
    layer: str


def _lost(readings: Sequence[Reading], config: Reading, settings: Mapping[str, Setting]) -> _Lost | None:
    """The accumulation of several batches that something else than the config asks for, which has no key for it."""
    asked = settings.get(ACCUMULATION)
    if config.place is None or config.open or says(config, ACCUMULATION):
        return None
    if not isinstance(asked, Value) or not isinstance(asked.value, int) or asked.value < 2 or not asked.origin.span:
        return None
    claims = ((claim, reading.layer) for reading in readings for claim in reading.claims)
    return next((_Lost(*each) for each in claims if (each[0].setting, each[0].value) == (ACCUMULATION, asked)), None)


def _is_older(settings: Mapping[str, Setting]) -> bool:
    found, since = releases(word_in(settings, "version.transformers") or ">0"), releases(_HANDS_ON)
    return found is not None and since is not None and older(found, since) is True


def _member(lost: Claim, config: Reading, effect: str) -> Member:
    assert isinstance(lost.value, Value) and lost.value.origin.span is not None and config.place is not None
    place = lost.value.origin.span
    fields: dict[str, Setting] = {
        "setting": written(ACCUMULATION, place),
        "name": written(lost.name, place),
        "value": lost.value,
        "winner_name": written(_KEY, config.place),
        "winner": PUT_IN,
        "effect": written(effect, place),
    }
    return Member(place, fields, ((config.place, f"no {_KEY} here"),))
