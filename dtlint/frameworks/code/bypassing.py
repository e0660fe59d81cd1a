"""Finds forward passes of training that go through the model inside DDP, which exchanges nothing then:
`code.bypassed_models`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dtlint.frameworks import Member
from dtlint.frameworks.code.inside import original, taken_from
from dtlint.frameworks.code.objects import is_prepared, wrapped_kinds
from dtlint.frameworks.code.passes import (
    around,
    is_trained,
    mentions_result,
    results_of,
    runs_forward,
    without_gradients,
)
from dtlint.frameworks.code.unused_wrappers import unused_wrappers
from dtlint.frameworks.code.wrapper_uses import ASKS, NO_PASS, may_be_called
from dtlint.frameworks.pytorch.exchange import collectives
from dtlint.frameworks.pytorch.step_area import called_function
from dtlint.languages.python.bindings import dotted, last_word
from dtlint.languages.python.called import argument_node, given_to
from dtlint.languages.python.names import lookup
from dtlint.languages.python.places import Budget, Frame, Place, place_of
from dtlint.languages.python.program import Definition, Program
from dtlint.languages.python.reach import stands
from dtlint.languages.python.tree import Module, Site
from dtlint.record import NamedTuple
from dtlint.value import written

_TAKES = re.compile(r"\.module\b|['\"]module['\"]|unwrap_model|extract_model_from_parallel")
"""How programs take a model out of its wrapper."""
_ENTERED = 3
"""Functions within functions that a forward pass is looked for in."""


class _Inner(NamedTuple):
    """A call of the model inside a wrapper, or of a method of it that may be no forward pass; its `place` where that is
    in a function which training calls.
    """

    wrapper: Place
    is_method: bool
    place: Place | None = None


def bypassed_models(program: Program) -> tuple[Member, ...]:
    """Forward passes of training through `model.module`, which DDP does not see, under any name; none where the program
    exchanges the gradients by hand.
    """
    found = list(unused_wrappers(program))
    for module in program.modules.values():
        passes: dict[tuple[ast.AST, str], Member] = {}
        for site in _sites_of_training(module) if _takes_out(program, module) else ():
            place = place_of(program, module, site)
            passed = _bypass(place, site)
            if passed is not None:
                key = (around(place, site), passed[0])
                passes[key] = _joined(passes.get(key), passed[1])
        found += passes.values()
    return tuple(found) if found and not any(True for _ in collectives(program)) else ()


def _joined(first: Member | None, member: Member) -> Member:
    """One member of the passes through one model in one loop: the first, with the others beside it."""
    if first is None:
        return member
    return first._replace(related=(*first.related, (member.place, "so does this pass")))


def _takes_out(program: Program, module: Module) -> bool:
    """Whether a module goes backward, and it or another takes a model out of something."""
    takes = (_TAKES.search(each.source.text) is not None for each in program.modules.values())
    return "backward" in module.called and any(takes)


def _sites_of_training(module: Module) -> Iterator[Site]:
    """The calls in functions that go backward."""
    training = {id(site.scope) for site in module.called.get("backward", ())}
    scopes = (scope for scope in module.scopes if id(scope) in training)
    yield from (site for scope in scopes for site in scope.sites if isinstance(site.node, ast.Call))


def _bypass(place: Place, site: Site) -> tuple[str, Member] | None:
    """A forward pass of training that goes by a wrapper, and the name of this."""
    inner = _inner_call(place) or _inner_call_in(place, _ENTERED)
    if inner is None or not is_trained(place, site) or stands(place) is False:
        return None
    wrapper = _wrapper_of(inner.wrapper)
    if not wrapper or _calls_wrapper(place, site, inner):
        return None
    span = place.module.span(place.node)
    name = dotted(original(inner.wrapper).node)
    taken = inner.wrapper.module.span(inner.wrapper.node)
    related = [] if inner.place is None else [(inner.place.module.span(inner.place.node), "the forward pass")]
    if inner.place is None and not (taken.path == span.path and span.start <= taken.start < span.end):
        related.append((taken, "the model is taken out here"))
    return name, Member(span, {"model": written(name, span), "by": written(wrapper, span)}, tuple(related))


def _wrapper_of(place: Place) -> str:
    """Who has wrapped a model: "ddp" the program itself, "prepared" what it has handed the model to; "" nobody for
    certain.
    """
    if wrapped_kinds(place) == {"ddp"}:
        return "ddp"
    return "prepared" if is_prepared(place._replace(budget=Budget())) else ""


def _calls_wrapper(place: Place, site: Site, inner: _Inner) -> bool:
    """Whether the wrapper is called as well, or may be: by its name, or as what DDP wraps under another name."""
    name, whole = dotted(inner.wrapper.node), around(place, site)
    own = inner.place is None and inner.wrapper.scope is place.scope
    if own and (_calls_as_wrapped(place, whole, name) or (inner.is_method and may_be_called(inner.wrapper))):
        return True
    if inner.place is None and not own and _is_held_and_called(original(inner.wrapper)):
        return True
    nodes = [node for node in ast.walk(whole) if isinstance(node, ast.Call) and node is not place.node]
    return any(_reaches(place.at(node), node, _ENTERED) for node in nodes)


def _is_held_and_called(wrapper: Place) -> bool:
    """Whether the wrapper that an object holds (`self.model`) may be called by another of its methods, or by what holds
    the object.
    """
    node = wrapper.node
    if not isinstance(node, ast.Attribute):
        return False
    others = (each for each in wrapper.program.modules.values() if each is not wrapper.module)
    return may_be_called(wrapper) or any(f".{node.attr}(" in each.source.text for each in others)


def _calls_as_wrapped(place: Place, whole: ast.AST, name: str) -> bool:
    """Whether a name is called with gradients where it still stands for the wrapper, and not for the model that was
    taken out since (`model = model.module`).
    """
    named = [node.func for node in ast.walk(whole) if isinstance(node, ast.Call) and dotted(node.func) == name]
    trained = [place.at(function) for function in named if not without_gradients(place.at(function))]
    return any(taken_from(function._replace(budget=Budget())) is None for function in trained)


def _reaches(place: Place, node: ast.Call, levels: int) -> bool:
    """Whether a call is one of a DDP model, hands one to what may call it with gradients, or leads to such a call."""
    asks = dotted(node.func) in ASKS or last_word(node.func) in NO_PASS
    models = [item for item in (node.func, *given_to(node)) if dotted(item) and not asks]
    wrapped = [item for item in models if _wrapper_of(place.at(item)._replace(budget=Budget()))]
    if without_gradients(place) or node.func in wrapped or not levels:
        return node.func in wrapped and not without_gradients(place)
    helper = called_function(place)
    if helper is None:
        return bool(wrapped)
    if any(runs_forward(place, node, dotted(item)) for item in wrapped) or _hands_on(helper, node, wrapped):
        return True
    inside = (place_of(place.program, helper.module, site) for site in helper.scope.sites)
    return any(_reaches(each, each.node, levels - 1) for each in inside if isinstance(each.node, ast.Call))


def _hands_on(helper: Definition, node: ast.Call, wrapped: list[ast.expr]) -> bool:
    """Whether a function hands on a model that it is given."""
    inside = [site.node for site in helper.scope.sites if isinstance(site.node, ast.Call)]
    names = {dotted(item) for call in inside if dotted(call.func) not in ASKS for item in given_to(call)} - {""}
    return any(argument_node(helper.scope, name, node) in wrapped for name in names)


def _inner_call(place: Place) -> _Inner | None:
    """`model.module(...)`, `model.module.forward(...)`, `model.module.loss(...)` and `model.module.encoder.embed(...)`,
    where a name or a function may stand for `model.module`.
    """
    assert isinstance(place.node, ast.Call)
    function = place.node.func
    wrapper = taken_from(place.at(function))
    if wrapper is not None:
        return _Inner(wrapper, False)
    part = function.value if isinstance(function, ast.Attribute) else _turned_over(place, function)
    is_forward = isinstance(function, ast.Attribute) and function.attr == "forward"
    wrapper = taken_from(place.at(part)) if part is not None else None
    while wrapper is None and isinstance(part, ast.Attribute):
        part, is_forward = part.value, False
        wrapper = taken_from(place.at(part))
    return None if wrapper is None else _Inner(wrapper, not is_forward)


def _turned_over(place: Place, function: ast.expr) -> ast.expr | None:
    """`model.module.layers` of a `layer` that a loop turns over."""
    bound = lookup(place.scope, function.id)[1] if isinstance(function, ast.Name) else []
    loops = [binding for binding in bound if binding.kind == "loop" and not binding.path]
    turned = loops[0].node if len(loops) == len(bound) == 1 else None
    return turned if isinstance(turned, ast.Attribute) else None


def _inner_call_in(place: Place, levels: int) -> _Inner | None:
    """The inner call whose result a function of the program returns, of what this call hands it or it takes out itself
    (`loss_of(model.module, x)`).
    """
    helper = called_function(place) if levels and place.budget.spend() else None
    if helper is None or not _may_take_out(place, helper):
        return None
    for site in (site for site in helper.scope.sites if isinstance(site.node, ast.Call)):
        inside = place_of(place.program, helper.module, site)._replace(
            frames=(Frame(helper.scope, place),), budget=place.budget
        )
        found = _inner_call(inside) or _inner_call_in(inside, levels - 1)
        if found is None or without_gradients(inside) or not _is_returned(inside):
            continue
        if not (found.wrapper.scope is helper.scope and _calls_own(helper, found)):
            return found._replace(place=found.place or inside)
    return None


def _may_take_out(place: Place, helper: Definition) -> bool:
    """Whether a function is handed the model inside a wrapper, or its file takes one out."""
    given = given_to(place.node) if isinstance(place.node, ast.Call) else []
    return _TAKES.search(helper.module.source.text) is not None or any(taken_from(place.at(item)) for item in given)


def _calls_own(helper: Definition, inner: _Inner) -> bool:
    return _calls(helper.scope.node, dotted(inner.wrapper.node))


def _is_returned(place: Place) -> bool:
    returns = [site.node.value for site in place.scope.sites if isinstance(site.node, ast.Return) and site.node.value]
    bound = results_of(place.scope.node, place.node) if returns else set()
    return any(mentions_result(value, bound, place.node) for value in returns)


def _calls(around: ast.AST, name: str) -> bool:
    return any(isinstance(node, ast.Call) and dotted(node.func) == name for node in ast.walk(around))
