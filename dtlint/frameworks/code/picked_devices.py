"""Finds where a process picks its GPU by its number on the machine: `code.picked_devices`."""

from __future__ import annotations

import ast

from dtlint.frameworks import Member
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.calls import Call, calls, passed
from dtlint.languages.python.following import ways
from dtlint.languages.python.places import Place
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import stands
from dtlint.value import written

_SETS = ("torch.cuda.set_device",)
_NUMBERS = frozenset({"LOCAL_RANK", "SLURM_LOCALID"})
"""Variables in which a process finds its number on the machine."""


def picked_devices(program: Program) -> tuple[Member, ...]:
    """The calls that set the device of a process to its number on the machine, as the environment has it: the GPU of
    this number has to be among those that the process sees. `variable` is where the number is found.
    """
    found = ((call, variable) for call in calls(program, _SETS) if (variable := _number(call)))
    return tuple(
        Member(call.head, {"variable": written(variable, call.head)})
        for call, variable in found
        if stands(call.place) is not False
    )


def _number(call: Call) -> str:
    ends = (way.end for each in passed(call, "device", 0) for way in ways(each.place))
    return next((name for end in ends if isinstance(end, Place) and (name := _variable(end.node))), "")


def _variable(node: ast.AST) -> str:
    """The variable of `int(os.environ["LOCAL_RANK"])`; "" where more is made of it (`% torch.cuda.device_count()`)."""
    while isinstance(node, ast.Call) and dotted(node.func) == "int" and len(node.args) == 1:
        node = node.args[0]
    asked = None
    if isinstance(node, ast.Subscript) and dotted(node.value).endswith("environ"):
        asked = node.slice
    elif isinstance(node, ast.Call) and dotted(node.func) in ("os.environ.get", "os.getenv", "getenv") and node.args:
        asked = node.args[0]
    return str(asked.value) if isinstance(asked, ast.Constant) and asked.value in _NUMBERS else ""
