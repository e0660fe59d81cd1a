"""How the files of a run speak: where an absent setting would be written, and in which words."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from types import ModuleType

from dtlint.frameworks import Reading
from dtlint.plan import Dialect, term
from dtlint.source import Span
from dtlint.value import Plain, Value

MODULES = {
    "megatron-arguments": "megatron",
    "deepspeed-json": "deepspeed",
    "deepspeed-python": "deepspeed_python",
    "torchrun": "torchrun",
    "sbatch": "slurm",
    "srun": "slurm",
    "fsdp-python": "fsdp",
    "ddp-python": "ddp",
    "accelerate-flags": "accelerate_launcher",
    "accelerate-yaml": "accelerate",
    "transformers-arguments": "transformers",
    "transformers-file": "transformers",
    "transformers-fsdp": "transformers_fsdp",
    "transformers-python": "transformers_python",
}
"""Which framework module spells the settings of a layer (`spell`) and knows where they go (`home`, if it can tell)."""


_SPEAK_FOR = ("megatron-arguments", "accelerate-flags", "accelerate-yaml")
"""Layers that write a setting in the words of the framework in charge."""


def dialect_of(readings: Sequence[Reading], framework: str) -> Dialect:
    """The dialect of these readings: those that state a setting speak for it, else the first one that knows it."""

    speaking = sorted(readings, key=lambda reading: not reading.claims)

    def home(setting: str) -> Span | None:
        for reading in speaking:
            if any(_spelled(reading, setting, value, framework) is not None for value in _samples(setting)):
                return _home(reading, setting)
        return None

    def spell(setting: str, value: Plain) -> str:
        saying = [reading for reading in readings if _states(reading, setting)] or speaking
        spelled = [text for reading in saying if (text := _spelled(reading, setting, value, framework)) is not None]
        if not spelled:
            return f"{setting} = {str(value).lower() if isinstance(value, bool) else value}"
        return " and ".join(dict.fromkeys(spelled)) if saying is not speaking else spelled[0]

    def stated(setting: str) -> tuple[Value, ...]:
        claims = (claim for reading in readings for claim in reading.claims if claim.setting == setting)
        return tuple(claim.value for claim in claims if isinstance(claim.value, Value))

    return Dialect(home, spell, stated)


def _states(reading: Reading, setting: str) -> bool:
    return any(claim.setting == setting and isinstance(claim.value, Value) for claim in reading.claims)


def _samples(setting: str) -> tuple[Plain, ...]:
    """Values by which to ask whether a front end writes the setting at all."""
    found = term(setting)
    return found.values or {"flag": (True, False), "word": ("x",), "words": (("x",),), "map": ()}.get(
        found.type, (1, 2)
    )


def _spelled(reading: Reading, setting: str, value: Plain, framework: str) -> str | None:
    if reading.layer not in MODULES:
        return None
    more = (framework,) if reading.layer in _SPEAK_FOR and framework else ()
    found: str | None = _module(reading).spell(setting, value, *more)
    return found


def _home(reading: Reading, setting: str) -> Span | None:
    find = getattr(_module(reading), "home", None)
    found: Span | None = find(reading, setting) if find is not None else reading.place
    return found


def _module(reading: Reading) -> ModuleType:
    return import_module(f"dtlint.frameworks.{MODULES[reading.layer]}")
