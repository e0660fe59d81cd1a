"""Functions in which the other ranks wait in a loop for what the first one sends them: a worker of a server."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtlint.frameworks.code.reached import Search
from dtlint.frameworks.code.serving import endless
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.reach import enclosing_function
from dtlint.languages.python.tree import Scope

SENT = frozenset(("broadcast", "broadcast_object_list", "scatter", "scatter_object_list"))
"""The collectives by which one rank sends and the others receive."""


def is_received(search: Search, sender: Place, operation: str) -> bool:
    """Whether another method of the class, or another function of the module, receives in a loop without an end what
    the first rank sends, and the others alone enter it.
    """
    return operation in SENT and any(
        _receives(search, sender, scope, operation) and _is_for_others(search, sender, scope)
        for scope in _beside(sender)
    )


def _beside(sender: Place) -> Iterator[Scope]:
    """The other functions of the class that a call stands in, or of its module where that is none."""
    own = enclosing_function(sender.scope)
    holder = own.parent if own is not None else None
    for scope in sender.module.scopes:
        if enclosing_function(scope) is scope and scope is not own and (holder is None or scope.parent is holder):
            yield scope


def _receives(search: Search, sender: Place, scope: Scope, operation: str) -> bool:
    waiting = (site for site in scope.sites if isinstance(site.node, ast.Call) and any(map(endless, site.loops)))
    return any(operation in search.operations(place_of(search.program, sender.module, site)) for site in waiting)


def _is_for_others(search: Search, sender: Place, function: Scope) -> bool:
    """Whether all calls of a function in the module are behind conditions that keep the first rank away."""
    calls = [place for place in _calls(search, sender) if _called_name(place.node) == _name(function)]
    return bool(calls) and all(any(search.side(call, guard) == "others" for guard in call.guards) for call in calls)


def _calls(search: Search, sender: Place) -> Iterator[Place]:
    for scope in sender.module.scopes:
        yield from (
            place_of(search.program, sender.module, site) for site in scope.sites if isinstance(site.node, ast.Call)
        )


def _name(scope: Scope) -> str:
    return scope.name.rpartition(".")[2]


def _called_name(node: ast.AST) -> str:
    return dotted(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""
