"""DeepSpeed's pipelines: how many stages a program's code cuts its model into, and how many tensor-parallel ranks each
has.

DeepSpeed 0.19 runtime/pipe/module.py and topology.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from dtlint.frameworks import Claim, Reading
from dtlint.languages.python.calls import Call, argument
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import standing
from dtlint.value import Setting, Unknown, Value

LAYER = "deepspeed-python"
_WORD = "PipelineModule"
_PACKAGES = ("deepspeed", "deepspeed.pipe", "deepspeed.runtime.pipe", "deepspeed.runtime.pipe.module")
_MODULES = tuple(f"{package}.{_WORD}" for package in _PACKAGES)
_PLACES = ("deepspeed.runtime.pipe.topology", "deepspeed.runtime.pipe", "deepspeed.pipe")
_THREE = tuple(f"{package}.PipeModelDataParallelTopology" for package in _PLACES)
_TWO = tuple(f"{package}.PipeDataParallelTopology" for package in _PLACES)

_ARGUMENTS = ("pipe_parallel_size", "pipeline_parallel_size", "pipeline_model_parallel_size")
"""What programs call the number of stages."""


def read(program: Program) -> Reading:
    """The stages that a topology or a PipelineModule is given; unknown where they come from out of sight."""
    if not any(_WORD in module.source.text for module in program.modules.values()):
        return Reading(LAYER, claims=tuple(_asked(program)))
    grids, modules = standing(program, (*_THREE, *_TWO)), standing(program, _MODULES)
    if not grids and not modules and not _derives(program):
        return Reading(LAYER)
    return Reading(LAYER, claims=tuple(_degrees(grids, modules)))


def _asked(program: Program) -> Iterator[Claim]:
    """The stages as unknown where the launch asks for some of a program whose model is built out of sight."""
    for name in _ARGUMENTS:
        given = (program.given or {}).get(name)
        if given is not None and not (isinstance(given, Value) and given.value in (None, 0, 1)):
            unknown = Unknown(f"--{name} may cut the model into stages", "--set parallel.pipeline=N")
            yield Claim("parallel.pipeline", unknown, f"--{name}")


def _derives(program: Program) -> bool:
    """Whether a class of the program is a pipeline: how it is built, its own code says."""
    return any(f"({_WORD}" in module.source.text for module in program.modules.values())


def _degrees(grids: list[Call], modules: list[Call]) -> Iterator[Claim]:
    if len(grids) == 1:
        yield _degree("parallel.pipeline", argument(grids[0], "num_pp", 0))
        if grids[0].name in _THREE:
            yield _degree("parallel.tensor", argument(grids[0], "num_mp", 1))
        return
    stages = argument(modules[0], "num_stages", 1) if len(modules) == 1 and not grids else None
    yield _degree("parallel.pipeline", stages)


def _degree(setting: str, value: Setting | None) -> Claim:
    unsaid = Unknown("the program builds a PipelineModule, and its stages are not known", f"--set {setting}=N")
    return Claim(setting, unsaid if value is None else value)
