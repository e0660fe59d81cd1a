"""Configs that stand beside a launch which names none: whether one of them can be its config."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dtlint.frameworks import Reading
from dtlint.runs.configs import Config

ACCELERATE = "accelerate-yaml"
DEEPSPEED = "deepspeed-json"
ARGUMENTS = "transformers-file"
_OVERRIDDEN = {"torchtitan-toml": "torchtitan-arguments", "nemo-yaml": "nemo-arguments"}
"""Configs that their program's command line overrides, with the layer of that line."""
_LAUNCHED = "accelerate-flags"
_ONE_PROCESS = "python"
_OF_DEEPSPEED = ("deepspeed", "megatron-deepspeed")
_FLAGS = "transformers-arguments"
"""The layer of a command line that holds the Trainer's arguments."""
_CALL = "transformers-python"
"""The layer of what a program's calls say of them."""
_ARGUMENTS = "config.arguments"
_TOLD = (_FLAGS, "megatron-arguments")
"""Layers of command lines that hold the arguments themselves."""


def lone_configs(free: Sequence[Config], readings: Sequence[Reading]) -> list[Config]:
    """The configs of `free` that the launch of `readings` takes: of each kind the only one, if the launch has none of
    that kind and can use it.
    """
    taken: list[Config] = []
    for layer in (*_OVERRIDDEN, ARGUMENTS, ACCELERATE, DEEPSPEED):
        alike = [config for config in free if config.reading.layer == layer]
        if len(alike) == 1 and _wanted(layer, [*readings, *(config.reading for config in taken)]):
            taken.append(alike[0])
    return taken


def one_run(layers: Sequence[str]) -> bool:
    """Whether configs of these layers, of which no launch is known, are the parts of one run: a file of arguments
    with the config of Accelerate or DeepSpeed beside it.
    """
    return sorted(layers) in (sorted((ARGUMENTS, ACCELERATE)), sorted((ARGUMENTS, DEEPSPEED)))


def accelerate_launch(readings: Iterable[Reading]) -> Reading | None:
    """What `accelerate launch` says, if it is the launcher and none of its configs has been read."""
    if any(reading.layer == ACCELERATE for reading in readings):
        return None
    return next((reading for reading in readings if reading.layer == _LAUNCHED), None)


def _wanted(layer: str, readings: Sequence[Reading]) -> bool:
    if any(reading.layer == layer and not reading.unread for reading in readings):
        return False
    if layer in _OVERRIDDEN:
        return any(reading.layer == _OVERRIDDEN[layer] for reading in readings)
    if layer == ACCELERATE:
        return any(reading.layer == _LAUNCHED for reading in readings)
    if layer == ARGUMENTS:
        return not any(reading.layer in _TOLD for reading in readings)
    chosen = [reading.framework for reading in readings if reading.layer in (ACCELERATE, _LAUNCHED)]
    return all(framework in ("", "deepspeed") for framework in chosen) and _may_use_deepspeed(readings)


def _may_use_deepspeed(readings: Sequence[Reading]) -> bool:
    """Whether a launch can take a config of DeepSpeed: it speaks of DeepSpeed; or nothing in it wraps the model in
    another way, and it starts several processes, or a program whose code hands its arguments to the Trainer. A Trainer
    takes none whose arguments stand in a command line that is known to the end, and has no --deepspeed.
    """
    told = {reading.framework for reading in readings if reading.framework}
    if told:
        return not told.isdisjoint(_OF_DEEPSPEED)
    if _tells_all(readings):
        return False
    if not any(reading.layer == _ONE_PROCESS for reading in readings):
        return True
    return any(reading.frontend and reading.layer.endswith("-python") for reading in readings)


def _tells_all(readings: Sequence[Reading]) -> bool:
    """Whether a command line holds arguments of the Trainer, and neither it nor a call in the program may hold more."""
    flags = [reading for reading in readings if reading.layer == _FLAGS]
    told = any(reading.claims or reading.collections.get(_ARGUMENTS) for reading in flags)
    return told and not any(reading.open for reading in readings if reading.layer in (_FLAGS, _CALL))
