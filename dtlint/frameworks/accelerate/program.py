"""Accelerate's Accelerator in a training program with a loop of its own: the accumulation that the code asks for, and
what DDP is told through it.
"""

from __future__ import annotations

from collections.abc import Iterator

from dtlint.frameworks import Claim, Member, Reading
from dtlint.frameworks.process_groups import timeout_claims
from dtlint.frameworks.pytorch.names import DDP_KWARGS
from dtlint.languages.python.calls import Call, argument, calls, passed
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import standing, stands
from dtlint.value import Setting, Unknown, Value, default, written

LAYER = "accelerator-python"
ACCELERATORS = ("accelerate.Accelerator", "accelerate.accelerator.Accelerator")
_PLUGINS = tuple(f"accelerate{module}.GradientAccumulationPlugin" for module in ("", ".utils", ".utils.dataclasses"))
_OF_DDP = {"find_unused_parameters": "communication.find_unused", "static_graph": "communication.static_graph"}
_PARALLELISM = tuple(f"accelerate{module}.ParallelismConfig" for module in ("", ".utils", ".parallelism_config"))
_DEGREES = {"tp_size": "parallel.tensor", "cp_size": "parallel.context", "sp_size": "parallel.ulysses"}
"""Fields of ParallelismConfig that are degrees (accelerate 1.12.0 parallelism_config.py; 1.10.1 has no sp_size)."""
_HANDED = "parallelism_config"
"""The argument by which Accelerator and TrainingArguments take it."""
_COUNT, _PLUGIN = "gradient_accumulation_steps", "gradient_accumulation_plugin"
COUNTS = "code.accelerators"
"""The collection of what the Accelerator of a program accumulates by itself."""


def read(program: Program) -> Reading:
    """What the one Accelerator of a program says of accumulation; 1 is what it takes unasked, and asks for nothing.

    The launcher's number is handed on in the environment, where it replaces the code's (accelerator.py, __init__);
    DeepSpeed's JSON replaces both (_prepare_deepspeed).
    """
    timeout = timeout_claims(program) if any(True for _ in calls(program, ACCELERATORS)) else ()
    counted = tuple(_counted(program))
    collections = {COUNTS: counted} if counted else {}
    claims = (*_claims(program), *_told_to_ddp(program), *_degrees(program), *timeout)
    return Reading(LAYER, claims=claims, collections=collections)


def _counted(program: Program) -> Iterator[Member]:
    """The collection `code.accelerators`: of the one Accelerator, the accumulation that it has (`value`), be it the 1
    that it takes unasked, and what that is called (`name`).
    """
    found = standing(program, ACCELERATORS)
    if len(found) != 1:
        return
    value, name = _accumulation(program, found[0])
    if value is None:
        hidden = found[0].open or (_PLUGIN if passed(found[0], _PLUGIN) else "")
        value = Unknown(f"{hidden} may set {_COUNT}") if hidden else default(1, "Accelerate")
    yield Member(found[0].head, {"value": value, "name": written(name, found[0].head)})


def _told_to_ddp(program: Program) -> Iterator[Claim]:
    """What the one set of keyword arguments says that Accelerate hands to DDP."""
    found = standing(program, DDP_KWARGS)
    for name, setting in _OF_DDP.items() if len(found) == 1 else ():
        value = argument(found[0], name)
        if value is not None:
            yield Claim(setting, value, name)


def _degrees(program: Program) -> Iterator[Claim]:
    """The degrees of the one ParallelismConfig of a program that hands it on."""
    found = standing(program, _PARALLELISM)
    handed = any(_HANDED in module.source.text for module in program.modules.values())
    if len(found) != 1 or not handed or not stands(found[0].place):
        return
    for name, setting in _DEGREES.items():
        value = argument(found[0], name)
        if isinstance(value, Unknown) or (isinstance(value, Value) and isinstance(value.value, int)):
            yield Claim(setting, value, name)


def _claims(program: Program) -> Iterator[Claim]:
    found = standing(program, ACCELERATORS)
    if len(found) != 1:
        return
    value, name = _accumulation(program, found[0])
    if not isinstance(value, Value) or not isinstance(value.value, int):
        return
    if value.value > 1 and value.origin.kind == "written":
        yield Claim("batch.accumulation", value, name)


def _accumulation(program: Program, call: Call) -> tuple[Setting | None, str]:
    """The number that an Accelerator is given itself, or by a plugin, and what it is called."""
    plugins = standing(program, _PLUGINS)
    if passed(call, _PLUGIN) and len(plugins) == 1:
        return argument(plugins[0], "num_steps", 0), "GradientAccumulationPlugin(num_steps=...)"
    return argument(call, _COUNT), f"Accelerator({_COUNT}=...)"
