"""How many ranks a program tells its process group to wait for, whatever its launcher starts."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from dtlint.frameworks import Claim
from dtlint.frameworks.code.ranks import asks_for_ranks, is_alone
from dtlint.frameworks.environment_python import assigned, set_anywhere, worked_out
from dtlint.languages.python.bindings import dotted, last_word
from dtlint.languages.python.calls import Call, argument, passed
from dtlint.languages.python.constants import evaluate, undecided
from dtlint.languages.python.following import ways
from dtlint.languages.python.names import qualified
from dtlint.languages.python.places import Place, conditions_at, place_of
from dtlint.languages.python.program import Program, definition, sites
from dtlint.languages.python.reach import standing
from dtlint.languages.python.tree import Binding, Guard, Module, Site
from dtlint.value import Plain, Setting, Value

GROUPS = (
    "torch.distributed.init_process_group",
    "torch.distributed.distributed_c10d.init_process_group",
)
"""Calls in which the processes of torch begin to be one group."""
SPAWNING = frozenset(("spawn", "start_processes", "Process", "notebook_launcher", "elastic_launch"))
"""Calls by which a program starts ranks of its own, which meet on their machine."""
_STARTS = (*GROUPS, "deepspeed.init_distributed")
_SIZE = "WORLD_SIZE"
_LONGEST = 8
"""Digits of no number of ranks."""
_READING = frozenset(("print", "pformat", "pprint", "info", "debug", "warning", "dump", "dumps", "asdict", "deepcopy"))
"""Functions of others that change nothing of what they are handed."""


def size_claims(program: Program) -> Iterator[Claim]:
    """The ranks that the one process group of a program waits for, where the program tells them itself: torch asks the
    environment only where it is not told (torch/distributed/rendezvous.py, _rendezvous_helper, at 0140b62).
    """
    found = standing(program, _STARTS)
    spawns = any(not SPAWNING.isdisjoint(module.called) for module in program.modules.values())
    if len(found) != 1 or spawns or found[0].open or not _is_met(found[0].place) or _is_of_one(found[0]):
        return
    counted = _told(found[0])
    if isinstance(counted, Value) and counted.origin.kind == "written" and _is_count(counted.value):
        yield Claim("launch.counted_processes", counted._replace(value=int(str(counted.value))), "world_size")


def _told(group: Call) -> Setting | None:
    """What the call is told, else what the program sets WORLD_SIZE to, in the one place that does; None where the
    program may change it on the way.
    """
    position = 3 if group.name in GROUPS else None
    given = [item.place for item in passed(group, "world_size", position)]
    if given:
        return argument(group, "world_size", position) if all(_stays(group, place) for place in given) else None
    program = group.place.program
    texts, made = list(assigned(program, _SIZE)), list(worked_out(program, _SIZE))
    told = [*texts, *(evaluate(place) for place in made if _stays(group, place))]
    return told[0] if len(list(set_anywhere(program, _SIZE))) == len(texts) + len(made) == len(told) == 1 else None


def _is_of_one(group: Call) -> bool:
    """Whether a number stands for the rank: the program is one rank, whatever starts it."""
    rank = argument(group, "rank", 4 if group.name in GROUPS else None)
    return isinstance(rank, Value) and rank.value != -1


def _is_count(value: Plain) -> bool:
    text = str(value)
    return text.isascii() and text.isdecimal() and len(text) < _LONGEST and int(text) > 0


def _is_met(place: Place) -> bool:
    """Whether every run of several ranks comes to a call: what stands before it holds, or asks for them."""
    return all(_lets_ranks_pass(place, guard) for guard in place.guards)


def _lets_ranks_pass(place: Place, guard: Guard) -> bool:
    several = asks_for_ranks(place, guard) and not is_alone(place, guard)
    return several or undecided(conditions_at(place, (guard,))) == []


def _stays(group: Call, place: Place) -> bool:
    """Whether no other statement gives the fields that a number is read from (`args.world_size`) another value, as
    programs do that put there what the environment says.
    """
    ends = [way.end for way in ways(place)]
    read = [part for end in ends if isinstance(end, Place) for part in ast.walk(end.node)]
    fields = [part for part in read if isinstance(part, ast.Attribute)]
    if any(isinstance(part, ast.Subscript) for part in read):
        return False
    return not any(_is_changed(group, field) for field in fields)


def _is_changed(group: Call, field: ast.Attribute) -> bool:
    modules = group.place.program.modules.values()
    holder = dotted(field.value)
    return any(_sets(module, field.attr) or _is_handed_out(group, module, holder) for module in modules)


def _sets(module: Module, attribute: str) -> bool:
    """Whether a statement gives a field of that name anything but a field of that name, the object's own aside."""
    for scope in module.scopes:
        for name, bindings in scope.bindings.items():
            own = name.startswith("self.") or "." not in name
            if not own and name.endswith(f".{attribute}") and any(_is_other(each, attribute) for each in bindings):
                return True
    return False


def _is_other(binding: Binding, attribute: str) -> bool:
    return not (isinstance(binding.node, ast.Attribute) and binding.node.attr == attribute)


def _is_handed_out(group: Call, module: Module, holder: str) -> bool:
    """Whether a function that is not read is handed the object, before the group begins where that can be told."""
    return any(_hands_out(group, module, site, holder) for site in sites(module))


def _hands_out(group: Call, module: Module, site: Site, holder: str) -> bool:
    node = site.node
    if not isinstance(node, ast.Call) or _is_later(group, module, site):
        return False
    function = last_word(node.func)
    if function == "update":
        return isinstance(node.func, ast.Attribute) and holder in _fields_of(node.func.value)
    if not any(dotted(each) == holder for each in node.args) or function in _READING or hasattr(builtins, function):
        return function == "setattr" and dotted(node.args[0]) == holder if node.args else False
    place = place_of(group.place.program, module, site)
    names = qualified(module, node.func, site.scope)
    return not any(definition(place.program, module, name) for name in names) and not _is_defined(place, function)


def _fields_of(node: ast.expr) -> tuple[str, ...]:
    """The objects whose fields are reached so: `args`, `args.__dict__`, `vars(args)`."""
    if isinstance(node, ast.Call):
        return tuple(map(dotted, node.args)) if dotted(node.func) == "vars" else ()
    return (dotted(node), dotted(node).removesuffix(".__dict__"))


def _is_later(group: Call, module: Module, site: Site) -> bool:
    own = module is group.place.module and site.scope is group.place.scope
    return own and module.span(site.node).start > group.head.start


def _is_defined(place: Place, function: str) -> bool:
    """Whether a file of the program defines a function or method of that name."""
    scopes = (scope for module in place.program.modules.values() for scope in module.scopes)
    return any(scope.name.rpartition(".")[2] == function for scope in scopes)
