"""What the layer above DeepSpeed or FSDP makes of its config: it fills "auto", refuses what differs from its own
arguments, and leaves out what the file does not ask for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dtlint.frameworks import AUTO, Claim, Member, Reading
from dtlint.plan.derived.registry import TRAINERS
from dtlint.record import NamedTuple
from dtlint.runs.below_stage_3 import OFFLOAD, offloads_nothing
from dtlint.runs.claimed import CONFIG, claimed, says, text_in, trainer_place, word_in
from dtlint.runs.clipped_elsewhere import clip_of_loop, config_kind, keys_in_place_of_file, place_of_config
from dtlint.runs.put_in import (
    ACCUMULATION,
    PUT_IN,
    Replaced,
    ignored_accumulation,
    refused_batch,
    replaced_accumulation,
)
from dtlint.runs.quoted import quoted
from dtlint.runs.registered import unfilled_registrations
from dtlint.runs.repeated import MATCHED, TRAINER, conflicts, default_conflicts, has_no_decay, owned_by_lightning
from dtlint.runs.settle import DEEPSPEED_CONFIGS, starts_engine
from dtlint.runs.trainer_arguments import refused_arguments
from dtlint.value import Origin, Setting, Unknown, Value, written

FILLERS = (*TRAINERS, "accelerate")
"""Front ends that fill "auto"."""

SECTION = "accelerate-yaml"
"""Accelerate's own keys of DeepSpeed, which the Trainer compares with its arguments as it compares a file."""
_CONFLICTS = "config.conflicts"
_SELF_FILLED = frozenset({"communication.bucket_bytes"})
"""Settings whose "auto" follows from the model, not from an argument."""

LOADED_IN = "torch_dtype"
"""The argument of from_pretrained that says in which format a model is loaded."""

_CPU_ADAMS = ("adamw", "adagrad", "lion")
"""Optimizers of --optim that have a twin on the CPU (accelerate utils/deepspeed.py, map_pytorch_optim_to_deepspeed)."""


_HANDED_TO_TRAINER = ("transformers", "axolotl")
"""Layers whose clipping is the Trainer's."""


class HandOver(NamedTuple):
    """The settings as the framework gets them, and what there is to say about the way there; `decided` here whichever
    of the claims would count elsewhere.
    """

    settings: Mapping[str, Setting]
    collections: Mapping[str, tuple[Member, ...]]
    decided: frozenset[str] = frozenset()


def hand_over(readings: Sequence[Reading], settings: Mapping[str, Setting]) -> HandOver:
    """Apply what the front end does to the settings that its readers and those of the framework claim.

    Collections: config.conflicts (literals that differ from an argument that is not written), config.left_out (what
    the Trainer is told and the file does not take over), config.exchanged (an optimizer that becomes another one),
    config.inert (parameters that stay on the GPU below stage 3).
    """
    idle = offloads_nothing(readings, settings)
    handed = _handed(readings, {name: value for name, value in settings.items() if not idle or name != OFFLOAD})
    inert = (*handed.collections.get("config.inert", ()), *idle)
    return handed._replace(collections={**handed.collections, "config.inert": inert}) if idle else handed


def _handed(readings: Sequence[Reading], settings: Mapping[str, Setting]) -> HandOver:
    frontend = word_in(settings, "frontend")
    if frontend in TRAINERS:
        filled = _filled(settings)
        config = _config(readings)
        trained = _trained(readings, {**filled, **_clip_unasked(readings, settings, config)}, config)
        return trained._replace(collections={**trained.collections, **_refused(readings, settings, config)})
    if frontend == "lightning":
        clashes = tuple(owned_by_lightning(readings))
        return HandOver(settings, {"config.conflicts": clashes} if clashes else {})
    if frontend in FILLERS:
        return _looped(readings, settings)
    if not frontend and _asks_for_filling(readings) and not _calls_deepspeed(readings, settings):
        return HandOver({**settings, "frontend": Unknown('no file tells who fills "auto"', "--set frontend=...")}, {})
    return HandOver(settings, {})


def _looped(readings: Sequence[Reading], settings: Mapping[str, Setting]) -> HandOver:
    """What a loop of its own with Accelerate makes of the config."""
    config = _config(readings) if word_in(settings, "framework") == "deepspeed" else None
    left_out, filled = _left_out_of_loop(readings, settings), _filled(settings)
    if config is None:
        return HandOver(filled, left_out)
    ignored = ignored_accumulation(readings, config, settings)
    told = {"config.conflicts": ignored, "config.auto": unfilled_registrations(readings, config, settings)}
    collections = {**left_out, **{name: members for name, members in told.items() if members}}
    found = HandOver({**filled, ACCUMULATION: PUT_IN} if ignored else filled, collections)
    return _with_replaced(found, replaced_accumulation(readings, config, settings))


