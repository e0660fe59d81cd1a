"""Whose accelerators a launch is for, where its environment tells that they are not NVIDIA's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dtlint.frameworks import Claim, Reading
from dtlint.languages.traced import Command, Word
from dtlint.source import Span
from dtlint.value import written

LAYER = "vendor"
SETTING = "cluster.vendor"

VARIABLES: Mapping[str, str] = {
    "HIP_VISIBLE_DEVICES": "amd",
    "ROCR_VISIBLE_DEVICES": "amd",
    "HSA_": "amd",
    "MIOPEN_": "amd",
    "ASCEND_": "ascend",
    "HCCL_": "ascend",
    "HABANA_": "habana",
    "PT_HPU_": "habana",
    "ZE_AFFINITY_MASK": "intel",
    "CCL_": "intel",
}
"""What the names of variables begin with that only these vendors' libraries read (their documentation: ROCm, CANN,
Gaudi, oneAPI)."""

MODULES: Mapping[str, str] = {
    "rocm": "amd",
    "amd-mixed": "amd",
    "craype-accel-amd": "amd",
    "oneapi": "intel",
    "frameworks/xpu": "intel",
}
"""What the names of environment modules begin with that bring a vendor's libraries (the guides of Frontier, LUMI and
Aurora)."""

_MODULE_COMMANDS = ("module", "ml")


def read(env: Mapping[str, Word], commands: Iterable[Command]) -> Reading:
    """The claim `cluster.vendor`, from the variables of a launch, else from the modules that its script loads."""
    found = _of_variables(env) or _of_modules(commands)
    if found is None:
        return Reading(LAYER)
    vendor, name, place = found
    return Reading(LAYER, place, (Claim(SETTING, written(vendor, place), name),))


def _of_variables(env: Mapping[str, Word]) -> tuple[str, str, Span] | None:
    for name, word in env.items():
        vendor = _begins(name, VARIABLES)
        if vendor:
            return vendor, name, word.pieces[0].span if word.pieces else word.place
    return None


def _of_modules(commands: Iterable[Command]) -> tuple[str, str, Span] | None:
    for command in commands:
        for word in _loaded(command.argv):
            vendor = _begins((word.text or "").lower(), MODULES)
            if vendor:
                return vendor, word.shown, word.place
    return None


def _loaded(words: Sequence[Word]) -> Sequence[Word]:
    """The modules that a command names: `module load rocm`, `ml rocm`."""
    return words[1:] if words and words[0].text in _MODULE_COMMANDS else ()


def _begins(name: str, known: Mapping[str, str]) -> str:
    return next((vendor for start, vendor in known.items() if name.startswith(start)), "")
