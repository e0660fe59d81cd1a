"""What the layer above DeepSpeed or FSDP makes of its config: it fills "auto", refuses what differs from its own
arguments, and leaves out what the file does not ask for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from dtlint.frameworks import AUTO, Claim, Member, Reading
from dtlint.plan.derived.registry import TRAINERS
from dtlint.record import NamedTuple
from dtlint.runs.settle import starts_engine
from dtlint.runs.trainer_arguments import refused_arguments
from dtlint.source import Span
from dtlint.value import Origin, Plain, Setting, Unknown, Value, written

FILLERS = (*TRAINERS, "accelerate")
"""Front ends that fill "auto"."""

TRAINER = "Hugging Face Trainer"
CONFIG = "deepspeed-json"
SECTION = "accelerate-yaml"
"""Accelerate's own keys of DeepSpeed, which the Trainer compares with its arguments as it compares a file."""
_SELF_FILLED = frozenset({"communication.bucket_bytes"})
"""Settings whose "auto" follows from the model, not from an argument."""

_MATCHED: Mapping[str, tuple[str, Plain]] = {
    "batch.micro": ("--per_device_train_batch_size", 8),
    "batch.accumulation": ("--gradient_accumulation_steps", 1),
    "optimizer.clip": ("--max_grad_norm", 1.0),
}
"""Arguments that a literal of the file must equal, with the values that they have unasked (transformers
integrations/deepspeed.py, trainer_config_process)."""

_FORMAT_BY_FLAG = ("transformers", "llama-factory")
"""Front ends that train in fp32 where neither --bf16 nor --fp16 is written; others look at the checkpoint."""

_REPEATED: Mapping[str, tuple[str, float]] = {
    "optimizer.params.lr": ("learning-rate", 5e-5),
    "optimizer.params.weight_decay": ("weight-decay", 0.0),
    "optimizer.params.eps": ("adam-epsilon", 1e-8),
    "scheduler.params.warmup_max_lr": ("learning-rate", 5e-5),
}
"""Numbers of the file that an argument repeats, with the values that the arguments have unasked."""

_BETAS: Mapping[str, float] = {"adam-beta1": 0.9, "adam-beta2": 0.999}

LOADED_IN = "torch_dtype"
"""The argument of from_pretrained that says in which format a model is loaded."""

_CPU_ADAMS = ("adamw", "adagrad", "lion")
"""Optimizers of --optim that have a twin on the CPU (accelerate utils/deepspeed.py, map_pytorch_optim_to_deepspeed)."""


class HandOver(NamedTuple):
    """The settings as the framework gets them, and what there is to say about the way there."""

    settings: Mapping[str, Setting]
    collections: Mapping[str, tuple[Member, ...]]


def hand_over(readings: Sequence[Reading], settings: Mapping[str, Setting]) -> HandOver:
    """Apply what the front end does to the settings that its readers and those of the framework claim.

    Collections: config.conflicts (literals that differ from an argument that is not written), config.left_out (what
    the Trainer is told and the file does not take over), config.exchanged (an optimizer that becomes another one).
    """
    frontend = _word(settings, "frontend")
    if frontend in TRAINERS:
        filled = _filled(settings)
        config = _config(readings)
        trained = _trained(readings, {**filled, **_clip_unasked(readings, settings, config)}, config)
        return trained._replace(collections={**trained.collections, **refused_arguments(readings, settings)})
    if frontend in FILLERS:
        return HandOver(_filled(settings), {})
    if not frontend and _asks_for_filling(readings) and not _calls_deepspeed(readings, settings):
        return HandOver({**settings, "frontend": Unknown('no file tells who fills "auto"', "--set frontend=...")}, {})
    return HandOver(settings, {})


def _filled(settings: Mapping[str, Setting]) -> dict[str, Setting]:
    """The settings without the "auto" that the front end fills."""
    return {name: value for name, value in settings.items() if name in _SELF_FILLED or not _is_auto(value)}


