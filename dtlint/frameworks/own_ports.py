"""Ports that each process chooses for itself, where no other process looks for it."""

from __future__ import annotations

import ast

from dtlint.frameworks.environment_python import worked_out
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.calls import called
from dtlint.languages.python.following import ways
from dtlint.languages.python.places import Place
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import enclosing_function
from dtlint.source import Span

_PORT = "MASTER_PORT"
_BY_CHANCE = tuple(f"random.{name}" for name in ("randint", "randrange", "choice"))
_ASKS = "getsockname"
_SEED = "seed"
"""What a program says that makes the numbers of all its processes equal."""


def own_port(program: Program) -> Span | None:
    """Where a program has each of its processes choose the port at which all are to meet: one that is free, or one by
    chance.
    """
    found = list(worked_out(program, _PORT))
    ends = [way.end for place in found for way in ways(_number(place))]
    chosen = len(found) == 1 and all(isinstance(end, Place) and _is_chosen(end) for end in ends)
    return found[0].module.span(found[0].node) if chosen else None


def _number(place: Place) -> Place:
    """What a text is made of: `str(port)`, `f"{port}"`."""
    node = place.node
    if isinstance(node, ast.Call) and dotted(node.func) == "str" and len(node.args) == 1:
        return place.inner(node.args[0])
    if isinstance(node, ast.JoinedStr) and len(node.values) == 1 and isinstance(node.values[0], ast.FormattedValue):
        return place.inner(node.values[0].value)
    return place


def _is_chosen(place: Place) -> bool:
    if called(place) in _BY_CHANCE:
        return not any(_SEED in module.source.text for module in place.program.modules.values())
    function = enclosing_function(place.scope)
    return _ASKS in _methods(place.node) and function is not None and _binds_to_free(function.node)


def _methods(node: ast.AST) -> set[str]:
    calls = (each.func for each in ast.walk(node) if isinstance(each, ast.Call))
    return {called.attr for called in calls if isinstance(called, ast.Attribute)}


def _binds_to_free(function: ast.AST) -> bool:
    """Whether a function binds a socket to port 0, for which the system takes a free one."""
    return any(isinstance(node, ast.Call) and _binds_to_any(node) for node in ast.walk(function))


def _binds_to_any(call: ast.Call) -> bool:
    address = call.args[0] if call.args and isinstance(call.func, ast.Attribute) and call.func.attr == "bind" else None
    if not isinstance(address, ast.Tuple) or len(address.elts) != 2:
        return False
    return isinstance(address.elts[1], ast.Constant) and address.elts[1].value == 0