def _with_replaced(found: HandOver, replaced: Replaced | None) -> HandOver:
    """What the Accelerator's own accumulation makes of it, where that replaces the config's."""
    if replaced is None:
        return found
    conflicts = (*found.collections.get(_CONFLICTS, ()), *replaced.conflicts)
    collections = {**found.collections, _CONFLICTS: conflicts} if conflicts else found.collections
    return HandOver({**found.settings, ACCUMULATION: replaced.value}, collections, frozenset((ACCUMULATION,)))


def _filled(settings: Mapping[str, Setting]) -> dict[str, Setting]:
    """The settings without the "auto" that the front end fills."""
    return {name: value for name, value in settings.items() if name in _SELF_FILLED or not _is_auto(value)}


def _refused(
    readings: Sequence[Reading], settings: Mapping[str, Setting], config: Reading | None
) -> Mapping[str, tuple[Member, ...]]:
    """What the Trainer refuses of its arguments, and of the config in whichever file it stands."""
    found, texts = refused_arguments(readings, settings), quoted(readings, config) if config is not None else ()
    return {**found, "config.invalid": (*found.get("config.invalid", ()), *texts)} if texts else found


def _config(readings: Sequence[Reading]) -> Reading | None:
    """The DeepSpeed config that the Trainer is given: a file, or a dict of the program."""
    return next((reading for reading in readings if _is_config(reading) and not reading.unread), None)


def _is_config(reading: Reading) -> bool:
    """Whether a reading holds a config; a program that hands on the name of a file holds none itself."""
    handed_on = reading.layer in DEEPSPEED_CONFIGS and bool(reading.frontend) and not reading.files
    return reading.layer == CONFIG or handed_on


def _clip_unasked(
    readings: Sequence[Reading], settings: Mapping[str, Setting], config: Reading | None
) -> dict[str, Setting]:
    """The Trainer's clipping that fills an "auto", where no argument says another."""
    name = "optimizer.clip"
    asks = config is not None and _is_auto(settings.get(name, Unknown("")))
    if not asks or trainer_place(readings) is None:
        return {}
    return {name: Value(MATCHED[name][1], Origin("default", note=TRAINER))}


def _trained(readings: Sequence[Reading], settings: dict[str, Setting], config: Reading | None) -> HandOver:
    settings.update(_placement(readings))
    if word_in(settings, "framework") == "deepspeed" and (config is None or not says(config, "precision.master")):
        settings.pop("precision.master", None)  # DeepSpeed makes its own fp32 copy, however the model was loaded
    if _is_raised(readings, settings):
        settings.pop("precision.master", None)
    if config is None:
        section = next((found for found in readings if found.layer == SECTION and found.framework == "deepspeed"), None)
        clashes = tuple(default_conflicts(readings, section)) if section is not None else ()
        plugin = keys_in_place_of_file(readings)
        left_out = tuple(_left_out(readings, plugin)) if plugin is not None else ()
        found = {"config.conflicts": clashes, "config.left_out": left_out}
        return HandOver(settings, {name: members for name, members in found.items() if members})
    collections = {
        "config.conflicts": (*conflicts(readings, config, settings), *refused_batch(readings, config, settings)),
        "config.left_out": tuple(_left_out(readings, config)),
        "config.exchanged": tuple(_exchanged(readings, config, settings)),
        "config.auto": unfilled_registrations(readings, config, settings),
    }
    if collections["config.left_out"]:
        settings.pop("optimizer.clip", None)
    return HandOver(settings, {name: members for name, members in collections.items() if members})


def _is_raised(readings: Sequence[Reading], settings: Mapping[str, Setting]) -> bool:
    """Whether weights that were loaded in 16 bits train in fp32: Accelerate's FSDP raises them under mixed precision
    (0.30 on, accelerator.py prepare_model and utils/fsdp_utils.py fsdp2_prepare_model).
    """
    loaded = claimed(readings, "precision.master", "transformers-python")
    mixed = claimed(readings, "precision.compute", "") is not None
    return word_in(settings, "framework") == "fsdp" and loaded is not None and loaded.name == LOADED_IN and mixed


def _is_auto(value: Setting) -> bool:
    return isinstance(value, Unknown) and value.reason == AUTO


def _asks_for_filling(readings: Sequence[Reading]) -> bool:
    return any(reading.collections.get("config.auto") for reading in readings)


def _calls_deepspeed(readings: Sequence[Reading], settings: Mapping[str, Setting]) -> bool:
    """Whether a program is known to hand the file to DeepSpeed by itself."""
    return starts_engine(readings) or word_in(settings, "framework") == "megatron-deepspeed"


