"""Literals of a DeepSpeed config that the Trainer's arguments repeat: those that differ are refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from dtlint.frameworks import Claim, Member, Reading
from dtlint.record import NamedTuple
from dtlint.runs.claimed import claimed, text_in, trainer_place, word_in
from dtlint.source import Span
from dtlint.value import Origin, Plain, Setting, Value, written

TRAINER = "Hugging Face Trainer"
LIGHTNING = "accumulate_grad_batches"
"""Lightning's own argument for accumulation."""

MATCHED: Mapping[str, tuple[str, Plain]] = {
    "batch.micro": ("--per_device_train_batch_size", 8),
    "batch.accumulation": ("--gradient_accumulation_steps", 1),
    "optimizer.clip": ("--max_grad_norm", 1.0),
}
"""Arguments that a literal of the file must equal, with the values that they have unasked (transformers
integrations/deepspeed.py, trainer_config_process)."""

_FORMAT_BY_FLAG = ("transformers", "llama-factory")
"""Front ends that train in fp32 where neither --bf16 nor --fp16 is written; others look at the checkpoint."""

_FORMAT = "precision.compute"

_REPEATED: Mapping[str, str] = {
    "optimizer.params.lr": "learning-rate",
    "optimizer.params.weight_decay": "weight-decay",
    "optimizer.params.eps": "adam-epsilon",
    "scheduler.params.warmup_max_lr": "learning-rate",
    "scheduler.params.warmup_num_steps": "warmup-steps",
    "scheduler.params.total_num_steps": "max-steps",
}
"""Numbers of the file that an argument repeats."""

_BETAS = ("adam-beta1", "adam-beta2")

_UNASKED: Mapping[str, float] = {
    "learning-rate": 5e-5,
    "weight-decay": 0.0,
    "adam-epsilon": 1e-8,
    "adam-beta1": 0.9,
    "adam-beta2": 0.999,
    "warmup-steps": 0,
    "warmup-ratio": 0.0,
}
"""The values that these arguments have unasked (transformers 5.24.0 training_args.py)."""

_OWN_RATES = ("trl",)
"""Front ends whose classes of arguments have a learning rate of their own (trl 0.12.1: 5e-7 to 2e-5)."""

_WARMUP = "warmup-steps"


class _Asked(NamedTuple):
    """An argument of the Trainer: as its source spells it, and its value."""

    name: str
    value: Setting


class _Arguments(NamedTuple):
    """The Trainer's arguments of numbers, by their names: all those whose values are told, by a source or unasked."""

    told: Mapping[str, _Asked]

    def number(self, name: str) -> tuple[str, Value] | None:
        """An argument as it is spelled, and its number; None for one that is not known."""
        found = self._steps(name) if name in (_WARMUP, "max-steps") else self.told.get(name)
        if found is None or not isinstance(found.value, Value) or not isinstance(found.value.value, (int, float)):
            return None
        return found.name, found.value

    def _steps(self, name: str) -> _Asked | None:
        """A count of steps, where an argument says it as such: a share of all steps counts where there is none of
        them, or where it is below 1, and the data decides where --max_steps is not above 0.
        """
        found, share = self.told.get(name), self.told.get("warmup-ratio")
        if found is None or not isinstance(found.value, Value):
            return None
        whole = isinstance(found.value.value, (int, float)) and found.value.value >= 1
        unwarmed = name == _WARMUP and found.value.value == 0 and share is not None and _is_zero(share.value)
        return found if whole or unwarmed else None


def _is_zero(value: Setting) -> bool:
    return isinstance(value, Value) and value.value == 0


def conflicts(readings: Sequence[Reading], config: Reading, settings: Mapping[str, Setting]) -> Iterator[Member]:
    """Literals of a file that the Trainer refuses."""
    yield from default_conflicts(readings, config)
    arguments = _arguments(readings, settings)
    if word_in(settings, "frontend") in _FORMAT_BY_FLAG:
        yield from _format_conflict(readings, config, arguments)
    yield from _number_conflicts(arguments, config)


