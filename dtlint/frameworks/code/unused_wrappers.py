"""Finds models that are trained beside the wrapper that is made of them, or of a model that holds them, where nothing
calls that: members of `code.bypassed_models`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dtlint.frameworks import Member
from dtlint.frameworks.code.objects import PREPARERS, PREPARING, SAME_OBJECT, WRAPPERS, kinds
from dtlint.frameworks.code.passes import CALLS_NOTHING, is_trained, runs_forward, without_gradients
from dtlint.frameworks.pytorch.names import DDP
from dtlint.languages.python.bindings import dotted, enclosing_class, last_word
from dtlint.languages.python.called import given_to
from dtlint.languages.python.calls import calls, passed
from dtlint.languages.python.following import ways
from dtlint.languages.python.places import Budget, Place, place_of
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import stands
from dtlint.languages.python.tree import Module, Scope, Site
from dtlint.record import NamedTuple
from dtlint.value import Setting, written

_READS = SAME_OBJECT | {
    "buffers", "load_state_dict", "modules", "named_buffers", "named_modules", "named_parameters", "parameters",
    "state_dict", "zero_grad",
}  # fmt: skip
"""Methods of a model that make no forward pass."""
_HARMLESS = CALLS_NOTHING | {
    "compile", "convert_sync_batchnorm", "count_parameters", "hasattr", "id", "isinstance", "type",
}  # fmt: skip
"""Functions that are given a model and pass nothing through it."""
_LOSS = re.compile(r"loss|criterion|metric|activation", re.IGNORECASE)
"""Words in what is called on the way to a loss, and is no model."""


class _Wrap(NamedTuple):
    """A call that wraps a model, what it is given, the name of what it makes, and who wraps."""

    call: Place
    inner: Place
    name: str
    by: str


def unused_wrappers(program: Program) -> Iterator[Member]:
    """The models that training calls beside a wrapper of theirs which is never called."""
    for wrap in (*_of_ddp(program), *_prepared(program)):
        if stands(wrap.call) is not False and not _is_used(wrap):
            yield from _members(wrap)


def _of_ddp(program: Program) -> Iterator[_Wrap]:
    for call in calls(program, DDP):
        inner, name = passed(call, "module", 0), _name_of(call.place)
        if inner and name:
            yield _Wrap(call.place, inner[0].place, name, "ddp")


def _prepared(program: Program) -> Iterator[_Wrap]:
    """What `wrapped, optimizer = accelerator.prepare(model, optimizer)` wraps."""
    for module in program.modules.values():
        for site in (site for word in sorted(PREPARING) for site in module.called.get(word, ())):
            place = place_of(program, module, site)
            function = place.node.func if isinstance(place.node, ast.Call) else None
            if isinstance(function, ast.Attribute) and kinds(place.at(function.value)) <= PREPARERS:
                yield from (_Wrap(place, place.at(given), name, "prepared") for given, name in _pairs(place))


def _pairs(call: Place) -> Iterator[tuple[ast.expr, str]]:
    """What a call is given, each with the name that its own result is bound to."""
    node = call.node
    bound = next((each for each in _assignments(call.scope) if each.value is node), None)
    target = bound.targets[0] if bound is not None and len(bound.targets) == 1 else None
    targets = target.elts if isinstance(target, ast.Tuple | ast.List) else [target] if target is not None else []
    if isinstance(node, ast.Call) and len(targets) == len(node.args):
        yield from ((given, dotted(name)) for given, name in zip(node.args, targets, strict=True) if dotted(name))


def _assignments(scope: Scope) -> Iterator[ast.Assign]:
    return (site.node for site in scope.sites if isinstance(site.node, ast.Assign))


def _name_of(place: Place) -> str:
    """The name that the result of a call is bound to by itself."""
    found = (each.targets[0] for each in _assignments(place.scope) if each.value is place.node)
    return next((dotted(target) for target in found), "")


def _members(wrap: _Wrap) -> Iterator[Member]:
    """The first pass through the model that is wrapped, or through a model in it."""
    module = wrap.call.module
    for model, is_part in _models_in(wrap):
        for forward, site in _sites(wrap, model):
            if isinstance(site.node, ast.Call) and site.loops and is_trained(forward, site):
                span = module.span(site.node)
                name = f"a part of {wrap.name}" if is_part else wrap.name
                fields: dict[str, Setting] = {"model": written(model, span), "wrapper": written(name, span)}
                fields["by"] = written(wrap.by, span)
                head = module.span(wrap.call.node.func if isinstance(wrap.call.node, ast.Call) else wrap.call.node)
                yield Member(span, fields, ((head, "wrapped here, under a name that is not called"),))
                return


def _models_in(wrap: _Wrap) -> Iterator[tuple[str, bool]]:
    """The names of what is wrapped: the model under a name of its own, and the models that it is made of."""
    name = dotted(_itself(wrap.inner.node))
    if name and name != wrap.name:
        yield name, False
    for way in ways(wrap.inner.at(_itself(wrap.inner.node))):
        made = way.end.at(_itself(way.end.node)) if isinstance(way.end, Place) else None
        if made is None or not isinstance(made.node, ast.Call) or made.scope is not wrap.call.scope:
            continue
        for part in _named_in(made.node):
            if _is_model(made.at(part)):
                yield dotted(part), True


def _itself(node: ast.AST) -> ast.AST:
    """`net` of `net.cuda()` and `net.to(device)`."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SAME_OBJECT:
        node = node.func.value
    return node


