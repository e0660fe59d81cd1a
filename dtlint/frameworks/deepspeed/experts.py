"""DeepSpeed's layers of experts: how many experts a program's `MoE` layers have, and over how many ranks they lie.

DeepSpeed 0.19 moe/layer.py (the experts divide over ep_size) and utils/groups.py (ep_size divides the ranks).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dtlint.frameworks import Claim, Reading
from dtlint.languages.python.calls import Call, argument
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import standing
from dtlint.value import Setting, Unknown, Value, default

LAYER = "deepspeed-python"
_PACKAGES = ("deepspeed.moe.layer", "deepspeed.moe")
_LAYERS = tuple(f"{package}.MoE" for package in _PACKAGES)
_PLACES = {"num_experts": 2, "ep_size": 3}
_SETTINGS = {"num_experts": "model.experts", "ep_size": "parallel.expert"}
_UNSAID = 1
"""Experts and ranks of a layer that is not told how many."""


def read(program: Program) -> Reading:
    """The experts and their ranks, as far as all layers agree on them; a tensor-parallel rank of an expert is whole."""
    if not any("deepspeed.moe" in module.source.text for module in program.modules.values()):
        return Reading(LAYER)
    layers = standing(program, _LAYERS)
    return Reading(LAYER, claims=tuple(_claims(layers)))


def _claims(layers: Sequence[Call]) -> Iterator[Claim]:
    if not layers:
        return
    for name, setting in _SETTINGS.items():
        yield Claim(setting, _agreed([_told(call, name) for call in layers], name), name)
    yield Claim("parallel.expert_tensor", default(1, "DeepSpeed"))


def _told(call: Call, name: str) -> Setting:
    found = argument(call, name, _PLACES[name])
    if found is not None:
        return found
    return Unknown(f"{name} may be among other arguments") if call.open else default(_UNSAID, "DeepSpeed")


def _agreed(values: Sequence[Setting], name: str) -> Setting:
    first = values[0]
    known = [value.value for value in values if isinstance(value, Value)]
    if len(known) == len(values) and all(value == known[0] for value in known):
        return first
    return Unknown(f"the layers of experts differ in {name}, or it is not known", f"--set {_SETTINGS[name]}=N")
