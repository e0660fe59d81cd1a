"""How the files of a run speak: where an absent setting would be written, and in which words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from types import ModuleType

from dtlint.frameworks import Reading
from dtlint.plan import Dialect, term
from dtlint.source import Edit, Span
from dtlint.value import Plain, Value

MODULES = {
    "megatron-arguments": "megatron",
    "deepspeed-json": "deepspeed.config",
    "deepspeed-python": "deepspeed.program",
    "megatron-python": "megatron.program",
    "torchrun": "torchrun",
    "sbatch": "slurm",
    "srun": "slurm",
    "torchtitan-toml": "torchtitan.config",
    "torchtitan-python": "torchtitan.registry",
    "nemo-yaml": "nemo.config",
    "nemo-python": "nemo.program",
    "nanotron-yaml": "nanotron.config",
    "pytorch-python": "pytorch.program",
    "fsdp-python": "pytorch.fsdp",
    "ddp-python": "pytorch.ddp",
    "accelerate-flags": "accelerate.launcher",
    "accelerate-yaml": "accelerate.config",
    "transformers-arguments": "transformers.arguments",
    "transformers-file": "transformers.arguments",
    "transformers-fsdp": "transformers.fsdp",
    "transformers-python": "transformers.program",
    "verl": "verl.config",
    "verl-critic": "verl.critic",
    "verl-sft": "verl.sft",
    "easyr1": "verl.easyr1",
    "nemo-rl": "nemo.rl",
    "gpt-neox": "gpt_neox",
    "axolotl": "axolotl.config",
    "composer": "composer",
    "openrlhf": "openrlhf.arguments",
    "openrlhf-critic": "openrlhf.critic",
    "litgpt": "litgpt",
    "torchtune": "torchtune.config",
    "olmo": "olmo",
    "finetrainers": "finetrainers",
    "bionemo": "nemo.esm2",
    "lightning-cli": "lightning.cli",
    "lightning-hydra": "lightning.hydra",
    "lightning-python": "lightning.program",
}
"""Which framework module spells the settings of a layer (`spell`, or `spell_in` where the words depend on what else a
text says), knows where they go (`home`, if it can tell) and how to write them there (`edits`, if the form of the text
alone does not tell). `spell_as_stated` says a setting by the word that a text has for it, where there are several.
"""


_SPEAK_FOR = (
    "megatron-arguments",
    "accelerate-flags",
    "accelerate-yaml",
    "transformers-arguments",
    "transformers-file",
    "verl",
    "verl-critic",
    "verl-sft",
    "easyr1",
    "nemo-rl",
    "gpt-neox",
    "axolotl",
    "composer",
    "litgpt",
    "torchtune",
    "olmo",
    "finetrainers",
    "bionemo",
)
"""Layers that write a setting in the words of the framework in charge."""
_OF_TORCH = ("fsdp-python", "ddp-python")
"""Layers of torch's own wrappers, which any program of it may take up: their words are said where there is none yet."""


def dialect_of(readings: Sequence[Reading], framework: str) -> Dialect:
    """The dialect of these readings: those that state a setting speak for it, else the first one that knows it.

    A package's reader that found nothing of its own has no say: `"train_batch_size"` is no word of plain DDP.
    """

    speaking = sorted(filter(_may_speak, readings), key=lambda reading: not reading.claims)

    def home(setting: str) -> Span | None:
        for reading in speaking:
            if any(_spelled(reading, setting, value, framework) is not None for value in _samples(setting)):
                return _home(reading, setting)
        return None

    def spell(setting: str, value: Plain) -> str:
        saying = [reading for reading in readings if _states(reading, setting)]
        told = dict.fromkeys(_all_spelled(saying, setting, value, framework))
        if told:
            return " and ".join(told)
        others = [reading for reading in speaking if not saying or reading.framework == framework]
        found = next(_all_spelled(others, setting, value, framework), None)
        return f"{setting} = {str(value).lower() if isinstance(value, bool) else value}" if found is None else found

    def stated(setting: str) -> tuple[Value, ...]:
        claims = (claim for reading in readings for claim in reading.claims if claim.setting == setting)
        return tuple(claim.value for claim in claims if isinstance(claim.value, Value))

    def edits(setting: str, value: Plain) -> tuple[Edit, ...]:
        writable = [reading for reading in readings if _spelled(reading, setting, value, framework) is not None]
        stating = [reading for reading in readings if _writes(reading, setting)]
        if stating:
            return tuple(edit for reading in stating for edit in _rewritten(reading, setting, value, framework))
        return next((made for reading in writable if (made := _added(reading, setting, value, framework))), ())

    refused = frozenset(flag for reading in readings for flag in reading.refuses)
    return Dialect(home, spell, stated, edits, refused)