def _config(readings: Sequence[Reading]) -> Reading | None:
    return next((reading for reading in readings if reading.layer == CONFIG and not reading.unread), None)


def _clip_unasked(
    readings: Sequence[Reading], settings: Mapping[str, Setting], config: Reading | None
) -> dict[str, Setting]:
    """The Trainer's clipping that fills an "auto", where no argument says another."""
    name = "optimizer.clip"
    asks = config is not None and _is_auto(settings.get(name, Unknown("")))
    if not asks or _trainer_place(readings) is None:
        return {}
    return {name: Value(_MATCHED[name][1], Origin("default", note=TRAINER))}


def _trained(readings: Sequence[Reading], settings: dict[str, Setting], config: Reading | None) -> HandOver:
    settings.update(_placement(readings))
    if _word(settings, "framework") == "deepspeed" and (config is None or not _says(config, "precision.master")):
        settings.pop("precision.master", None)  # DeepSpeed makes its own fp32 copy, however the model was loaded
    if _is_raised(readings, settings):
        settings.pop("precision.master", None)
    if config is None:
        section = next((found for found in readings if found.layer == SECTION and found.framework == "deepspeed"), None)
        clashes = tuple(_default_conflicts(readings, section)) if section is not None else ()
        return HandOver(settings, {"config.conflicts": clashes} if clashes else {})
    collections = {
        "config.conflicts": (
            *_default_conflicts(readings, config),
            *_format_conflict(readings, config, settings),
            *_number_conflicts(readings, config),
        ),
        "config.left_out": tuple(_left_out(readings, config)),
        "config.exchanged": tuple(_exchanged(config, settings)),
    }
    if collections["config.left_out"]:
        settings.pop("optimizer.clip", None)
    return HandOver(settings, {name: members for name, members in collections.items() if members})


def _is_raised(readings: Sequence[Reading], settings: Mapping[str, Setting]) -> bool:
    """Whether weights that were loaded in 16 bits train in fp32: Accelerate's FSDP raises them under mixed precision
    (0.30 on, accelerator.py prepare_model and utils/fsdp_utils.py fsdp2_prepare_model).
    """
    loaded = _claimed(readings, "precision.master", "transformers-python")
    mixed = _claimed(readings, "precision.compute", "") is not None
    return _word(settings, "framework") == "fsdp" and loaded is not None and loaded.name == LOADED_IN and mixed


def _word(settings: Mapping[str, Setting], name: str) -> str:
    found = settings.get(name)
    return str(found.value) if isinstance(found, Value) else ""


def _is_auto(value: Setting) -> bool:
    return isinstance(value, Unknown) and value.reason == AUTO


def _asks_for_filling(readings: Sequence[Reading]) -> bool:
    return any(reading.collections.get("config.auto") for reading in readings)


def _calls_deepspeed(readings: Sequence[Reading], settings: Mapping[str, Setting]) -> bool:
    """Whether a program is known to hand the file to DeepSpeed by itself."""
    return starts_engine(readings) or _word(settings, "framework") == "megatron-deepspeed"


def _placement(readings: Sequence[Reading]) -> dict[str, Setting]:
    """Where recomputation is wrapped, where the file of --fsdp_config asks for it."""
    inside = _claimed(readings, "checkpointing.activations", "transformers-fsdp") or _claimed_by_accelerate(readings)
    outside = _claimed(readings, "checkpointing.placement", "transformers-arguments")
    if inside is None or not isinstance(inside.value, Value):
        return {}
    return {"checkpointing.placement": inside.value._replace(value="both" if outside is not None else "inside")}


def _claimed_by_accelerate(readings: Sequence[Reading]) -> Claim | None:
    """Recomputation inside the units that Accelerate's own keys of FSDP turn on."""
    claim = _claimed(readings, "checkpointing.activations", "accelerate")
    on = claim is not None and isinstance(claim.value, Value) and claim.value.value == "full"
    return claim if on and claim is not None and claim.name.endswith("fsdp_activation_checkpointing") else None