def default_conflicts(readings: Sequence[Reading], config: Reading) -> Iterator[Member]:
    """Literals of the file that differ from an argument which is not written."""
    home = trainer_place(readings)
    if home is None:
        return
    for setting, (argument, unasked) in MATCHED.items():
        found = _unasked(readings, config, setting)
        if found is not None and found[1].value != unasked:
            yield _refused(setting, argument, unasked, found, home)


def owned_by_lightning(readings: Sequence[Reading]) -> Iterator[Member]:
    """The accumulation in a DeepSpeed config, which Lightning's strategy sets from its Trainer and refuses there
    (strategies/deepspeed.py, _format_batch_size_and_grad_accum_config); `effect` is owned.
    """
    found = claimed(readings, "batch.accumulation", "deepspeed-")
    home = next((each.place for each in readings if each.layer.startswith("lightning") and each.place), None)
    if found is None or home is None or not isinstance(found.value, Value) or found.value.origin.span is None:
        return
    place = found.value.origin.span
    words = {"setting": "batch.accumulation", "name": found.name, "effect": "owned", "winner_name": LIGHTNING}
    fields = {key: written(word, place) for key, word in words.items()}
    yield Member(place, {**fields, "value": found.value}, ((home, "the Trainer that sets it"),))


def _format_conflict(readings: Sequence[Reading], config: Reading, arguments: _Arguments) -> Iterator[Member]:
    """A 16-bit format that the file turns on, and no argument asks for, be it for the evaluation alone. Under its older
    name (bfloat16) it is not compared (transformers integrations/deepspeed.py, trainer_config_process).
    """
    home, found = trainer_place(readings), _unasked([_without_loading(each) for each in readings], config, _FORMAT)
    if home is None or found is None or f"{found[1].value}-full-eval" in arguments.told:
        return
    if found[1].value in ("bf16", "fp16") and found[0].name == f"{found[1].value}.enabled":
        literal = (found[0], found[1]._replace(value=True))
        yield _refused(_FORMAT, f"--{found[1].value}", False, literal, home)


def _without_loading(reading: Reading) -> Reading:
    """The arguments without the format in which the model is loaded (--torch_dtype), which is not compared."""
    kept = tuple(claim for claim in reading.claims if claim.setting != _FORMAT or "dtype" not in claim.name)
    return reading._replace(claims=kept)


def _number_conflicts(arguments: _Arguments, config: Reading) -> Iterator[Member]:
    """Numbers of the file's optimizer and scheduler that differ from the Trainer's arguments."""
    for key in config.collections.get("config.keys", ()):
        path, literal = text_in(key.fields["path"]), key.fields["value"]
        asked = arguments.number(_REPEATED.get(path, ""))
        if asked is None or not isinstance(literal, Value) or not isinstance(literal.value, (int, float)):
            continue
        if asked[1].value != literal.value:
            yield _repeated(path, *asked, literal, key.place)
    yield from _switched_off(config, arguments.told)
    yield from _betas(config, arguments)


def _switched_off(config: Reading, told: Mapping[str, _Asked]) -> Iterator[Member]:
    """A format that the file turns off and an argument on."""
    for key in config.collections.get("config.keys", ()):
        path, literal = text_in(key.fields["path"]), key.fields["value"]
        argument = path.removesuffix(".enabled") if path in ("bf16.enabled", "fp16.enabled") else ""
        asked = told.get(argument)
        if asked is None or not isinstance(asked.value, Value) or asked.value.value is not True:
            continue
        if isinstance(literal, Value) and literal.value is False:
            yield _repeated(path, asked.name, asked.value, literal, key.place)


def _betas(config: Reading, arguments: _Arguments) -> Iterator[Member]:
    """Adam's two betas, which stand in a list in the file."""
    for key in config.collections.get("config.keys", ()):
        items = key.fields.get("items")
        if text_in(key.fields["path"]) != "optimizer.params.betas" or not isinstance(items, Value):
            continue
        for literal, name in zip(cast("tuple[Plain, ...]", items.value), _BETAS, strict=False):
            asked = arguments.number(name)
            if asked is not None and asked[1].value != literal:
                yield _repeated("optimizer.params.betas", *asked, items._replace(value=literal), key.place)
                return


