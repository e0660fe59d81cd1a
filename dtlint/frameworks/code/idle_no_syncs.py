"""Finds `with model.no_sync():` around the backward pass alone, where DDP has decided in the forward pass already:
`code.idle_no_syncs`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dtlint.frameworks import Member
from dtlint.frameworks.code.counting import Turn
from dtlint.frameworks.code.heirs import overriding
from dtlint.frameworks.code.microsteps import SILENCERS, holds_on, is_inside, no_sync_calls, outermost
from dtlint.frameworks.code.objects import wrapped_kinds
from dtlint.frameworks.code.passes import mentions_result, results_of, without_gradients
from dtlint.frameworks.code.silenced_containers import runs, silenced_containers
from dtlint.frameworks.code.with_blocks import with_blocks
from dtlint.frameworks.pytorch.rank_count import names_ranks
from dtlint.frameworks.pytorch.step_area import called_function
from dtlint.languages.python.bindings import dotted, last_word
from dtlint.languages.python.called import argument_node
from dtlint.languages.python.callers import callers
from dtlint.languages.python.constants import evaluate
from dtlint.languages.python.names import attribute_bindings, lookup
from dtlint.languages.python.places import Budget, Place, place_of
from dtlint.languages.python.program import Definition, Program
from dtlint.languages.python.reach import stands
from dtlint.languages.python.reaching import reaching
from dtlint.languages.python.tree import Scope
from dtlint.value import Setting, Unknown, Value, written

_WRAPPING = frozenset({"accelerator", "fabric"})
"""Objects that wrap models themselves, and take the wrapped one as an argument."""
_AROUND_BACKWARD = frozenset({"backward", "scale", "mean", "sum", "item", "detach", "append", "print", "float"})
_STACKING = frozenset({"enter_context", "no_sync", "values", "items", "hasattr", "isinstance", "nullcontext"})
"""What enters several contexts in a block around a backward pass."""
_HARMLESS = re.compile(r"cast|grad$|grad_enabled|profil|record|timer|trace|nvtx|device|stream|nullcontext|amp")
"""Words of what a forward pass stands in that leaves the exchange on."""
_LEVELS = 3
"""Functions within functions that a forward pass is looked for in."""


def idle_no_syncs(program: Program) -> tuple[Member, ...]:
    """The blocks of no_sync that hold nothing but a backward pass, whose forward pass stands outside: in the same
    function, in one that it calls, or in one that hands it the loss.
    """
    found: dict[tuple[str, int], Member] = {}
    for place, model in _silences(program):
        if stands(outermost(place)) is False:
            continue
        if holds_on(((place, guard) for guard in place.guards), Turn({}, frozenset(), 0)) is False:
            continue
        for block in _blocks(place):
            if (forward := _forward_of(outermost(place), block, model)) is not None:
                span = place.module.span(block.items[0].context_expr)
                related = ((forward.module.span(forward.node), "the forward pass, outside"),)
                fields: dict[str, Setting] = {"model": written(model, span)}
                fields["batches"] = _batches(outermost(place), block)
                found.setdefault((span.path, span.start), Member(span, fields, related))
    return tuple(found.values())


def _silences(program: Program) -> Iterator[tuple[Place, str]]:
    """The calls of no_sync on models of DDP, each with the model's name."""
    for place in (*no_sync_calls(program), *_in_functions(program)):
        receiver = _silenced(place)
        if receiver is not None:
            yield place, dotted(receiver)
    yield from silenced_containers(program)


def _in_functions(program: Program) -> Iterator[Place]:
    """The calls of no_sync in functions, as they stand there."""
    for module in program.modules.values():
        for site in (site for word in SILENCERS for site in module.called.get(word, ())):
            if isinstance(site.scope.node, ast.FunctionDef) and not site.loops:
                yield place_of(program, module, site)


def _silenced(place: Place) -> ast.expr | None:
    """The model of DDP that a no_sync silences: its own, or the one that an Accelerator or Fabric is given."""
    node = place.node
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    found = wrapped_kinds(place.at(node.func.value))
    if found <= _WRAPPING:
        return node.args[0] if node.args else None
    return node.func.value if found == {"ddp"} else None


