"""Which model answers for the reference of TRL's trainers in a Python program."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from dtlint.frameworks import Claim
from dtlint.frameworks.pytorch.model_loading import LOADERS
from dtlint.frameworks.reference_model import REFERENCE, unknown_reference
from dtlint.languages.python.calls import Call, argument, call_at, called, passed
from dtlint.languages.python.constants import live_ways
from dtlint.languages.python.instances import foreign_bases, instances, with_bases
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Program, all_modules, subclasses
from dtlint.languages.python.reach import standing, stands
from dtlint.languages.python.tree import Module, Scope
from dtlint.value import Setting, Value, written

_COMPARING = ("trl.DPOTrainer", "trl.KTOTrainer", "trl.BCOTrainer")
"""Trainers that take a reference model, and make one of the model where none is passed and no adapters train
(trainer/dpo_trainer.py, kto_trainer.py and bco_trainer.py of trl 0.9.6, 0.15.2 and 0.24.0)."""
_KEPT: Mapping[str, str] = {
    "trl.GRPOTrainer": "by-weight",
    "trl.RLOOTrainer": "adapters-off",
    "trl.OnlineDPOTrainer": "adapters-off",
    "trl.NashMDTrainer": "adapters-off",
    "trl.XPOTrainer": "adapters-off",
    "trl.PPOTrainer": "further",
    "trl.PPOv2Trainer": "further",
    "trl.SFTTrainer": "none",
    "trl.RewardTrainer": "none",
    "trl.ORPOTrainer": "none",
    "trl.CPOTrainer": "none",
}
"""What the other trainers keep beside the model (the same releases; grpo_trainer.py from 0.16.1 on)."""
_FURTHER = ("reward_model", "ref_policy", "value_model")
"""Parameters of models beside the one that trains and its reference."""
_TEACHING = ("trl.GKDTrainer", "trl.MiniLLMTrainer")
_TRAINERS = (*_COMPARING, *_KEPT, *_TEACHING)
_COPIES = ("trl.create_reference_model", "trl.models.create_reference_model", "copy.deepcopy")
_ADAPTERS = "peft.LoraConfig"
_MODEL, _REFERENCE = "model", "ref_model"


def reference_claims(program: Program) -> Iterator[Claim]:
    """What the one trainer that runs keeps; unknown where one of several may run that keep different models."""
    found = standing(program, _TRAINERS)
    kept = [(call, _kept(call, program)) for call in found]
    kept.extend(_of_own_classes(program))
    if not kept:
        return
    first, setting = kept[0]
    alike = len({each.value if isinstance(each, Value) else None for _, each in kept}) == 1
    yield Claim(
        REFERENCE, setting if alike else unknown_reference("one of several trainers runs", first.head), first.name
    )


def _of_own_classes(program: Program) -> Iterator[tuple[Call, Setting]]:
    """The same of classes that the program builds on a trainer which keeps a model; one that is made in another way
    may keep what it likes.
    """
    for name in (each for each in _TRAINERS if _KEPT.get(each) != "none"):
        for owner, place in _built(program, name):
            call = call_at(place, name)
            own = any(f"{each.name}.__init__" in module.definitions for module, each in owner)
            yield (
                call,
                unknown_reference("a trainer of the program's own is made", call.head) if own else _kept(call, program),
            )


def _built(program: Program, name: str) -> Iterator[tuple[list[tuple[Module, Scope]], Place]]:
    """Where classes below a trainer are called, each with those of the program that it inherits from."""
    for scope in subclasses(program, name.rpartition(".")[2]):
        word = scope.name.rpartition(".")[2]
        for module in all_modules(program).values():
            for place in (place_of(program, module, site) for site in module.called.get(word, ())):
                if stands(place) is not False and name in foreign_bases(place):
                    owners = [each.definition for each in instances(place)]
                    below = [found for owner in owners for found in with_bases(place, owner)]
                    yield [(found.module, found.scope) for found in below], place


def _kept(call: Call, program: Program) -> Setting:
    if call.name in _TEACHING:
        return unknown_reference("how large the teacher is is not known", call.head)
    if call.name not in _COMPARING:
        further = any(name in call.keywords for name in _FURTHER)
        return written("further" if further and _KEPT[call.name] == "adapters-off" else _KEPT[call.name], call.head)
    if call.open:
        return unknown_reference(f"{call.open} may pass a reference model", call.head)
    ends = _ends(call, _REFERENCE, 1)
    if all(_is_none(end) for end in ends):
        return written("none" if _trains_adapters(call) else "adapters-off", call.head)
    copies = [end for end in ends if not _is_none(end)]
    if all(_is_copy(end, call, program) for end in copies):
        return written("copy" if len(copies) == len(ends) else "adapters-off", call.head)
    return unknown_reference("the reference model may be another than the one that trains", call.head)


def _ends(call: Call, name: str, position: int) -> list[Place | None]:
    """What an argument may stand for, None for what is not known; nothing where it is left out."""
    found = [way for item in passed(call, name, position) for way, _ in live_ways(item.place)]
    return [way.end if isinstance(way.end, Place) else None for way in found]


def _is_none(end: Place | None) -> bool:
    return end is not None and isinstance(end.node, ast.Constant) and end.node.value is None


def _is_copy(end: Place | None, call: Call, program: Program) -> bool:
    """Whether a model is made from the one that trains: the same, a copy of it, or loaded by the same name."""
    if end is None:
        return False
    if called(end) in _COPIES:
        return True
    own = _ends(call, _MODEL, 0)
    if any(each is not None and each.node is end.node for each in own):
        return True
    name = _loaded(end)
    return bool(name) and name in {_loaded(each) for each in own if each is not None and each.node is not end.node}


def _loaded(end: Place) -> str:
    """The name by which a model is loaded, as it is written; "" for what is no load of one."""
    name = called(end)
    if name not in LOADERS:
        return ""
    given = passed(call_at(end, name), "pretrained_model_name_or_path", 0)
    value = argument(call_at(end, name), "pretrained_model_name_or_path", 0)
    if isinstance(value, Value):
        return str(value.value)
    return given[0].place.module.text(given[0].place.node) if given else ""


def _trains_adapters(call: Call) -> bool:
    """Whether the trainer certainly adds adapters to the model."""
    ends = _ends(call, "peft_config", len(call.positional))
    return bool(ends) and all(end is not None and called(end) == _ADAPTERS for end in ends)
