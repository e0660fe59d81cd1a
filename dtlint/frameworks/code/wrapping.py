"""Finds DDP models that are used in a way that takes them out of the exchange: moved after wrapping, or searched
during recomputation.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtlint.frameworks import Member
from dtlint.frameworks.code.microsteps import is_inside
from dtlint.frameworks.code.objects import wrapped_kinds
from dtlint.frameworks.code.recomputed import Models
from dtlint.frameworks.pytorch.names import CHECKPOINTS, DDP, DDP_KWARGS
from dtlint.frameworks.pytorch.step_area import called_function
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.callers import callers
from dtlint.languages.python.calls import Call, argument, call_at, called, calls, passed
from dtlint.languages.python.constants import evaluate
from dtlint.languages.python.dicts import unpacked_dict
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Definition, Program
from dtlint.languages.python.reach import enclosing_function, standing, stands
from dtlint.languages.python.tree import Site
from dtlint.source import Span
from dtlint.value import Setting, Value, written

_MAX_DEPTH = 4
_SWITCH = "gradient_checkpointing_enable"


def moved_models(program: Program) -> tuple[Member, ...]:
    """DDP models moved to the CPU after wrapping and trained on later."""
    found = []
    for module in program.modules.values():
        for site in (*module.called.get("cpu", ()), *module.called.get("to", ())):
            place = place_of(program, module, site)
            model = _moved_to_cpu(place)
            if model is None or wrapped_kinds(model) != {"ddp"} or stands(place) is False:
                continue
            later = _trains_on(place, site, 0)
            if later is not None:
                span = module.span(site.node)
                related = ((later, "training goes on here"),)
                found.append(Member(span, {"model": written(dotted(model.node), span)}, related))
    return tuple(found)


def _moved_to_cpu(place: Place) -> Place | None:
    """The model of a statement `model.cpu()`, `model.to("cpu")`; one that is copied to a name stays where it is."""
    node = place.node
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    receiver = node.func.value
    if isinstance(receiver, ast.Attribute) and receiver.attr == "module":
        receiver = receiver.value
    if not dotted(receiver):
        return None
    if node.func.attr == "cpu":
        return place.at(receiver) if not node.args else None
    target = node.args[0] if node.args else None
    if isinstance(target, ast.Call) and called(place.at(target)) == "torch.device" and target.args:
        target = target.args[0]
    return place.at(receiver) if isinstance(target, ast.Constant) and target.value == "cpu" else None


def _trains_on(place: Place, moved: Site, depth: int) -> Span | None:
    """Where training goes on after a move: in the same function, or where that is called."""
    later = _trains_later(place, moved)
    if later is not None:
        return place.module.span(later)
    function = enclosing_function(place.scope) if depth < _MAX_DEPTH else None
    calls_of = callers(place.program, Definition(place.module, function)) if function is not None else ()
    outside = (_trains_on(place_of(place.program, module, call), call, depth + 1) for module, call in calls_of)
    return next((span for span in outside if span is not None), None)


def _trains_later(place: Place, moved: Site) -> ast.AST | None:
    """The first call after a move, in the same function, that goes backward or leads to it."""
    leaving = _leaving_block(place.scope.node, moved.node)
    for site in place.scope.sites:
        if leaving and not any(is_inside(site.node, statement) for statement in leaving):
            continue
        after = getattr(site.node, "lineno", 0) > getattr(moved.node, "lineno", 0)
        repeated = any(is_inside(site.node, loop) for loop in moved.loops)
        if isinstance(site.node, ast.Call) and (after or repeated):
            if _wraps(place, site.node) and after:
                return None
            if _goes_backward(place_of(place.program, place.module, site), 0):
                return site.node
    return None


def _leaving_block(scope: ast.AST, node: ast.AST) -> list[ast.stmt]:
    """The block of a condition around a node, where it ends in a return: nothing below it runs after the node."""
    for outer in ast.walk(scope):
        for block in (outer.body, outer.orelse) if isinstance(outer, ast.If) else ():
            if isinstance(block[-1] if block else None, ast.Return | ast.Raise) and any(
                is_inside(node, statement) for statement in block
            ):
                return block
    return []


def _wraps(place: Place, node: ast.Call) -> bool:
    return called(place.at(node)) in DDP


def _goes_backward(place: Place, depth: int) -> bool:
    node = place.node
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "backward":
        return True
    helper = called_function(place) if depth < _MAX_DEPTH else None
    if helper is None:
        return False
    inside = (site for site in helper.scope.sites if isinstance(site.node, ast.Call))
    return any(_goes_backward(place_of(place.program, helper.module, site), depth + 1) for site in inside)


def searched_recomputations(program: Program) -> tuple[Member, ...]:
    """DDP calls, and arguments that Accelerate hands to DDP, with find_unused_parameters in a program that recomputes
    activations in the reentrant way.
    """
    wraps = standing(program, (*DDP, *DDP_KWARGS))
    found = []
    for call in wraps:
        unused, static = argument(call, "find_unused_parameters"), argument(call, "static_graph")
        if call.open or static is not None or not isinstance(unused, Value) or unused.value is not True:
            continue
        if _sets_static_graph(program):
            continue
        reentrant = next(_reentrant(program), None)
        if reentrant is not None:
            span = _argument_span(call, "find_unused_parameters")
            fields: dict[str, Setting] = {"unused": written(True, span)}
            found.append(Member(span, fields, ((reentrant, "recomputes in the reentrant way"),)))
    return tuple(found)


def _sets_static_graph(program: Program) -> bool:
    return any("_set_static_graph" in module.called for module in program.modules.values())


def _argument_span(call: Call, name: str) -> Span:
    item = passed(call, name)[0]
    return item.place.module.span(item.place.node)


def _reentrant(program: Program) -> Iterator[Span]:
    """The places that certainly turn reentrant recomputation on: torch's default, or `use_reentrant=True`."""
    models = Models(program)
    for call in calls(program, CHECKPOINTS[:2]):
        value = argument(call, "use_reentrant")
        inside = enclosing_function(call.place.scope)
        asked = stands(call.place) and (value is None or _is_true(value)) and inside is not None
        if asked and models.recompute(call):
            yield call.head
    for module in program.modules.values():
        for site in module.called.get(_SWITCH, ()):
            place = place_of(program, module, site)
            if stands(place) and _asks_reentrant(place):
                yield module.span(site.node)


def _is_true(value: Setting) -> bool:
    return isinstance(value, Value) and value.value is True


def _asks_reentrant(place: Place) -> bool:
    """`gradient_checkpointing_kwargs={"use_reentrant": True}`; the default has changed between versions."""
    call = call_at(place, _SWITCH)
    for item in passed(call, "gradient_checkpointing_kwargs", 0):
        options = unpacked_dict(item.place) or {}
        return any(_is_true(evaluate(option.place)) for option in options.get("use_reentrant", ()))
    return False
