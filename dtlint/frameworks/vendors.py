"""Whose accelerators a launch is for, where its environment tells that they are not NVIDIA's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from dtlint.frameworks import Claim, Reading
from dtlint.languages.traced import Command, Word
from dtlint.source import Source, Span
from dtlint.value import written

LAYER = "vendor"
CONFIGS = (".toml", ".yaml", ".yml", ".json")
_Found = tuple[str, str, Span]
"""A vendor, and the name that tells it with its place."""

SETTING = "cluster.vendor"

VARIABLES: Mapping[str, str] = {
    "HIP_VISIBLE_DEVICES": "amd",
    "ROCR_VISIBLE_DEVICES": "amd",
    "HSA_": "amd",
    "MIOPEN_": "amd",
    "ASCEND_": "ascend",
    "HCCL_": "ascend",
    "PYTORCH_NPU_": "ascend",
    "HABANA_": "habana",
    "PT_HPU_": "habana",
    "NEURON_RT_": "neuron",
    "NEURON_CC_FLAGS": "neuron",
    "ZE_AFFINITY_MASK": "intel",
    "CCL_": "intel",
}
"""What the names of variables begin with that only these vendors' libraries read (their documentation: ROCm, CANN,
Gaudi, Neuron, oneAPI)."""

MODULES: Mapping[str, str] = {
    "rocm": "amd",
    "amd-mixed": "amd",
    "craype-accel-amd": "amd",
    "oneapi": "intel",
    "frameworks/xpu": "intel",
}
"""What the names of environment modules begin with that bring a vendor's libraries (the guides of Frontier, LUMI and
Aurora)."""

PACKAGES: Mapping[str, str] = {
    "torch_npu": "ascend",
    "torchtitan_npu": "ascend",
    "mindspeed": "ascend",
    "hccl": "ascend",
    "habana_frameworks": "habana",
    "optimum.habana": "habana",
    "torch_neuronx": "neuron",
    "neuronx_distributed": "neuron",
    "intel_extension_for_pytorch": "intel",
}
"""Packages and backends that run on these vendors' accelerators alone, by their names in programs and configs."""

_NAMED = re.compile(r"(?<![A-Za-z0-9])(" + "|".join(map(re.escape, PACKAGES)) + r")(?![a-z0-9])", re.IGNORECASE)

_MODULE_COMMANDS = ("module", "ml")
_PREPARES = re.compile(r"(?m)^[ \t]{0,40}(?:source|\.)[ \t]{1,4}([^\s#]{0,200}/Ascend/[^\s#]{1,200})")
"""A line by which a script sources the settings of CANN, Ascend's toolkit (its installation guide)."""


def read(env: Mapping[str, Word], commands: Iterable[Command], program: Sequence[Word] = ()) -> Reading:
    """The claim `cluster.vendor`, from the variables of a launch, the modules that its script loads, or else
    the words of its program.
    """
    return _reading(_of_variables(env) or _of_modules(commands) or _of_program(program))


def read_files(sources: Iterable[Source]) -> Reading:
    """The same from the packages that configs name, and the toolkit whose settings scripts source; a program may import
    packages for one machine of several.
    """
    return _reading(next(filter(None, map(_of_file, sources)), None))


def _of_file(source: Source) -> _Found | None:
    return _of_text(source) if source.path.lower().endswith(CONFIGS) else _of_script(source)


def _reading(found: _Found | None) -> Reading:
    if found is None:
        return Reading(LAYER)
    vendor, name, place = found
    return Reading(LAYER, place, (Claim(SETTING, written(vendor, place), name),))


def _of_program(program: Sequence[Word]) -> _Found | None:
    for word in program:
        named = _NAMED.search(word.text or "")
        if named is not None:
            return PACKAGES[named[1].lower()], named[1], word.place
    return None


def _of_text(source: Source) -> _Found | None:
    for named in _NAMED.finditer(source.text):
        line = source.text[source.text.rfind("\n", 0, named.start()) + 1 : named.start()]
        if "#" not in line:
            return PACKAGES[named[1].lower()], named[1], source.span(*named.span(1))
    return None


def _of_variables(env: Mapping[str, Word]) -> _Found | None:
    for name, word in env.items():
        vendor = _begins(name, VARIABLES)
        if vendor:
            return vendor, name, word.pieces[0].span if word.pieces else word.place
    return None


def _of_modules(commands: Iterable[Command]) -> _Found | None:
    for command in commands:
        for word in _loaded(command.argv):
            vendor = _begins((word.text or "").lower(), MODULES)
            if vendor:
                return vendor, word.shown, word.place
    return None


def _loaded(words: Sequence[Word]) -> Sequence[Word]:
    """The modules that a command names: `module load rocm`, `ml rocm`."""
    return words[1:] if words and words[0].text in _MODULE_COMMANDS else ()


def _of_script(source: Source) -> _Found | None:
    """The vendor whose toolkit a script prepares its shell for."""
    found = _PREPARES.search(source.text)
    return None if found is None else ("ascend", found[1], source.span(*found.span(1)))


def _begins(name: str, known: Mapping[str, str]) -> str:
    return next((vendor for start, vendor in known.items() if name.startswith(start)), "")
