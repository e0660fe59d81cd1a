"""Finds calls that stop the GPU, or wait for all ranks, in every training step."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from itertools import islice

from dtlint.frameworks import Member
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.code.microsteps import is_inside
from dtlint.frameworks.code.ranks import asks_for_ranks
from dtlint.frameworks.code.trials import is_trial, measures
from dtlint.frameworks.code.waits import wait_beside
from dtlint.frameworks.code.with_blocks import with_blocks
from dtlint.frameworks.pytorch.step_area import called_function
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.callers import callers
from dtlint.languages.python.calls import called
from dtlint.languages.python.editing import dropped, standing
from dtlint.languages.python.following import ways
from dtlint.languages.python.names import qualified
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Definition, Program, definition
from dtlint.languages.python.reach import enclosing_function, stands
from dtlint.languages.python.tree import Guard, Module, Scope, Site
from dtlint.record import NamedTuple
from dtlint.source import Edit

_STALLS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "empty_cache": (
        ("torch.cuda.empty_cache", "torch.cuda.memory.empty_cache"),
        "the GPU is waited for, its cached memory given back, and asked for again in the next step",
    ),
    "synchronize": (("torch.cuda.synchronize",), "the host waits for the GPU and prepares nothing meanwhile"),
    "barrier": (
        ("torch.distributed.barrier", "torch.distributed.distributed_c10d.barrier"),
        "every rank waits for the slowest, beside the exchange of gradients that makes them wait anyway",
    ),
}
"""Functions by their last word: their full names, and what a call does to a step."""
_OF_CLOCKS = "synchronize"
"""What a loop that measures time calls for its sake."""
_OF_MEMORY = "empty_cache"
"""What costs more than the wait."""
_NUMBERS = ("item", "tolist")
"""Methods of a tensor for which the host waits until all that was queued before is done."""

_MAX_CALLERS = 20
_MAX_LEVELS = 2
_PROFILERS = ("torch.profiler.", "torch.autograd.profiler.", "torch.autograd.profiler_legacy.")
"""Packages of what records each step."""


def stalls(program: Program) -> tuple[Member, ...]:
    """The collection `code.stalls`: `name`, `kind`, `reason` of the first such call of each kind in a loop that goes
    backward in the same round; `beside` is a call by which the host waits anyway, "" without one. Edit: `drop`.
    """
    found = []
    for module in program.modules.values():
        for last, (names, reason) in _STALLS.items():
            for stall in _first_of_loops(program, module, last, names):
                around, site = stall.module, stall.site
                span = around.span(site.node)
                name = around.text(site.node, 60)
                beside = _beside(place_of(program, around, site), stall, last)
                edits = {"drop": _dropped(around, site.node)}
                fields = texts(span, name=name, kind=last, reason=reason, beside=beside)
                found.append(Member(span, fields, (), edits))
    return tuple(found)


class _Stall(NamedTuple):
    """A call that stalls, or that does nothing but lead to one, and the calls in a loop that lead to it where it stands
    in a function of steps.
    """

    module: Module
    site: Site
    calls: tuple[tuple[Place, Site], ...] = ()


def _beside(place: Place, stall: _Stall, last: str) -> str:
    """What makes a wait cost nothing; memory that is given back costs its time all the same."""
    return "" if last == _OF_MEMORY else wait_beside(place, stall.site, stall.calls)


def _dropped(module: Module, call: ast.AST) -> tuple[Edit, ...]:
    found = standing(module, call)
    edit = dropped(module, found) if found is not None else None
    return (edit,) if edit is not None else ()


def _first_of_loops(program: Program, module: Module, last: str, names: tuple[str, ...]) -> Iterator[_Stall]:
    seen: set[int] = set()
    for site in module.called.get(last, ()):
        if called(place_of(program, module, site)) not in names:
            continue
        for around, call in _in_loops(program, module, site):
            loop = call.loops[-1]
            timed = measures(loop) or (call is not site and measures(site.scope.node))
            if id(loop) in seen or (last == _OF_CLOCKS and (timed or _waits_anyway(loop, call.node))):
                continue
            if timed and not _updates(loop):
                continue
            place = place_of(program, around, call)
            if is_trial(place, loop):
                continue
            if not _is_profiled(place, loop) and _in_each_step(program, around, call) and stands(place) is not False:
                seen.add(id(loop))
                yield _Stall(around, call)
        found = _in_function_of_steps(program, module, site, last)
        if found is not None and id(found.calls[0][1].loops[-1]) not in seen:
            seen.add(id(found.calls[0][1].loops[-1]))
            yield found


def _in_function_of_steps(program: Program, module: Module, site: Site, last: str) -> _Stall | None:
    """A stall in a function that goes backward once each time that it is called, which a loop does."""
    function = enclosing_function(site.scope)
    place = place_of(program, module, site)
    if site.loops or function is None or not _steps_once(place, function, site.guards) or stands(place) is False:
        return None
    if last == _OF_CLOCKS and _waits_anyway(function.node, site.node):
        return None
    for calls in _leading(program, Definition(module, function), 0):
        outermost, call = calls[0]
        loop = call.loops[-1]
        timed = measures(loop) or measures(function.node)
        if is_trial(outermost, loop) or _is_profiled(outermost, loop) or stands(outermost) is False:
            continue
        if not timed or (last != _OF_CLOCKS and (_updates(loop) or _updates(function.node))):
            return _Stall(module, site, calls)
    return None


def _leading(program: Program, wanted: Definition, level: int) -> Iterator[tuple[tuple[Place, Site], ...]]:
    """The calls that lead from loops to a function, the outermost first."""
    for around, call in islice(callers(program, wanted), _MAX_CALLERS):
        place = place_of(program, around, call)
        if call.loops:
            yield ((place, call),)
            continue
        function = enclosing_function(call.scope)
        if function is not None and level < _MAX_LEVELS and not call.guards:
            outer = _leading(program, Definition(around, function), level + 1)
            yield from ((*calls, (place, call)) for calls in outer)


def _steps_once(place: Place, function: Scope, guards: tuple[Guard, ...], level: int = 0) -> bool:
    """Whether a function goes backward outside loops, itself or in what it calls, wherever these guards let pass what
    asks for more than several ranks.
    """
    asked = [guard for guard in guards if not asks_for_ranks(place, guard)]
    for site in function.sites:
        if site.loops or not isinstance(site.node, ast.Call) or any(guard not in site.guards for guard in asked):
            continue
        if _is_backward(site):
            return True
        inner = called_function(place_of(place.program, place.module, site)) if level < _MAX_LEVELS else None
        if inner is None or inner.scope is function or not isinstance(inner.scope.node, ast.FunctionDef):
            continue
        if _steps_once(place._replace(module=inner.module, scope=inner.scope), inner.scope, (), level + 1):
            return True
    return False


def _in_loops(program: Program, module: Module, site: Site) -> Iterator[tuple[Module, Site]]:
    """The call itself, in a loop; or the calls in loops of the function that makes it wherever there are several
    ranks (`synchronize()`).
    """
    if site.loops:
        yield module, site
        return
    function = enclosing_function(site.scope)
    place = place_of(program, module, site)
    if function is None or not all(asks_for_ranks(place, guard) for guard in site.guards):
        return
    for around, call in islice(callers(program, Definition(module, function)), _MAX_CALLERS):
        if call.loops:
            yield around, call


def _in_each_step(program: Program, module: Module, site: Site) -> bool:
    """Whether a call runs in every round of the loop in which the model goes backward, or the optimizer steps."""
    steps = (*module.called.get("backward", ()), *(each for each in module.called.get("step", ()) if _optimizes(each)))
    same = [step for step in steps if step.loops and step.loops[-1] is site.loops[-1]]
    if any(_repeats(step, site.loops[-1]) for step in same):
        return False
    if not same:
        beside = (each for each in site.scope.sites if each.loops and each.loops[-1] is site.loops[-1])
        same = [each for each in beside if _goes_backward(place_of(program, module, each))]
    return any(all(guard in step.guards for guard in site.guards) for step in same)


def _repeats(step: Site, loop: ast.AST) -> bool:
    """Whether a loop within the loop of a step makes the same one: a step for the rest of an epoch."""
    inner = (each for each in step.scope.sites if loop in each.loops and each.loops[-1] is not loop)
    return _optimizes(step) and any(_optimizes(each) and _receiver(each) == _receiver(step) for each in inner)


def _receiver(site: Site) -> str:
    """`optimizer` of `optimizer.step()`."""
    return dotted(site.node.func).rpartition(".")[0] if isinstance(site.node, ast.Call) else ""


def _goes_backward(place: Place) -> bool:
    """Whether a call is one of an object of the program that goes backward when it is called: a scaler of losses."""
    node = place.node
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
        return False
    if not any("__call__" in module.source.text for module in place.program.modules.values()):
        return False
    built = [way.end for way in ways(place.at(node.func))]
    return any(isinstance(end, Place) and _is_scaler(end) for end in built)


def _is_scaler(built: Place) -> bool:
    if not isinstance(built.node, ast.Call):
        return False
    names = qualified(built.module, built.node.func, built.scope)
    found = definition(built.program, built.module, f"{names[0]}.__call__") if len(names) == 1 else None
    return found is not None and any(_is_backward(site) for site in found.scope.sites)


def _is_backward(site: Site) -> bool:
    node = site.node
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "backward"


def _optimizes(site: Site) -> bool:
    """`optimizer.step()`; a schedule steps once an epoch too."""
    node = site.node
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and "optim" in dotted(node.func.value)


def _updates(loop: ast.AST) -> bool:
    """Whether a loop makes a step of training; one that measures time and makes none measures a part of the model."""
    inside = (node.func for node in ast.walk(loop) if isinstance(node, ast.Call))
    receivers = (func.value for func in inside if isinstance(func, ast.Attribute) and func.attr == "step")
    return any("prof" not in dotted(receiver) for receiver in receivers)


def _is_profiled(place: Place, loop: ast.AST) -> bool:
    """Whether a loop runs inside `with torch.profiler.profile(...)`: it is there to be measured step by step."""
    around = (item.context_expr for block in with_blocks(place) if is_inside(loop, block) for item in block.items)
    return any(called(place.at(node)).startswith(_PROFILERS) for node in around)


def _waits_anyway(loop: ast.AST, call: ast.AST) -> bool:
    """Whether the host asks the GPU for a number further down in every round, and would wait there: `loss.item()`."""
    body = loop.body if isinstance(loop, ast.For | ast.While | ast.FunctionDef) else []
    at = next((number for number, each in enumerate(body) if isinstance(each, ast.Expr) and each.value is call), None)
    behind = body[at + 1 :] if at is not None else []
    return any(_asks(node) for each in behind if isinstance(each, ast.Expr | ast.Assign) for node in ast.walk(each))


def _asks(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _NUMBERS