def _claimed(readings: Sequence[Reading], setting: str, layer: str) -> Claim | None:
    """The last claim of a setting in the readings of a layer, or of those whose name begins so."""
    found = (claim for reading in readings if reading.layer.startswith(layer) for claim in reading.claims)
    return next((claim for claim in reversed(list(found)) if claim.setting == setting), None)


def _trainer_place(readings: Sequence[Reading]) -> Span | None:
    """Where the Trainer's arguments stand, if all of them are known, and those that are not written have the
    Trainer's own defaults.
    """
    own = [reading for reading in readings if reading.layer.startswith("transformers") and reading.place is not None]
    if starts_engine(readings) or any(reading.open or reading.frontend == "ms-swift" for reading in own):
        return None
    return own[0].place if own else None


def _says(config: Reading, setting: str) -> bool:
    return _claimed([config], setting, CONFIG) is not None


def _default_conflicts(readings: Sequence[Reading], config: Reading) -> Iterator[Member]:
    """Literals of the file that differ from an argument which is not written."""
    home = _trainer_place(readings)
    if home is None:
        return
    for setting, (argument, unasked) in _MATCHED.items():
        found = _unasked(readings, config, setting)
        if found is not None and found[1].value != unasked:
            yield _refused(setting, argument, unasked, found, home)


def _format_conflict(readings: Sequence[Reading], config: Reading, settings: Mapping[str, Setting]) -> Iterator[Member]:
    """A 16-bit format that the file turns on, and no argument asks for."""
    home, found = _trainer_place(readings), _unasked(readings, config, "precision.compute")
    if home is None or found is None or _word(settings, "frontend") not in _FORMAT_BY_FLAG:
        return
    if found[1].value in ("bf16", "fp16"):
        literal = (found[0], found[1]._replace(value=True))
        yield _refused("precision.compute", f"--{found[1].value}", False, literal, home)


def _number_conflicts(readings: Sequence[Reading], config: Reading) -> Iterator[Member]:
    """Numbers of the file's optimizer and scheduler that differ from the Trainer's arguments."""
    told, home = _told_numbers(readings), _trainer_place(readings)
    for key in config.collections.get("config.keys", ()):
        path, literal = _text(key.fields["path"]), key.fields["value"]
        argument, unasked = _REPEATED.get(path, ("", 0.0))
        if not argument or not isinstance(literal, Value) or not isinstance(literal.value, (int, float)):
            continue
        default = Value(unasked, Origin("default", note=TRAINER)) if home is not None else None
        asked = told.get(argument, default)
        if isinstance(asked, Value) and asked.value != literal.value:
            yield _repeated(path, argument, asked, literal, key.place)
    yield from _switched_off(config, told)
    yield from _betas(config, told, home is not None)


def _switched_off(config: Reading, told: Mapping[str, Setting]) -> Iterator[Member]:
    """A format that the file turns off and an argument on."""
    for key in config.collections.get("config.keys", ()):
        path, literal = _text(key.fields["path"]), key.fields["value"]
        argument = path.removesuffix(".enabled") if path in ("bf16.enabled", "fp16.enabled") else ""
        asked = told.get(argument)
        if isinstance(literal, Value) and literal.value is False and isinstance(asked, Value) and asked.value is True:
            yield _repeated(path, argument, asked, literal, key.place)


def _betas(config: Reading, told: Mapping[str, Setting], complete: bool) -> Iterator[Member]:
    """Adam's two betas, which stand in a list in the file."""
    for key in config.collections.get("config.keys", ()):
        items = key.fields.get("items")
        if _text(key.fields["path"]) != "optimizer.params.betas" or not isinstance(items, Value):
            continue
        for literal, (argument, unasked) in zip(cast("tuple[Plain, ...]", items.value), _BETAS.items(), strict=False):
            default = Value(unasked, Origin("default", note=TRAINER)) if complete else None
            asked = told.get(argument, default)
            if isinstance(asked, Value) and asked.value != literal:
                yield _repeated("optimizer.params.betas", argument, asked, items._replace(value=literal), key.place)
                return


