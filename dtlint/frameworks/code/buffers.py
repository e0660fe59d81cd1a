"""Tells whether DDP broadcasts the buffers of a model before each forward pass (batch norms have some)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from dtlint.frameworks.code.objects import OTHER, Maker, makers
from dtlint.frameworks.pytorch.names import DDP
from dtlint.languages.python.bindings import last_word
from dtlint.languages.python.calls import argument, call_at, called, passed
from dtlint.languages.python.instances import with_bases
from dtlint.languages.python.names import qualified
from dtlint.languages.python.places import Budget, Place
from dtlint.languages.python.program import definition
from dtlint.languages.python.tree import Module, Scope, Site
from dtlint.value import Value

_NORMED = re.compile(
    r"torchvision\.models\.(?:\w+\.)?(?:wide_resnet|resnet|resnext|densenet|mobilenet_v|mnasnet|efficientnet_|regnet_"
    r"|shufflenet_|googlenet|inception_v)\w*|torchvision\.models\.(?:vgg\.)?vgg1[1369]_bn"
)
"""Models of torchvision that have batch norms."""
_MAKES = re.compile(r"(?:Lazy)?BatchNorm[123]d|SyncBatchNorm|register_buffer")
"""Calls that make buffers."""
_OPTION = "broadcast_buffers"
_MOST = 60
"""Most classes and functions that one model is followed through."""


def sends_buffers(model: Place) -> bool:
    """Whether a model of DDP certainly has buffers that DDP broadcasts (broadcast_buffers is on by default)."""
    made = [maker.call for maker in makers(model) if maker.kind == "ddp"]
    return bool(made) and all(call is not None and called(call) in DDP and _sends(call) for call in made)


def sends_prepared_buffers(model: Place) -> bool:
    """Whether a model that an Accelerator has prepared certainly has buffers, which DDP broadcasts where Accelerate
    wraps it in that; not in a program that speaks of the option.
    """
    if any(_OPTION in module.source.text for module in model.program.modules.values()):
        return False
    given = [_given(maker) for maker in makers(model) if maker.kind != OTHER or maker.call is None]
    return bool(given) and all(each is not None and _all_have_buffers(makers(each)) for each in given)


def _given(maker: Maker) -> Place | None:
    """What was given in the place of what a call of prepare() returns."""
    call, index = maker.call, maker.path[0] if maker.path else 0
    node = call.node if call is not None else None
    if call is None or not isinstance(node, ast.Call) or len(maker.path) > 1 or not 0 <= index < len(node.args):
        return None
    starred = any(isinstance(item, ast.Starred) for item in node.args)
    return None if starred else call.at(node.args[index])._replace(budget=Budget())


def _sends(wrap: Place) -> bool:
    call = call_at(wrap, called(wrap))
    asked = argument(call, _OPTION, 4)
    if asked is not None and not (isinstance(asked, Value) and asked.value is True):
        return False
    return _all_have_buffers(maker for item in passed(call, "module", 0) for maker in makers(item.place))


def _all_have_buffers(made: Iterable[Maker]) -> bool:
    built = [maker.call for maker in made]
    return bool(built) and all(call is not None and _has_buffers(call) for call in built)


def _has_buffers(built: Place) -> bool:
    """Whether a call certainly builds a model with buffers: one of torchvision, or a class or function in sight that
    makes some, by itself or by what it inherits from and calls in turn.
    """
    waiting, seen = [(built.module, called(built))], set[Scope]()
    while waiting and len(seen) < _MOST:
        module, name = waiting.pop()
        if _NORMED.fullmatch(name):
            return True
        found = definition(built.program, module, name) if name else None
        if found is None or isinstance(found.scope.node, ast.Module) or found.scope in seen:
            continue
        seen.add(found.scope)
        outer = Place(built.program, found.module, found.scope, found.scope.node, budget=Budget())
        parts = [(each.module, site) for each in with_bases(outer, found) for site in _certain_calls(each.scope)]
        if any(_MAKES.fullmatch(_last(site)) for _, site in parts):
            return True
        waiting += [(inner, name) for inner, site in parts for name in _names(inner, site)]
    return False


def _certain_calls(scope: Scope) -> Iterator[Site]:
    """The calls in a class or a function, its methods and inner functions, that no condition stands around but one
    that an error is raised for.
    """
    for site in scope.sites:
        if isinstance(site.node, ast.Call) and all(guard.raises for guard in site.guards):
            yield site
    for inner in scope.inner:
        yield from _certain_calls(inner)


def _last(site: Site) -> str:
    return last_word(site.node.func) if isinstance(site.node, ast.Call) else ""


def _names(module: Module, site: Site) -> tuple[str, ...]:
    """What is called, where that is one thing for certain."""
    names = qualified(module, site.node.func, site.scope) if isinstance(site.node, ast.Call) else ()
    return names if len(names) == 1 else ()