def has_no_decay(readings: Sequence[Reading]) -> bool:
    """Whether the Trainer is told a weight decay of 0, or its arguments are all known and name none."""
    members = [each for reading in readings for each in reading.collections.get("config.arguments", ())]
    told = [each.fields["value"] for each in members if text_in(each.fields["name"]) == "weight-decay"]
    if told:
        return all(isinstance(value, Value) and value.value == 0 for value in told)
    by_flags = any(reading.layer == "transformers-arguments" for reading in readings)
    return by_flags and trainer_place(readings) is not None


def _arguments(readings: Sequence[Reading], settings: Mapping[str, Setting]) -> _Arguments:
    """The Trainer's arguments that no setting of the plan holds. What the calls of a program say of them counts before
    the fields that it declares.
    """
    own = sorted(_own(readings), key=lambda reading: (reading.layer == _ASSIGNED, reading.layer != _DECLARED))
    told = {
        text_in(each.fields["name"]): _Asked(_spelled(reading, text_in(each.fields["name"])), each.fields["value"])
        for reading in own
        for each in reading.collections.get("config.arguments", ())
    }
    return _Arguments({**_unasked_numbers(readings, own, settings), **told})


_DECLARED = "transformers-declared"
"""The layer of arguments that a program declares itself."""
_ASSIGNED = "assigned-arguments"
"""The layer of what a program sets anew, which counts before all others."""
_CALLED = "transformers-python"
"""The layer of those that a program gives in a call."""


def _own(readings: Sequence[Reading]) -> Iterator[Reading]:
    return (reading for reading in readings if reading.layer.startswith("transformers") or reading.layer == _ASSIGNED)


def _unasked_numbers(
    readings: Sequence[Reading], own: Sequence[Reading], settings: Mapping[str, Setting]
) -> Mapping[str, _Asked]:
    """The numbers that arguments have which are not written, where it is known that they are not."""
    placed = [reading for reading in own if reading.place is not None]
    if trainer_place(readings) is None or not placed:
        return {}
    chief = next((reading for reading in placed if reading.layer == _CALLED), placed[0])
    rates = word_in(settings, "frontend") not in _OWN_RATES
    return {
        name: _Asked(_spelled(chief, name), Value(number, Origin("default", note=TRAINER)))
        for name, number in _UNASKED.items()
        if rates or name != "learning-rate"
    }


def _spelled(reading: Reading, name: str) -> str:
    """An argument as its source has it: a flag of a command line, a word of a program or a file."""
    dashes = "--" if reading.layer == "transformers-arguments" else ""
    return dashes + name.replace("-", "_")


def _repeated(path: str, name: str, asked: Value, literal: Value, place: Span) -> Member:
    here = asked.origin.span or place
    fields: dict[str, Setting] = {
        "setting": written(path, place),
        "name": written(name, here),
        "value": asked,
        "winner_name": written(path, place),
        "winner": literal,
        "effect": written("refused", place),
    }
    return Member(here, fields, ((place, f"{path} = {literal.value}"),))


def _unasked(readings: Sequence[Reading], config: Reading, setting: str) -> tuple[Claim, Value] | None:
    """What the file says of a setting of which the Trainer's arguments say nothing."""
    claim = claimed([config], setting, config.layer)
    if claim is None or not isinstance(claim.value, Value) or claim.value.origin.span is None:
        return None
    return (claim, claim.value) if claimed(readings, setting, "transformers") is None else None


def _refused(setting: str, argument: str, unasked: Plain, literal: tuple[Claim, Value], home: Span) -> Member:
    claim, value = literal
    place = value.origin.span or home
    fields: dict[str, Setting] = {
        "setting": written(setting, place),
        "name": written(argument, place),
        "value": Value(unasked, Origin("default", note=TRAINER)),
        "winner_name": written(claim.name, place),
        "winner": value,
        "effect": written("refused", place),
    }
    return Member(place, fields, ((home, f"no {argument} among the arguments"),))