def _named_in(call: ast.Call) -> Iterator[ast.expr]:
    """The names that a call is given, also in lists and mappings."""
    for item in given_to(call):
        for node in ast.walk(item):
            if isinstance(node, ast.Name | ast.Attribute) and dotted(node):
                yield node


def _is_model(part: Place) -> bool:
    """Whether a name stands for an object that is built and is no loss."""
    ends = [way.end for way in ways(part._replace(budget=Budget()))]
    made = [end.at(_itself(end.node)) for end in ends if isinstance(end, Place)]
    built = [end.node.func for end in made if isinstance(end.node, ast.Call)]
    words = (dotted(part.node), *map(dotted, built))
    return len(built) == len(ends) and not any(map(_LOSS.search, words))


def _sites(wrap: _Wrap, model: str) -> Iterator[tuple[Place, Site]]:
    """The calls behind the wrap that pass something through a model: in its function, of an attribute in its class."""
    place, owner = wrap.call, enclosing_class(wrap.call.scope)
    own = _is_attribute(wrap.name) and _is_attribute(model)
    scopes = [each for each in place.module.scopes if own and owner is not None and enclosing_class(each) is owner]
    for scope in scopes or [place.scope]:
        for site in scope.sites:
            behind = scope is not place.scope or getattr(site.node, "lineno", 0) > getattr(place.node, "lineno", 0)
            if isinstance(site.node, ast.Call) and behind:
                forward = place_of(place.program, place.module, site)
                passes = runs_forward(forward, site.node, model) or _runs_part(forward, site.node, model)
                if passes and not _is_wrapped(forward, site.node, model):
                    yield forward, site


def _runs_part(place: Place, node: ast.Call, model: str) -> bool:
    """`model.encode(x)` and `model.head(x)` with gradients."""
    called = dotted(node.func)
    return called.startswith(f"{model}.") and last_word(node.func) not in _READS and not without_gradients(place)


def _is_wrapped(place: Place, node: ast.Call, model: str) -> bool:
    """Whether a model has a wrapper of its own where it is called, or handed to what calls it."""
    named = (item for item in (node.func, *given_to(node)) if dotted(item) == model)
    return any(kinds(place.at(item)._replace(budget=Budget())) & WRAPPERS for item in named)


def _is_attribute(name: str) -> bool:
    return name.startswith("self.") and name.count(".") == 1


def _is_used(wrap: _Wrap) -> bool:
    """Whether a wrapper is called, or handed to anything that may call it."""
    if "." not in wrap.name:
        return _is_used_in(wrap.call.module, wrap.name, wrap)
    if not _is_attribute(wrap.name):
        return True
    word = wrap.name.removeprefix("self")
    others = (each for each in wrap.call.program.modules.values() if each is not wrap.call.module)
    return any(word in each.source.text for each in others) or _is_used_in(wrap.call.module, wrap.name, wrap)


def _is_used_in(module: Module, name: str, wrap: _Wrap) -> bool:
    """The same in one file: its parameters and state may be read, also those of the model inside."""
    nodes = list(ast.walk(module.top.node))
    harmless = {id(part) for node in nodes for part in _harmless(node, name, wrap)}
    named = (node for node in nodes if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load))
    return any(_is(node, name) and id(node) not in harmless for node in named)


def _harmless(node: ast.AST, name: str, wrap: _Wrap) -> Iterator[ast.AST]:
    """The parts of an expression in which a wrapper may stand that makes no pass through it."""
    if isinstance(node, ast.Attribute) and _is(node.value, name) and _only_reads(node, name, wrap):
        yield node.value
    elif isinstance(node, ast.Call) and (node is wrap.call.node or last_word(node.func) in _HARMLESS):
        yield from (part for item in given_to(node) for part in ast.walk(item))


def _only_reads(node: ast.Attribute, name: str, wrap: _Wrap) -> bool:
    if node.attr == "module" and name == wrap.name:
        return not _is_used_in(wrap.call.module, f"{name}.module", wrap)
    return node.attr in _READS


def _is(node: ast.AST, name: str) -> bool:
    """Whether an expression is a name, or an attribute of that name of any object (`self.model`, `trainer.model`)."""
    head, _, last = name.rpartition(".")
    if not head:
        return isinstance(node, ast.Name) and node.id == name
    return isinstance(node, ast.Attribute) and node.attr == last and (head == "self" or _is(node.value, head))
