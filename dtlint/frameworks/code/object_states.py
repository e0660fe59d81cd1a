"""Follows what an object remembers: an attribute to what the methods of its class set it to and when, their parameters
to what the calls of these methods on the same object pass.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from dtlint.frameworks.code.objects import set_in
from dtlint.languages.python.bindings import dotted, enclosing_class, receiver
from dtlint.languages.python.entered import entry
from dtlint.languages.python.instances import instances
from dtlint.languages.python.places import Frame, Place, place_of
from dtlint.languages.python.program import Program, of_file
from dtlint.languages.python.reach import enclosing_function
from dtlint.languages.python.tree import Binding, Module, Scope, Site

_MAX_CLASSES = 3
_LEVELS = 2
_CALLED = "__call__"


def remembered(place: Place) -> Iterator[tuple[Place, Binding]]:
    """What the methods of its class set the attribute of an object to (`tracker.stop`), each with its binding; the
    method is entered by a call on the same object that stands in the function around the object.
    """
    node = place.node
    if not isinstance(node, ast.Attribute):
        return
    holder = holder_of(place)
    owners = {owner.definition.scope: owner.definition for owner in instances(place.at(node.value))}
    for owner in owners.values() if len(owners) <= _MAX_CLASSES else ():
        held = [(found, binding) for found, binding in set_in(place, owner, node) if binding.method is not None]
        if all(binding.method is None or _is_init(binding.method) for _, binding in held):
            continue
        for found, binding in held:
            yield from ((inside, binding) for inside in _inside(place, holder, found.module, binding))


def _inside(place: Place, holder: Place | None, module: Module, binding: Binding) -> Iterator[Place]:
    """What a method binds, once for each call that enters the method."""
    if binding.method is None or binding.node is None:
        return
    inside = place._replace(
        module=module, scope=binding.method, node=binding.node, guards=binding.guards, depth=place.depth + 1
    )
    entered = list(_entered(inside, holder, _LEVELS)) if holder is not None else []
    yield from (inside._replace(frames=frames) for frames in entered or [()])


def _is_init(method: Scope) -> bool:
    """Whether a method sets what an object begins with, which remembers nothing yet."""
    return method.name.rpartition(".")[2] == "__init__"


def holder_of(attribute: Place) -> Place | None:
    """The object of an attribute as the caller of a method names it: of `self`, the one whose method was called to come
    here; None for one without a name.
    """
    place = attribute.at(attribute.node.value) if isinstance(attribute.node, ast.Attribute) else attribute
    name, function = dotted(place.node), enclosing_function(place.scope)
    if function is None or name != receiver(function):
        return place if name else None
    call = entry(place, function)
    node = call.node if call is not None else None
    called = node.func if isinstance(node, ast.Call) else node
    return call.at(called.value) if call is not None and isinstance(called, ast.Attribute) else place


def _entered(inside: Place, holder: Place, levels: int) -> Iterator[tuple[Frame, ...]]:
    """The calls by which a method is entered on an object, also by way of its other methods."""
    last = inside.scope.name.rpartition(".")[2]
    wanted = dotted(holder.node) if last == _CALLED else f"{dotted(holder.node)}.{last}"
    for scope in _around(holder):
        for site in _calls_in(holder.program, scope).get(wanted, ()):
            frames = holder.frames if scope is holder.scope else ()
            call = holder._replace(scope=scope, node=site.node, frames=frames)
            yield (*frames, Frame(inside.scope, call))
    owner = enclosing_class(inside.scope)
    for other in owner.inner if owner is not None and levels else ():
        if other is not inside.scope:
            yield from _through(inside, other, holder, levels)


def _through(inside: Place, other: Scope, holder: Place, levels: int) -> Iterator[tuple[Frame, ...]]:
    """The calls of a method by another one of the same class, which is entered on the object."""
    own = f"{receiver(other)}.{inside.scope.name.rpartition('.')[2]}"
    calling = _calls_in(inside.program, other).get(own, ())
    for frames in _entered(inside._replace(scope=other), holder, levels - 1) if calling else ():
        for site in calling:
            call = place_of(inside.program, inside.module, site)._replace(frames=frames, budget=inside.budget)
            yield (*frames, Frame(inside.scope, call))


def _around(holder: Place) -> tuple[Scope, ...]:
    """The scopes in which calls of an object's methods are looked for: its function, or the methods of the class that
    keeps it.
    """
    function, owner = enclosing_function(holder.scope), enclosing_class(holder.scope)
    root = dotted(holder.node).partition(".")[0]
    kept = function is not None and owner is not None and root == receiver(function)
    return tuple(owner.inner) if kept and owner is not None else (holder.scope,)


def _calls_in(program: Program, scope: Scope) -> Mapping[str, tuple[Site, ...]]:
    """The calls of a function by what they call as it is written (`self.tracker.add`)."""
    return of_file(program, "calls as written", scope, lambda: _by_text(scope))


def _by_text(scope: Scope) -> Mapping[str, tuple[Site, ...]]:
    found: dict[str, tuple[Site, ...]] = {}
    for site in scope.sites:
        name = dotted(site.node.func) if isinstance(site.node, ast.Call) else ""
        if name:
            found[name] = (*found.get(name, ()), site)
    return found