def _blocks(place: Place) -> Iterator[ast.With]:
    """The `with` statements of the function that enter a no_sync, called there or bound to a name before."""
    here = outermost(place)
    for block in with_blocks(here):
        if any(_enters(here, item.context_expr) for item in block.items) or _is_stacked(here, block):
            yield block


def _is_stacked(place: Place, block: ast.With) -> bool:
    """`with ExitStack() as stack: stack.enter_context(model.no_sync())`"""
    stacks = (item.context_expr for item in block.items if isinstance(item.context_expr, ast.Call))
    if not any(last_word(call.func) == "ExitStack" for call in stacks):
        return False
    inside = (node for part in block.body for node in ast.walk(part) if isinstance(node, ast.Call))
    entering = (call for call in inside if last_word(call.func) == "enter_context")
    return any(node is place.node for call in entering for node in ast.walk(call))


def _enters(place: Place, expression: ast.AST) -> bool:
    if any(node is place.node for node in ast.walk(expression)):
        return True
    return any(node is place.node for bound in _bound_to(place, expression) for node in ast.walk(bound))


def _bound_to(place: Place, expression: ast.AST) -> list[ast.AST]:
    """What a name may be bound to where it stands, an attribute of the own object anywhere."""
    name = dotted(expression)
    holder, bindings = lookup(place.scope, name) if name else (None, [])
    if holder is None and name.startswith("self."):
        return [item.node for _, item in attribute_bindings(place.module, place.scope, name) if item.node is not None]
    bound = [item for item, _ in reaching(place.at(expression), holder, bindings)] if holder is not None else []
    return [item.node for item in bound if item.node is not None]


def _forward_of(place: Place, block: ast.With, model: str) -> Place | None:
    """The forward pass whose backward pass is all that a block holds; None for any other block."""
    inside = [node for part in block.body for node in ast.walk(part) if isinstance(node, ast.Call)]
    words = {node.func.attr if isinstance(node.func, ast.Attribute) else dotted(node.func) for node in inside}
    backward = [node for node in inside if isinstance(node.func, ast.Attribute) and node.func.attr == "backward"]
    stacked = _STACKING if "enter_context" in words else frozenset()
    if not backward or not words <= _AROUND_BACKWARD | stacked:
        return None
    around = _around(place, block)
    for node in ast.walk(around) if not isinstance(around, ast.Module) else ():
        if isinstance(node, ast.Call) and runs(node.func, model) and node.lineno < block.lineno:
            return place.at(node) if not _may_be_silent(place.at(node)) else None
    return _forward_behind(place, around, backward[0], model) or _forward_before(place, backward[0], model)


def _batches(place: Place, block: ast.With) -> Setting:
    """By how many batches the loss is divided whose backward pass a block holds (`(loss / 8).backward()`)."""
    nodes = [node for part in block.body for node in ast.walk(part)]
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    bound = [node for node in ast.walk(_around(place, block)) if isinstance(node, ast.Assign | ast.AugAssign)]
    own = [node for node in bound if not names.isdisjoint(_targets(node)) and node.lineno < block.lineno]
    parts = [*nodes, *(node for each in own for node in ast.walk(each))]
    divisors = [each.right for each in parts if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Div)]
    divisors += [each.value for each in own if isinstance(each, ast.AugAssign) and isinstance(each.op, ast.Div)]
    told = [place.at(each)._replace(budget=Budget()) for each in divisors]
    found = evaluate(told[0]) if len(told) == 1 and not names_ranks(told[0]) else None
    counts = isinstance(found, Value) and isinstance(found.value, int) and found.value > 1
    return found if counts and found is not None else Unknown("how many batches are accumulated is not known")


def _targets(node: ast.Assign | ast.AugAssign) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [dotted(target) for target in targets]


def _around(place: Place, node: ast.AST) -> ast.AST:
    """The innermost loop around a node, else its function."""
    loops = (each for each in ast.walk(place.scope.node) if isinstance(each, ast.For | ast.While))
    return next(reversed([each for each in loops if is_inside(node, each)]), place.scope.node)


