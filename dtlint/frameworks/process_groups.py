"""What a program says where its processes begin to be one group: how long collectives wait for a missing rank, told to
torch, DeepSpeed or Accelerate, and whether the environment tells where the ranks meet.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence

from dtlint.frameworks import Claim
from dtlint.frameworks.environment_python import assigned
from dtlint.frameworks.group_sizes import GROUPS, SPAWNING, size_claims
from dtlint.frameworks.own_ports import own_port
from dtlint.languages.python.calls import Call, argument, call_at, called, calls, passed
from dtlint.languages.python.following import ways
from dtlint.languages.python.places import Place
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import standing, stands
from dtlint.value import Value, written

_STARTS = (
    *GROUPS,
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


ENVIRONMENT = "env"
"""The rendezvous of a process group that finds MASTER_ADDR in its environment."""
OWN_PORT = "own-port"
"""That of a process group for which each process sets MASTER_PORT to a port that it chooses."""
ADDRESS = "address"
"""That of a process group that is told an address in the program."""
_LOCAL = r"tcp://(localhost|127\.0\.0\.1|0\.0\.0\.0):"
_ASSIGNED = re.compile(r"""[\"']MASTER_ADDR[\"']\s*(?:\]\s*=(?!=)|[:,])""")
"""What sets the address, or hands it to a function that may: `["MASTER_ADDR"] =`, `setdefault("MASTER_ADDR", ...)`."""


def group_claims(program: Program) -> Iterator[Claim]:
    """The timeout of a program's process group, and where its ranks meet."""
    yield from timeout_claims(program)
    yield from _meeting_claims(program)
    yield from size_claims(program)


def _meeting_claims(program: Program) -> Iterator[Claim]:
    """That the ranks which a launcher starts meet where the environment says, and the address that the program itself
    sets there before, in the one place that does.
    """
    found = standing(program, GROUPS)
    modules = program.modules.values()
    if not found or any(not SPAWNING.isdisjoint(module.called) for module in modules):
        return
    if not all(map(_by_environment, found)):
        yield from _own_address(found)
        return
    port = own_port(program)
    if port is not None:
        yield Claim("launch.rendezvous", written(OWN_PORT, port), "MASTER_PORT")
    else:
        yield Claim("launch.rendezvous", written(ENVIRONMENT, found[0].head), "init_process_group")
    told = list(assigned(program, "MASTER_ADDR"))
    if len(told) == 1 and sum(len(_ASSIGNED.findall(module.source.text)) for module in modules) == 1:
        yield Claim("launch.rendezvous_host", told[0], "MASTER_ADDR")


def _by_environment(call: Call) -> bool:
    method = argument(call, "init_method", 1)
    by_name = method is None or (isinstance(method, Value) and method.value in (None, "env://"))
    return by_name and not call.open and not passed(call, "store")


def _own_address(groups: Sequence[Call]) -> Iterator[Claim]:
    """The address that the one process group is told where each machine takes it for its own."""
    told = argument(groups[0], "init_method", 1) if len(groups) == 1 else None
    address = told if isinstance(told, Value) else _built(groups[0]) if told is not None else None
    found = re.match(_LOCAL, str(address.value)) if address is not None else None
    if address is not None and found is not None:
        yield Claim("launch.rendezvous", address._replace(value=ADDRESS), "init_method")
        yield Claim("launch.rendezvous_host", address._replace(value=found[1]), "init_method")


def _built(group: Call) -> Value | None:
    """The beginning of an address of which the rest is not known."""
    ends = [way.end for item in passed(group, "init_method", 1) for way in ways(item.place)]
    end = ends[0] if len(ends) == 1 else None
    return written(_beginning(end.node), end.module.span(end.node)) if isinstance(end, Place) else None


def _beginning(node: ast.AST) -> str:
    """The text with which an expression begins: a text, `f"..."`, `"..." + x`, `"..." % x`, `"...".format(x)`."""
    if isinstance(node, ast.JoinedStr) and node.values:
        return _beginning(node.values[0])
    if isinstance(node, ast.BinOp):
        return _beginning(node.left)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        return _beginning(node.func.value)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


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
