"""How long collectives wait for a missing rank, as a program tells torch, DeepSpeed or Accelerate where it begins."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from dtlint.frameworks import Claim
from dtlint.languages.python.calls import Call, argument, call_at, called, calls, passed
from dtlint.languages.python.following import ways
from dtlint.languages.python.places import Place
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import stands
from dtlint.value import Value, written

_STARTS = (
    "torch.distributed.init_process_group",
    "torch.distributed.distributed_c10d.init_process_group",
    "deepspeed.init_distributed",
    "accelerate.InitProcessGroupKwargs",
    "accelerate.utils.InitProcessGroupKwargs",
)
_TIMEDELTA = "datetime.timedelta"
_SECONDS: Mapping[str, float] = {"weeks": 604800, "days": 86400, "hours": 3600, "minutes": 60, "seconds": 1}
"""Arguments of timedelta, in seconds; days and seconds are the first two by position too."""
_POSITIONS = {"days": 0, "seconds": 1}


def timeout_claims(program: Program) -> Iterator[Claim]:
    """The timeout of the one process group that a program begins with, where it is written out; none of a program that
    goes nowhere backward, which a module of helpers is by itself.
    """
    if not any("backward" in module.called for module in program.modules.values()):
        return
    found = [call for call in calls(program, _STARTS) if stands(call.place) is not False and passed(call, "timeout")]
    ends = [way.end for call in found[:1] for item in passed(call, "timeout") for way in ways(item.place)]
    if len(found) != 1 or len(ends) != 1 or not isinstance(ends[0], Place):
        return
    seconds = _seconds(ends[0])
    if seconds is not None:
        place = ends[0].module.span(ends[0].node)
        yield Claim("launch.timeout_seconds", written(seconds, place), "timeout")


def _seconds(place: Place) -> float | None:
    """The length of `timedelta(minutes=30)`; None for anything else."""
    if called(place) != _TIMEDELTA or not isinstance(place.node, ast.Call):
        return None
    call = call_at(place, _TIMEDELTA)
    known = call.keywords.keys() <= _SECONDS.keys() and len(place.node.args) <= len(_POSITIONS) and not call.open
    parts = [_part(call, name, unit) for name, unit in _SECONDS.items()] if known else []
    return sum(part for part in parts if part is not None) if parts and None not in parts else None


def _part(call: Call, name: str, unit: float) -> float | None:
    value = argument(call, name, _POSITIONS.get(name))
    if value is None:
        return 0
    number = value.value if isinstance(value, Value) else None
    return number * unit if isinstance(number, int | float) and not isinstance(number, bool) else None
