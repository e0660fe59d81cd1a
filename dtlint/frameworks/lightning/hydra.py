"""Lightning's Trainer as hydra makes it of a config (`instantiate(cfg.trainer)`, whose `_target_` is the Trainer)."""

from __future__ import annotations

from collections.abc import Sequence

from dtlint.frameworks import Reading
from dtlint.frameworks.arguments import stretch
from dtlint.frameworks.dotted_keys import Keys, hiding, keys_of, spelled
from dtlint.frameworks.hydra.command_line import overrides
from dtlint.frameworks.hydra.omegaconf import resolved
from dtlint.frameworks.lightning.faults import is_of_lightning, refused_arguments
from dtlint.frameworks.lightning.strategies import files_of, strategy_of
from dtlint.frameworks.lightning.trainer import (
    expected,
    framework_of,
    launch_claims,
    names,
    training_claims,
    trains_on_gpus,
)
from dtlint.frameworks.options import literal_place
from dtlint.languages.json_tree import Document
from dtlint.languages.traced import Word
from dtlint.source import Span
from dtlint.value import Plain, Unknown

LAYER = "lightning-hydra"
ROLE = "lightning_hydra"
_TARGET = "._target_"
_SECTION = "trainer"
"""The section that a program hands to its Trainer (`Trainer(**cfg.trainer)`) where none has it as its target."""
_PACKAGES = ("lightning", "pytorch_lightning", "lightning_fabric")
_CLASSES = ("Trainer", "Fabric")


def read_composed(document: Document | None, program: Sequence[Word], missing: Sequence[str]) -> Reading:
    """What the one section claims that a Trainer or a Fabric is made of, with the overrides of the command line. What a
    config that was not found may say is not known.
    """
    if document is None:
        return Reading("program")
    keys = resolved(keys_of(document.root, overrides(program[1:])))
    sections = [name.removesuffix(_TARGET) for name in keys.nodes if _is_trainer(keys, name)]
    if not sections and f"{_SECTION}{_TARGET}" not in keys.nodes and is_of_lightning(_names_in(keys, _SECTION)):
        sections = [_SECTION]
    if len(sections) != 1:
        return Reading("program")
    reading = _of_section(keys, sections[0], stretch(program[1:], literal_place(program[0])))
    return _without_parts(reading, sections[0], missing[0]) if missing else reading


def _without_parts(reading: Reading, section: str, missing: str) -> Reading:
    """A reading of a config parts of which are not here: they may say what it does not."""
    why = Unknown(f"{missing} was not found", "--set launch.processes_per_node=N")
    trainers = (
        member._replace(fields={"devices": why, **member.fields}) for member in reading.collections["code.trainers"]
    )
    hidden = hiding(reading, names(section), why.reason)
    return hidden._replace(collections={**reading.collections, "code.trainers": tuple(trainers)})


def spell_in(reading: Reading, setting_name: str, value: Plain) -> str | None:
    """A setting as the config has it (`trainer.num_nodes: 2`), or as an override of hydra's command line."""
    known_as = names(_section_of(reading)).get(setting_name)
    words = {"precision.compute": {"bf16": "bf16-mixed", "fp16": "16-mixed", "fp32": "32-true"}}.get(setting_name)
    text = str(value).lower() if isinstance(value, bool) else str(value)
    written = text if words is None else words.get(str(value))
    return None if not known_as or written is None else spelled(reading, setting_name, known_as, written, ": ")


def _section_of(reading: Reading) -> str:
    """The section that a reading was made from."""
    stated = next((claim.name for claim in reading.claims if "." in claim.name), "trainer.devices")
    return stated.lstrip("+-").rpartition(".")[0]


def _names_in(keys: Keys, section: str) -> list[str]:
    """What a section says itself, without what stands below that."""
    names = (path.removeprefix(f"{section}.") for path in keys.nodes if path.startswith(f"{section}."))
    return [name for name in names if "." not in name]


def _is_trainer(keys: Keys, name: str) -> bool:
    target = str(keys.known(name) or "") if name.endswith(_TARGET) else ""
    return target.partition(".")[0] in _PACKAGES and target.rpartition(".")[2] in _CLASSES


def _of_section(keys: Keys, section: str, place: Span) -> Reading:
    return Reading(
        LAYER,
        place,
        (*launch_claims(keys, section, place), *training_claims(keys, section)),
        tuple(files_of(strategy_of(keys, section))),
        framework=framework_of(keys, section),
        frontend="lightning",
        role="" if trains_on_gpus(keys, section) else "other",
        collections={"code.trainers": (expected(keys, section, place),), **refused_arguments(keys, section)},
    )
