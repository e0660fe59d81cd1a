"""Finds models that torch's DataParallel spreads over the GPUs of one process."""

from __future__ import annotations

import ast

from dtlint.frameworks import Member
from dtlint.frameworks.pytorch.names import DATA_PARALLEL
from dtlint.languages.python.calls import Call, calls, passed
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import stands
from dtlint.value import Setting, Unknown, written

_COUNTED = ("device_count() > 1", "device_count()>1", "n_gpu > 1", "num_gpus > 1")
"""Conditions that hold wherever DataParallel has more than one GPU to spread a model over."""


def data_parallels(program: Program) -> tuple[Member, ...]:
    """The calls of DataParallel that run wherever there are several GPUs: `devices`, where they are counted out."""
    found = [call for call in calls(program, DATA_PARALLEL) if _runs(call)]
    return tuple(Member(call.head, {"devices": _devices(call)}) for call in found)


def _runs(call: Call) -> bool:
    """Whether a call is reached: for certain, or under no other condition than the number of GPUs."""
    if stands(call.place) is not None:
        return bool(stands(call.place))
    texts = [
        call.place.module.text(guard.test) for guard in call.place.guards if guard.test is not None and guard.holds
    ]
    counted = [any(word in text for word in _COUNTED) and " and " not in text for text in texts]
    return bool(texts) and all(counted) and len(texts) == len(call.place.guards) and call.place.scope.parent is None


def _devices(call: Call) -> Setting:
    for item in passed(call, "device_ids", 1):
        if isinstance(item.place.node, ast.List | ast.Tuple):
            return written(len(item.place.node.elts), item.place.module.span(item.place.node))
    return Unknown("all GPUs that the process sees")
