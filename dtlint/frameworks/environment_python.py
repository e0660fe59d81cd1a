"""Reads the switches that a program sets for itself: environment variables of NCCL and CUDA, and anomaly detection."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial

from dtlint.frameworks import Member, Reading
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.environment import PREFIXES, members_of
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.calls import argument, calls
from dtlint.languages.python.program import Program, of_file
from dtlint.languages.python.reach import stands
from dtlint.languages.python.tree import Module
from dtlint.source import Span
from dtlint.value import Value

LAYER = "environment-python"
ANOMALY = ("torch.autograd.set_detect_anomaly", "torch.autograd.detect_anomaly")


def read(program: Program) -> Reading:
    """The collections `launch.environment` and `launch.debugging`, as far as the program adds to them."""
    found = [
        variable
        for module in program.modules.values()
        for variable in of_file(program, "variables", module.top, partial(_variables, module))
    ]
    collections = members_of(found)
    debugging = (*collections.get("launch.debugging", ()), *_anomalies(program))
    return Reading(LAYER, collections={**collections, "launch.debugging": debugging} if debugging else collections)


def _variables(module: Module) -> tuple[tuple[str, str, Span], ...]:
    """Variables that statements of the module or of a function set, under no condition: name, value, place."""
    if "environ" not in module.source.text:
        return ()
    bodies = (scope.node.body for scope in module.scopes if isinstance(scope.node, ast.Module | ast.FunctionDef))
    found = ((statement, _variable(statement)) for body in bodies for statement in body)
    set_here = ((statement, *told) for statement, told in found if told is not None)
    return tuple(
        (name, value, module.span(statement)) for statement, name, value in set_here if name.startswith(PREFIXES)
    )


def _variable(statement: ast.stmt) -> tuple[str, str] | None:
    """`os.environ["NAME"] = "value"`."""
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Subscript):
        return None
    target, value = statement.targets[0], statement.value
    name = target.slice
    if dotted(target.value) not in ("os.environ", "environ") or not isinstance(name, ast.Constant):
        return None
    if not isinstance(value, ast.Constant) or not isinstance(value.value, str) or not isinstance(name.value, str):
        return None
    return name.value, value.value


def _anomalies(program: Program) -> Iterator[Member]:
    for call in calls(program, ANOMALY):
        mode = argument(call, "mode", 0)
        on = mode is None or (isinstance(mode, Value) and mode.value is True)
        if on and stands(call.place):
            reason = "every backward step is checked and remembers its forward step"
            yield Member(call.head, texts(call.head, name="detect_anomaly", value="on", effect="blocks", reason=reason))
