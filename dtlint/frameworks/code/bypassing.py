"""Finds forward passes of training that go through the model inside DDP, which exchanges nothing then:
`code.bypassed_models`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtlint.frameworks import Member
from dtlint.frameworks.code.microsteps import is_inside
from dtlint.frameworks.code.objects import kinds
from dtlint.frameworks.pytorch.exchange import collectives
from dtlint.frameworks.pytorch.names import DDP
from dtlint.frameworks.pytorch.step_area import called_function
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.calls import Call, calls, passed
from dtlint.languages.python.names import lookup
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import stands
from dtlint.languages.python.reaching import reaching
from dtlint.languages.python.tree import Module, Site
from dtlint.record import NamedTuple
from dtlint.value import Setting, written

_LEVELS = 4
"""Names and helper functions through which a model is followed to the wrapper that it is taken out of."""
_ASKS = frozenset({"isinstance", "hasattr", "getattr", "type", "id"})
"""Functions that ask what an object is, and call nothing of it."""


class _Inner(NamedTuple):
    """A call of the model inside a wrapper, or of a method of it that may be no forward pass."""

    wrapper: Place
    is_method: bool


def bypassed_models(program: Program) -> tuple[Member, ...]:
    """Forward passes of training through `model.module`, which DDP does not see, under any name; none where the program
    exchanges the gradients by hand.
    """
    found = [member for call in calls(program, DDP) if (member := _unused_wrapper(call)) is not None]
    for module in program.modules.values():
        for site in _sites_of_training(module) if _takes_out(program, module) else ():
            member = _bypass(place_of(program, module, site), site)
            found += [member] if member is not None else []
    return tuple(found) if found and not any(True for _ in collectives(program)) else ()


def _takes_out(program: Program, module: Module) -> bool:
    """Whether a module goes backward, and it or another takes a model out of something."""
    takes = (".module" in each.source.text for each in program.modules.values())
    return "backward" in module.called and any(takes)


def _sites_of_training(module: Module) -> Iterator[Site]:
    """The calls in functions that go backward."""
    training = {id(site.scope) for site in module.called.get("backward", ())}
    scopes = (scope for scope in module.scopes if id(scope) in training)
    yield from (site for scope in scopes for site in scope.sites if isinstance(site.node, ast.Call))


def _bypass(place: Place, site: Site) -> Member | None:
    inner = _inner_call(place)
    if inner is None or not _is_trained(place, site) or kinds(inner.wrapper) != {"ddp"} or stands(place) is False:
        return None
    name = dotted(inner.wrapper.node)
    if _calls(_around(place, site), name) or (inner.is_method and _may_call(place.module, name)):
        return None
    span = place.module.span(place.node)
    return Member(span, {"model": written(name, span)})


def _unused_wrapper(call: Call) -> Member | None:
    """A model that is wrapped under another name, which is then never called, while the model itself is trained."""
    place = call.place
    inner = passed(call, "module", 0)
    model = dotted(inner[0].place.node) if inner else ""
    wrapper = _name_of(place)
    if not model or not wrapper or "." in wrapper or wrapper == model or stands(place) is False:
        return None
    if _is_used(place.module, wrapper):
        return None
    for site in place.module.called.get(model, ()):
        forward = place_of(place.program, place.module, site)
        after = getattr(site.node, "lineno", 0) > getattr(place.node, "lineno", 0)
        if after and site.scope is place.scope and site.loops and _is_trained(forward, site):
            span = place.module.span(site.node)
            fields: dict[str, Setting] = {"model": written(model, span), "wrapper": written(wrapper, span)}
            return Member(span, fields, ((call.head, "wrapped here, under a name that is not called"),))
    return None


def _name_of(place: Place) -> str:
    """The name that the result of a call is bound to by itself."""
    for site in place.scope.sites:
        if isinstance(site.node, ast.Assign) and site.node.value is place.node and len(site.node.targets) == 1:
            return dotted(site.node.targets[0])
    return ""


def _is_used(module: Module, name: str) -> bool:
    """Whether a name is called, or handed to anything that may call it; its parameters and state may be read."""
    reads = {"parameters", "state_dict", "named_parameters", "train", "eval"}
    for node in ast.walk(module.top.node):
        if isinstance(node, ast.Attribute) and dotted(node.value) == name and node.attr not in reads:
            return True
        if isinstance(node, ast.Call) and (dotted(node.func) == name or name in _handed(node)):
            return True
        if isinstance(node, ast.Return | ast.Assign) and node.value is not None and dotted(node.value) == name:
            return True
    return False


def _handed(node: ast.Call) -> set[str]:
    given = [*node.args, *(keyword.value for keyword in node.keywords)]
    return {part.id for item in given for part in ast.walk(item) if isinstance(part, ast.Name) and not _is_read(item)}


def _is_read(item: ast.expr) -> bool:
    """`ddp.parameters()` handed to an optimizer."""
    return isinstance(item, ast.Call) and isinstance(item.func, ast.Attribute) and not item.args


def _inner_call(place: Place) -> _Inner | None:
    """`model.module(...)`, `model.module.forward(...)` and `model.module.loss(...)`, where a name or a function may
    stand for `model.module`.
    """
    assert isinstance(place.node, ast.Call)
    function = place.node.func
    wrapper = _wrapper(place.at(function), _LEVELS)
    if wrapper is not None:
        return _Inner(wrapper, False)
    wrapper = _wrapper(place.at(function.value), _LEVELS) if isinstance(function, ast.Attribute) else None
    return None if wrapper is None else _Inner(wrapper, not dotted(function).endswith(".forward"))


def _wrapper(place: Place, levels: int) -> Place | None:
    """`model` of an expression that stands for `model.module`, in one of its branches at least."""
    node = place.node
    if not levels or not place.budget.spend():
        return None
    if isinstance(node, ast.Attribute):
        return place.at(node.value) if node.attr == "module" and dotted(node.value) else None
    stands_for = (_wrapper(inner, levels - 1) for inner in _meanings(place))
    return next((found for found in stands_for if found is not None), None)


def _meanings(place: Place) -> Iterator[Place]:
    """What a conditional expression, a name with one binding, or a call of a function of the program stands for."""
    node = place.node
    if isinstance(node, ast.IfExp):
        yield from (place.at(node.body), place.at(node.orelse))
    elif isinstance(node, ast.Name):
        holder, bindings = lookup(place.scope, node.id)
        bound = [binding for binding, _ in reaching(place, holder, bindings)] if holder is not None else []
        if holder is not None and len(bound) == 1 and bound[0].kind == "value" and not bound[0].path:
            yield place._replace(scope=holder, node=bound[0].node or node)
    elif isinstance(node, ast.Call):
        helper = called_function(place)
        for site in helper.scope.sites if helper is not None else ():
            if helper is not None and isinstance(site.node, ast.Return) and site.node.value is not None:
                yield place._replace(module=helper.module, scope=helper.scope, node=site.node.value)


def _calls(around: ast.AST, name: str) -> bool:
    return any(isinstance(node, ast.Call) and dotted(node.func) == name for node in ast.walk(around))


def _may_call(module: Module, name: str) -> bool:
    """Whether a module calls a wrapper anywhere, or hands it to what may."""
    for node in ast.walk(module.top.node):
        if isinstance(node, ast.Call) and dotted(node.func) not in _ASKS:
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
            if name == dotted(node.func) or any(dotted(item) == name for item in given):
                return True
    return False


def _around(place: Place, site: Site) -> ast.AST:
    """The loop in which a call stands, else its function."""
    return site.loops[-1] if site.loops else place.scope.node


def _is_trained(place: Place, site: Site) -> bool:
    """Whether the result goes backward in the same loop or function."""
    around = _around(place, site)
    if isinstance(around, ast.Module):
        return False
    inside = (node for node in ast.walk(around) if isinstance(node, ast.Call))
    backward = [node for node in inside if isinstance(node.func, ast.Attribute) and node.func.attr == "backward"]
    bound = _result_names(around, place.node) if backward else set()
    used = any(_mentions(node, bound, place.node) and node is not place.node for node in backward)
    return used and not _without_gradients(place)


def _result_names(around: ast.AST, call: ast.AST) -> set[str]:
    """The names that what the call returns goes into, and those computed from them."""
    bound: set[str] = set()
    for _ in range(3):
        for node in ast.walk(around):
            if isinstance(node, ast.Assign) and _mentions(node.value, bound, call):
                targets = [part for target in node.targets for part in ast.walk(target)]
                bound |= {dotted(part) for part in targets if dotted(part)}
    return bound


def _mentions(node: ast.AST, names: set[str], call: ast.AST) -> bool:
    return any(part is call or (isinstance(part, ast.Name) and part.id in names) for part in ast.walk(node))


def _without_gradients(place: Place) -> bool:
    """Whether the call stands in a `with torch.no_grad()`."""
    blocks = (block for block in ast.walk(place.scope.node) if isinstance(block, ast.With))
    around = (item for block in blocks if is_inside(place.node, block) for item in block.items)
    return any("no_grad" in place.module.text(item.context_expr) for item in around)