def _rewritten(reading: Reading, setting: str, value: Plain, framework: str) -> tuple[Edit, ...]:
    """What gives a setting that a reading states another value: by the front end's own way, by another word in a
    config, or a flag taken out.
    """
    from dtlint.runs.writing import place_of, removed, replaced

    write = getattr(_module(reading), "edits", None) if reading.layer in MODULES else None
    if write is not None:
        made: tuple[Edit, ...] = write(reading, setting, value)
        return made
    spelled = _spelled(reading, setting, value, framework)
    worded = replaced(reading, setting, spelled) if spelled else None
    if worded is not None:
        return (worded,)
    spans = [place_of(claim) for claim in reading.claims if claim.setting == setting and value is False]
    taken = [removed(span) for span in spans if span is not None]
    return tuple(edit for edit in taken if edit is not None)


def _added(reading: Reading, setting: str, value: Plain, framework: str) -> tuple[Edit, ...]:
    """What adds a setting to a reading's text."""
    from dtlint.runs.writing import added

    write = getattr(_module(reading), "edits", None)
    if write is not None:
        made: tuple[Edit, ...] = write(reading, setting, value)
        return made
    spelled = _spelled(reading, setting, value, framework)
    edit = added(reading, spelled) if spelled else None
    return () if edit is None else (edit,)


def _may_speak(reading: Reading) -> bool:
    return bool(reading.claims) or reading.place is not None or reading.layer in _OF_TORCH


def _states(reading: Reading, setting: str) -> bool:
    return any(claim.setting == setting and isinstance(claim.value, Value) for claim in reading.claims)


def _writes(reading: Reading, setting: str) -> bool:
    """Whether the setting stands in the text, and is not only what a front end takes for it."""
    values = [claim.value for claim in reading.claims if claim.setting == setting]
    return any(isinstance(value, Value) and value.origin.kind != "default" for value in values)


def _samples(setting: str) -> tuple[Plain, ...]:
    """Values by which to ask whether a front end writes the setting at all."""
    found = term(setting)
    return found.values or {"flag": (True, False), "word": ("x",), "words": (("x",),), "map": ()}.get(
        found.type, (1, 2)
    )


def _spelled(reading: Reading, setting: str, value: Plain, framework: str) -> str | None:
    if reading.layer not in MODULES:
        return None
    within = getattr(_module(reading), "spell_in", None)
    if within is not None:
        said: str | None = within(reading, setting, value)
        return said
    stated: str | None = getattr(_module(reading), "spell_as_stated", _not_said)(reading, setting, value)
    if stated is not None:
        return stated
    more = (framework,) if reading.layer in _SPEAK_FOR and framework else ()
    found: str | None = _module(reading).spell(setting, value, *more)
    return found


def _not_said(reading: Reading, setting: str, value: Plain) -> None:
    """What a module says that spells a setting in one way, whatever a text has."""


def _all_spelled(readings: Sequence[Reading], setting: str, value: Plain, framework: str) -> Iterator[str]:
    spelled = (_spelled(reading, setting, value, framework) for reading in readings)
    return (text for text in spelled if text is not None)


def _home(reading: Reading, setting: str) -> Span | None:
    find = getattr(_module(reading), "home", None)
    found: Span | None = find(reading, setting) if find is not None else reading.place
    return found


def _module(reading: Reading) -> ModuleType:
    return import_module(f"dtlint.frameworks.{MODULES[reading.layer]}")
