"""Engines of DeepSpeed whose config is not among the files: none starts without one, so that none of its settings has
DeepSpeed's default unseen.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from dtlint.frameworks import Reading
from dtlint.record import NamedTuple
from dtlint.runs.beside import DEEPSPEED
from dtlint.source import Source

Read = Sequence[tuple[Source, Reading]]
"""What one file is read together with, each with the file that it is from."""

ENGINE = "deepspeed-python"
_OWN_ARGUMENTS = frozenset(("megatron-arguments",))
"""Front ends whose arguments say what the config does, or that there is none."""


def with_awaited_config(readings: Sequence[Reading]) -> tuple[Reading, ...]:
    """The readings, with what the engine's config holds unread where it is named by a command line, or made by code,
    that is not read.
    """
    engine = next((reading for reading in readings if awaits_config(reading)), None)
    if engine is None or any(reading.layer == DEEPSPEED or reading.layer in _OWN_ARGUMENTS for reading in readings):
        return tuple(readings)
    reason = engine.open or "the command line that starts the program names the DeepSpeed config"
    return (*readings, Reading(DEEPSPEED, framework="deepspeed", unread=reason))


def awaits_config(reading: Reading) -> bool:
    """Whether a reading is that of an engine that the program itself starts, of whose config nothing is known."""
    starts = reading.layer == ENGINE and bool(reading.framework) and not reading.frontend
    return starts and not reading.claims and not reading.files


class Recipe(NamedTuple):
    """A program that awaits a config and the config beside it, with what to say of their being taken together."""

    program: Read
    config: Read
    sentence: str

    @property
    def whole(self) -> list[tuple[Source, Reading]]:
        """All that is read together."""
        return [*self.program, *self.config]


def of_one_recipe(configs: Sequence[Read], programs: Sequence[Read]) -> Recipe | None:
    """The only program whose engine awaits a config with the only config of DeepSpeed, where they stand in one folder
    and no launch is known.
    """
    waiting = [parts for parts in programs if any(awaits_config(reading) for _, reading in parts)]
    engines = [parts for parts in configs if parts[0][1].layer == DEEPSPEED]
    if len(waiting) != 1 or len(engines) != 1:
        return None
    (program,), (config,) = waiting, engines
    path, file = PurePosixPath(program[0][0].path), PurePosixPath(config[0][0].path)
    if path.parent != file.parent:
        return None
    sentence = f"no launch is known of {path}; {file} stands beside it and was taken as its DeepSpeed config"
    return Recipe(program, config, sentence)
