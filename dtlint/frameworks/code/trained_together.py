"""Tells whether two features of a loss certainly both have gradients: one model makes them, in one pass or in two."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dtlint.frameworks.code.mentions import mentions
from dtlint.frameworks.code.objects import WRAPPERS, Maker, makers, wrapped_by
from dtlint.frameworks.code.passes import without_gradients
from dtlint.languages.python.bindings import dotted, last_word
from dtlint.languages.python.called import argument_node, given_to
from dtlint.languages.python.callers import callers
from dtlint.languages.python.calls import called
from dtlint.languages.python.instances import instances
from dtlint.languages.python.names import lookup
from dtlint.languages.python.places import Budget, Place, place_of
from dtlint.languages.python.program import Definition, Program, definition, sites
from dtlint.languages.python.tree import Binding, Scope

_FREEZES = re.compile(
    r"requires_grad_?\s{0,3}[=(]\s{0,3}False|[Ff]r(ee|o)ze|momentum_(enc|model|update|key)|\b_?ema\b|[Tt]eacher|queue|[Ss]top_?grad"
)
"""Words of programs in which some features are meant to have no gradient."""
_CUTS = re.compile(r"no_grad|inference_mode|set_grad_enabled|\bdetach\b")
"""Words of models that cut the gradients of what they return."""
_SAME = frozenset({"normalize", "float", "to", "contiguous", "type_as", "squeeze"})
"""Functions and methods that return the features that they are given."""
_LEVELS = 3
"""Functions between the loss and the model."""
_MAX_CALLERS = 6


def are_trained_together(place: Place, first: str, second: str) -> bool:
    """Whether two names of a function are features that one model makes, both with gradients."""
    return not mentions(place.program, _FREEZES) and _are(place._replace(budget=Budget()), first, second, _LEVELS)


def _are(place: Place, first: str, second: str, levels: int) -> bool:
    if not levels or not place.budget.spend():
        return False
    one, two = _made(place, first), _made(place, second)
    if one is not None and two is not None:
        return _by_one_model(one, two)
    function = place.scope
    if one is not None or two is not None or not all(_is_parameter(function, name) for name in (first, second)):
        return False
    outside = list(_calls_of(place.program, Definition(place.module, function)))
    told = [_are_given(function, call, first, second, levels) for call in outside]
    return bool(told) and len(told) <= _MAX_CALLERS and all(told)


def _are_given(function: Scope, call: Place, first: str, second: str, levels: int) -> bool:
    """Whether a call hands a function such features: under names, or all that a model returns (`loss(*model(x))`)."""
    given = given_to(call.node) if isinstance(call.node, ast.Call) else []
    if len(given) == 1 and isinstance(given[0], ast.Starred) and isinstance(given[0].value, ast.Call):
        source = call.at(given[0].value)
        return _by_one_model(source, source)
    one, two = (argument_node(function, name, call.node) for name in (first, second))
    if one is None or two is None or not dotted(one) or not dotted(two) or without_gradients(call):
        return False
    return _are(call, dotted(one), dotted(two), levels - 1)


def _made(place: Place, name: str) -> Place | None:
    """The call of which a name of the same function is a result, None for anything else."""
    bindings = place.scope.bindings.get(name, []) if lookup(place.scope, name)[0] is place.scope else []
    kept = [each for each in bindings if not _is_same(each.node, name)]
    node = _bound(kept[0]) if len(kept) == 1 and kept[0].kind == "value" else None
    return place.at(node)._replace(guards=kept[0].guards) if isinstance(node, ast.Call) else None


def _bound(binding: Binding) -> ast.AST | None:
    """What a name is bound to, `f(y)` in `x, y = f(x), f(y)` too."""
    node, path = binding.node, binding.path
    if isinstance(node, ast.Tuple) and len(path) == 1 and 0 <= path[0] < len(node.elts):
        return node.elts[path[0]]
    return node


def _is_same(node: ast.AST | None, name: str) -> bool:
    """`F.normalize(x)` and `x.float()`, which a name may be bound to anew."""
    if not isinstance(node, ast.Call) or last_word(node.func) not in _SAME:
        return False
    parts = [*given_to(node)[:1], *([node.func.value] if isinstance(node.func, ast.Attribute) else [])]
    return any(dotted(part) == name for part in parts)


def _is_parameter(function: Scope, name: str) -> bool:
    kept = [each for each in function.bindings.get(name, ()) if not _is_same(each.node, name)]
    return len(kept) == 1 and kept[0].kind == "parameter"


def _by_one_model(one: Place, two: Place) -> bool:
    """Whether one call makes both, of a model whose class cuts no gradients, or two calls of the same model do."""
    assert isinstance(one.node, ast.Call) and isinstance(two.node, ast.Call)
    if without_gradients(one) or without_gradients(two) or dotted(one.node.func) != dotted(two.node.func):
        return False
    classes = [_class_of(one, maker) for maker in _models(one.at(one.node.func))]
    known = [each for each in classes if each is not None]
    if any(_cuts(each) for each in known):
        return False
    return bool(classes) and (len(known) == len(classes) or one.node is not two.node)


def _cuts(model: Definition) -> bool:
    """Whether a class has words by which gradients are cut."""
    span = model.module.span(model.scope.node)
    return _CUTS.search(model.module.source.text, span.start, span.end) is not None


def _models(place: Place) -> Iterator[Maker]:
    """What makes the model that is called, without its wrappers."""
    for maker in makers(place._replace(budget=Budget())):
        if maker.kind in WRAPPERS and maker.call is not None:
            yield from wrapped_by(maker.call)
        else:
            yield maker


def _class_of(place: Place, maker: Maker) -> Definition | None:
    name = called(maker.call) if maker.call is not None else ""
    found = definition(place.program, maker.call.module, name) if maker.call is not None and name else None
    return found if found is not None and isinstance(found.scope.node, ast.ClassDef) else None


def _calls_of(program: Program, function: Definition) -> Iterator[Place]:
    """The calls of a function; of `forward` those of the objects of its class."""
    for module, site in callers(program, function):
        yield place_of(program, module, site)
    owner = function.scope.parent
    if owner is None or not isinstance(owner.node, ast.ClassDef) or not function.scope.name.endswith(".forward"):
        return
    for module in program.modules.values():
        for site in sites(module):
            place = place_of(program, module, site)
            if isinstance(site.node, ast.Call) and len(given_to(site.node)) and dotted(site.node.func):
                found = instances(place.at(site.node.func))
                if any(each.definition.scope is owner for each in found):
                    yield place