def _told_numbers(readings: Sequence[Reading]) -> dict[str, Setting]:
    """The Trainer's arguments that no setting of the plan holds, by name."""
    own = [reading for reading in readings if reading.layer.startswith("transformers")]
    members = [each for reading in own for each in reading.collections.get("config.arguments", ())]
    return {_text(each.fields["name"]): each.fields["value"] for each in members}


def _repeated(path: str, argument: str, asked: Value, literal: Value, place: Span) -> Member:
    here = asked.origin.span or place
    fields: dict[str, Setting] = {
        "setting": written(path, place),
        "name": written(f"--{argument.replace('-', '_')}", here),
        "value": asked,
        "winner_name": written(path, place),
        "winner": literal,
        "effect": written("refused", place),
    }
    return Member(here, fields, ((place, f"{path} = {literal.value}"),))


def _unasked(readings: Sequence[Reading], config: Reading, setting: str) -> tuple[Claim, Value] | None:
    """What the file says of a setting of which the Trainer's arguments say nothing."""
    claim = _claimed([config], setting, config.layer)
    if claim is None or not isinstance(claim.value, Value) or claim.value.origin.span is None:
        return None
    return (claim, claim.value) if _claimed(readings, setting, "transformers") is None else None


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


def _left_out(readings: Sequence[Reading], config: Reading) -> Iterator[Member]:
    """The Trainer's clipping where the file has no key that takes it over."""
    if config.place is None or config.open or _says(config, "optimizer.clip"):
        return
    claim = _claimed(readings, "optimizer.clip", "transformers")
    value: Setting = claim.value if claim is not None else Value(1.0, Origin("default", note=TRAINER))
    if not isinstance(value, Value) or not value.value or (claim is None and _trainer_place(readings) is None):
        return
    place = config.place
    fields: dict[str, Setting] = {
        "key": written("gradient_clipping", place),
        "name": written("max_grad_norm", place),
        "value": value,
        "asked": written("yes" if claim is not None else "no", place),
    }
    related = ((value.origin.span, "asked for here"),) if value.origin.span is not None else ()
    yield Member(place, fields, related)


def _exchanged(config: Reading, settings: Mapping[str, Setting]) -> Iterator[Member]:
    """An optimizer of --optim that Accelerate replaces by DeepSpeed's CPU Adam, since the optimizer is offloaded."""
    offload, optimizer = settings.get("sharding.offload_optimizer"), settings.get("optimizer.name")
    moved = _word(settings, "sharding.offload_optimizer") in ("cpu", "nvme")
    if not moved or _says(config, "optimizer.name") or _keeps_optimizer(config):
        return
    if not isinstance(optimizer, Value) or not isinstance(offload, Value) or optimizer.origin.span is None:
        return
    name = str(optimizer.value).lower()
    if any(name.startswith(twin) for twin in _CPU_ADAMS) and "8bit" not in name and "4bit" not in name:
        return
    place = optimizer.origin.span
    fields: dict[str, Setting] = {"optimizer": optimizer, "device": offload}
    related = ((offload.origin.span, "the optimizer is offloaded here"),) if offload.origin.span is not None else ()
    yield Member(place, fields, related)


def _keeps_optimizer(config: Reading) -> bool:
    """Whether the file lets DeepSpeed offload an optimizer that is not its own."""
    keys = config.collections.get("config.keys", ())
    values = [key.fields["value"] for key in keys if _text(key.fields["path"]) == "zero_force_ds_cpu_optimizer"]
    return any(isinstance(value, Value) and value.value is False for value in values) or any(
        _text(key.fields["path"]).startswith("optimizer") for key in keys
    )


def _text(value: Setting) -> str:
    return str(value.value) if isinstance(value, Value) else ""