def _forward_behind(place: Place, around: ast.AST, used: ast.AST, model: str) -> Place | None:
    """The forward pass that a function makes whose result is used, or that is called there."""
    for node in ast.walk(around) if not isinstance(around, ast.Module) else ():
        if isinstance(node, ast.Call):
            forward = _pass_in(place.at(node), model, _LEVELS)
            if forward is not None and mentions_result(used, results_of(around, node), node):
                return forward
    return None


def _pass_in(place: Place, model: str, levels: int) -> Place | None:
    """The forward pass that a call is or leads to, which nothing may silence."""
    node = place.node
    if not isinstance(node, ast.Call) or without_gradients(place) or _may_be_silent(place):
        return None
    if runs(node.func, model):
        return place
    helper = called_function(place) if levels else None
    for each in [helper, *overriding(place.program, helper)] if helper is not None else []:
        name = _name_within(place, each, node, model)
        for site in each.scope.sites if name else ():
            if isinstance(site.node, ast.Call):
                found = _pass_in(place_of(place.program, each.module, site), name, levels - 1)
                if found is not None:
                    return found
    return None


def _forward_before(place: Place, backward: ast.Call, model: str) -> Place | None:
    """The forward pass of a loss that a function is given, where the function is called."""
    function = place.scope
    if not isinstance(function.node, ast.FunctionDef):
        return None
    names = {node.id for node in ast.walk(backward) if isinstance(node, ast.Name)}
    for module, site in callers(place.program, Definition(place.module, function)):
        outside = place_of(place.program, module, site)
        given = [argument_node(function, name, site.node) for name in sorted(names)]
        name = _name_outside(function, site.node, model)
        for loss in given if name and not _may_be_silent(outside) else ():
            forward = _forward_behind(outside, _around(outside, site.node), loss, name) if loss is not None else None
            if forward is not None:
                return forward
    return None


def _name_within(place: Place, helper: Definition, call: ast.Call, model: str) -> str:
    """What a function calls the model of its caller: a parameter, an attribute of one object, a global name; "" where
    it does not know it.
    """
    node = helper.scope.node
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    parameters = [each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    given = ((name, argument_node(helper.scope, name, call)) for name in parameters)
    handed = next((name for name, item in given if item is not None and dotted(item) == model), "")
    owner, _, attribute = model.rpartition(".")
    if not handed and owner and isinstance(call.func, ast.Attribute) and dotted(call.func.value) == owner:
        return f"self.{attribute}"
    holder = lookup(place.scope, model)[0]
    return handed or (model if holder is not None and lookup(helper.scope, model)[0] is holder else "")


def _name_outside(function: Scope, call: ast.AST, model: str) -> str:
    """What the caller of a function calls a model of it."""
    given = argument_node(function, model, call)
    if given is not None:
        return dotted(given)
    owner, _, attribute = model.rpartition(".")
    target = call.func if isinstance(call, ast.Call) else None
    if owner == "self" and isinstance(target, ast.Attribute) and dotted(target.value):
        return f"{dotted(target.value)}.{attribute}"
    return "" if owner or model in function.bindings else model


def _may_be_silent(place: Place) -> bool:
    """Whether a call may stand in a block that turns the exchange off."""
    return any(
        _may_silence(place, item.context_expr)
        for block in with_blocks(place)
        if is_inside(place.node, block) and any(place.node is node for part in block.body for node in ast.walk(part))
        for item in block.items
    )


def _may_silence(place: Place, entered: ast.AST) -> bool:
    """Whether what a `with` statement enters may be a no_sync: a name is what it is bound to."""
    if isinstance(entered, ast.Call):
        return _HARMLESS.search(last_word(entered.func)) is None
    if isinstance(entered, ast.IfExp):
        return _may_silence(place, entered.body) or _may_silence(place, entered.orelse)
    bound = _bound_to(place, entered) if place.budget.spend() else []
    return not bound or any(_may_silence(place, node) for node in bound)
