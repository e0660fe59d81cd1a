"""Finds processes that take the GPU with their number on the node, as Slurm counts them, whatever GPUs they see."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dtlint.frameworks import Member
from dtlint.frameworks.code.ranks import asks_for_ranks
from dtlint.frameworks.environment_python import set_anywhere
from dtlint.languages.python.calls import Call, calls, passed
from dtlint.languages.python.constants import live_ways, undecided
from dtlint.languages.python.places import Place, conditions_at
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import stands
from dtlint.languages.python.tree import Guard
from dtlint.value import written

_TAKING = (
    ("torch.cuda.set_device", "device", 0),
    ("torch.device", "index", 1),
    ("torch.device", "type", 0),
    ("torch.nn.parallel.DistributedDataParallel", "device_ids", None),
)
"""Calls that name a GPU, each with the parameter that holds its number."""
_READ = r"\(?(?:os\.)?(?:environ\.get\(|environ\[|getenv\()[\"']{}[\"'](?:, ?[^()]{{1,20}})?[\])]\)?"
_OF_SLURM = re.compile(rf"(?:int)?{_READ.format('SLURM_LOCALID')}")
_OF_LAUNCHER = re.compile(rf"(?:int)?{_READ.format('LOCAL_RANK')}")
_NUMBERS = {"SLURM_LOCALID": _OF_SLURM, "LOCAL_RANK": _OF_LAUNCHER}
"""Variables in which a process finds its number on the node: Slurm sets the one, a launcher or a script the other."""
_OF_OTHERS = re.compile(rf"(?:int)?{_READ.format('[A-Z_]+')}|\d+")
"""What stands there where another launcher starts the program."""
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_SLURMS, _LAUNCHERS = tuple(_NUMBERS)
_DEVICE = "cuda:"
"""What stands before the number in the name of a GPU."""


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
            if variable and _runs(call.place):
                found = _SLURMS if variable == _LAUNCHERS and _is_handed_on(program) else variable
                yield Member(call.head, {"variable": written(found, call.head)})


def _variable(call: Call, parameter: str, position: int | None) -> str:
    """The variable in which the number is found on one of its ways, where it is on the others what another launcher
    tells, or whatever an attribute was before; "" where more is made of it (`% torch.cuda.device_count()`).
    """
    given = [place for item in passed(call, parameter, position) for place in _numbers(item.place)]
    ends = [way.end for place in given for way, _ in live_ways(place)]
    own = [place.node for place in given if isinstance(place.node, ast.Attribute)]
    read = [end for end in ends if not isinstance(end, Place) or end.node not in own]
    texts = [end.module.text(end.node) if isinstance(end, Place) else "" for end in read]
    if not all(map(_OF_OTHERS.fullmatch, texts)):
        return ""
    return next((name for name, read in _NUMBERS.items() if any(map(read.fullmatch, texts))), "")


def _numbers(place: Place) -> Iterator[Place]:
    """The number in what names a GPU: itself, that of `f"cuda:{local}"` and of a list of one (`device_ids=[local]`); a
    name beside it has none (`"cpu"`).
    """
    for way, _ in live_ways(place):
        end = way.end
        inner = _within(end.node) if isinstance(end, Place) else None
        if isinstance(end, Place) and inner is not None:
            yield end.inner(inner)
        elif not isinstance(end, Place) or not _is_text(end.node):
            yield place


def _within(node: ast.AST) -> ast.expr | None:
    """`[local]`, `f"cuda:{local}"`, `"cuda:" + str(local)`, `"cuda:{}".format(local)`, `"cuda:%d" % local`."""
    if isinstance(node, ast.List):
        return node.elts[0] if len(node.elts) == 1 else None
    if isinstance(node, ast.JoinedStr):
        only = node.values[1] if len(node.values) == 2 and _is_name_of_gpu(node.values[0]) else None
        return only.value if isinstance(only, ast.FormattedValue) else None
    if isinstance(node, ast.BinOp):
        return _plain(node.right) if _is_name_of_gpu(node.left) else None
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "format":
        return None
    return node.args[0] if _is_name_of_gpu(node.func.value) and len(node.args) == 1 else None


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_name_of_gpu(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith(_DEVICE)


def _plain(node: ast.expr) -> ast.expr:
    """What `str(...)` makes a text of."""
    made = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "str"
    return node.args[0] if isinstance(node, ast.Call) and made and len(node.args) == 1 else node


def _is_handed_on(program: Program) -> bool:
    """Whether the program itself sets LOCAL_RANK to the number that Slurm gives the task, and to nothing that is more
    (`os.environ["LOCAL_RANK"] = os.environ["SLURM_LOCALID"]`).
    """
    if not any(_SLURMS in module.source.text for module in program.modules.values()):
        return False
    given = [place.at(node) for place in set_anywhere(program, _LAUNCHERS) if (node := _as_number(place.node))]
    ends = [(place, way.end) for place in given for way, _ in live_ways(place)]
    texts = [(place, end.module.text(end.node) if isinstance(end, Place) else "") for place, end in ends]
    if not all(_OF_OTHERS.fullmatch(text) for _, text in texts):
        return False
    return any(_OF_SLURM.fullmatch(text) and _runs(place) for place, text in texts)


def _as_number(node: ast.AST) -> ast.expr:
    """What is made a text to be put into the environment: `str(local)`, `f"{local}"`."""
    assert isinstance(node, ast.expr)
    if isinstance(node, ast.JoinedStr) and len(node.values) == 1 and isinstance(node.values[0], ast.FormattedValue):
        return node.values[0].value
    return _plain(node)


def _runs(place: Place) -> bool:
    """Whether srun's tasks may come to it: what stands before it holds, or asks for ranks or for Slurm."""
    return stands(place) is not False and all(
        _is_of_ranks(place, guard) or _holds(place, guard) for guard in place.guards
    )


def _holds(place: Place, guard: Guard) -> bool:
    return undecided(conditions_at(place, (guard,))) == []


def _is_of_ranks(place: Place, guard: Guard) -> bool:
    of_slurm = guard.test is not None and "SLURM_" in place.module.text(guard.test)
    return of_slurm or asks_for_ranks(place, guard)