def _placement(readings: Sequence[Reading]) -> dict[str, Setting]:
    """Where recomputation is wrapped, where FSDP's own config asks for it; the Trainer's arguments may ask for it too,
    on a command line, in a file or in code.
    """
    inside = claimed(readings, "checkpointing.activations", "transformers-fsdp") or _claimed_by_accelerate(readings)
    outside = claimed(readings, "checkpointing.placement", "transformers")
    if inside is None or not isinstance(inside.value, Value):
        return {}
    return {"checkpointing.placement": inside.value._replace(value="both" if outside is not None else "inside")}


def _claimed_by_accelerate(readings: Sequence[Reading]) -> Claim | None:
    """Recomputation inside the units that Accelerate's own keys of FSDP turn on."""
    claim = claimed(readings, "checkpointing.activations", "accelerate")
    on = claim is not None and isinstance(claim.value, Value) and claim.value.value == "full"
    return claim if on and claim is not None and claim.name.endswith("fsdp_activation_checkpointing") else None


def _left_out(readings: Sequence[Reading], config: Reading) -> Iterator[Member]:
    """The Trainer's clipping where the file, or Accelerate's keys in its place, has no key that takes it over."""
    if config.place is None or config.open or says(config, "optimizer.clip"):
        return
    told = (claimed(readings, "optimizer.clip", layer) for layer in _HANDED_TO_TRAINER)
    claim = next((each for each in told if each is not None), None)
    value: Setting = claim.value if claim is not None else Value(1.0, Origin("default", note=TRAINER))
    if not isinstance(value, Value) or not value.value or (claim is None and trainer_place(readings) is None):
        return
    place = place_of_config(config) or config.place
    fields: dict[str, Setting] = {
        "key": written("gradient_clipping", place),
        "name": written("max_grad_norm", place),
        "value": value,
        "asked": written("yes" if claim is not None else "no", place),
        "by": written(config_kind(config), place),
        "who": written("trainer", place),
    }
    related = ((value.origin.span, "asked for here"),) if value.origin.span is not None else ()
    yield Member(place, fields, related)


def _left_out_of_loop(readings: Sequence[Reading], settings: Mapping[str, Setting]) -> Mapping[str, tuple[Member, ...]]:
    """config.left_out: the norm that an Accelerator is told to clip at, where DeepSpeed is not told the same; under
    DeepSpeed the call does nothing (accelerator.py, clip_grad_norm_).
    """
    if word_in(settings, "framework") != "deepspeed":
        return {}
    config = _config(readings) or keys_in_place_of_file(readings, keeping_clip=True)
    told = next((clip for each in readings for clip in each.collections.get("code.accelerated_clips", ())), None)
    found = clip_of_loop(readings, config, told) if config is not None and told is not None else None
    return {"config.left_out": (found,)} if found is not None else {}


def _exchanged(readings: Sequence[Reading], config: Reading, settings: Mapping[str, Setting]) -> Iterator[Member]:
    """An optimizer of --optim that Accelerate replaces by DeepSpeed's CPU Adam, since the optimizer is offloaded;
    `alike` (yes, no): whether it is an Adam, which without weight decay steps alike.
    """
    offload, optimizer = settings.get("sharding.offload_optimizer"), settings.get("optimizer.name")
    moved = word_in(settings, "sharding.offload_optimizer") in ("cpu", "nvme")
    if not moved or says(config, "optimizer.name") or _keeps_optimizer(config):
        return
    if not isinstance(optimizer, Value) or not isinstance(offload, Value) or optimizer.origin.span is None:
        return
    name = str(optimizer.value).lower()
    if any(name.startswith(twin) for twin in _CPU_ADAMS) and "8bit" not in name and "4bit" not in name:
        return
    place = optimizer.origin.span
    alike = "adam" in name and has_no_decay(readings)
    fields: dict[str, Setting] = {
        "optimizer": optimizer,
        "device": offload,
        "alike": written("yes" if alike else "no", place),
    }
    related = ((offload.origin.span, "the optimizer is offloaded here"),) if offload.origin.span is not None else ()
    yield Member(place, fields, related)


def _keeps_optimizer(config: Reading) -> bool:
    """Whether the file lets DeepSpeed offload an optimizer that is not its own."""
    keys = config.collections.get("config.keys", ())
    values = [key.fields["value"] for key in keys if text_in(key.fields["path"]) == "zero_force_ds_cpu_optimizer"]
    return any(isinstance(value, Value) and value.value is False for value in values) or any(
        text_in(key.fields["path"]).startswith("optimizer") for key in keys
    )
