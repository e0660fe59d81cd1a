"""Finds processes that take the GPU with their number on the node, as Slurm counts them, whatever GPUs they see."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dtlint.frameworks import Member
from dtlint.frameworks.code.ranks import asks_for_ranks
from dtlint.languages.python.calls import Call, calls, passed
from dtlint.languages.python.constants import live_ways
from dtlint.languages.python.places import Place
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import stands
from dtlint.languages.python.tree import Guard
from dtlint.value import written

_TAKING = (("torch.cuda.set_device", "device", 0), ("torch.device", "index", 1))
"""Calls that name a GPU, each with the parameter that holds its number."""
_READ = r"\(?(?:os\.)?(?:environ\.get\(|environ\[|getenv\()[\"']{}[\"'](?:, ?[^()]{{1,20}})?[\])]\)?"
_OF_SLURM = re.compile(rf"(?:int)?{_READ.format('SLURM_LOCALID')}")
_OF_LAUNCHER = re.compile(rf"(?:int)?{_READ.format('LOCAL_RANK')}")
_NUMBERS = {"SLURM_LOCALID": _OF_SLURM, "LOCAL_RANK": _OF_LAUNCHER}
"""Variables in which a process finds its number on the node: Slurm sets the one, a launcher or a script the other."""
_OF_OTHERS = re.compile(rf"(?:int)?{_READ.format('[A-Z_]+')}|\d+")
"""What stands there where another launcher starts the program."""
_VISIBLE = "CUDA_VISIBLE_DEVICES"


def numbered_devices(program: Program) -> tuple[Member, ...]:
    """The collection `code.numbered_devices`: where a process takes the GPU with its number on the node, in a program
    that does not itself say which GPUs it sees. `variable` is where it finds the number.
    """
    if any(_VISIBLE in module.source.text for module in program.modules.values()):
        return ()
    return tuple(_taken(program))


def _taken(program: Program) -> Iterator[Member]:
    for name, parameter, position in _TAKING:
        for call in calls(program, (name,)):
            variable = _variable(call, parameter, position)
            if variable and _runs(call):
                yield Member(call.head, {"variable": written(variable, call.head)})


def _variable(call: Call, parameter: str, position: int) -> str:
    """The variable in which the number is found on one of its ways, where it is on the others what another launcher
    tells, or whatever an attribute was before; "" where more is made of it (`% torch.cuda.device_count()`).
    """
    given = [item.place for item in passed(call, parameter, position)]
    ends = [way.end for place in given for way, _ in live_ways(place)]
    own = [place.node for place in given if isinstance(place.node, ast.Attribute)]
    read = [end for end in ends if not isinstance(end, Place) or end.node not in own]
    texts = [end.module.text(end.node) if isinstance(end, Place) else "" for end in read]
    if not all(map(_OF_OTHERS.fullmatch, texts)):
        return ""
    return next((name for name, read in _NUMBERS.items() if any(map(read.fullmatch, texts))), "")


def _runs(call: Call) -> bool:
    """Whether srun's tasks may come to it: no condition but those on ranks and on Slurm stands before it."""
    return stands(call.place) is not False and all(_is_of_ranks(call.place, guard) for guard in call.place.guards)


def _is_of_ranks(place: Place, guard: Guard) -> bool:
    of_slurm = guard.test is not None and "SLURM_" in place.module.text(guard.test)
    return of_slurm or asks_for_ranks(place, guard)
