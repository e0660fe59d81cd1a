"""The items of a list that is written out, also by the call that hands a function its arguments one by one."""

from __future__ import annotations

import ast

from dtlint.languages.python.called import argument_node, rest_nodes
from dtlint.languages.python.names import lookup
from dtlint.languages.python.places import Place
from dtlint.languages.python.reaching import reaching

_LEVELS = 4
"""Names through which a list is followed."""


def items_of(place: Place, levels: int = _LEVELS) -> list[Place]:
    """The items of `[unet, encoder]`, of a name that stands for it, and of `*models` of the function that a call has
    led into; [] where they are not all written.
    """
    node = place.node
    if isinstance(node, ast.Tuple | ast.List):
        starred = any(isinstance(each, ast.Starred) for each in node.elts)
        return [] if starred else [place.at(each) for each in node.elts]
    holder, bindings = lookup(place.scope, node.id) if isinstance(node, ast.Name) and levels else (None, [])
    bound = [binding for binding, _ in reaching(place, holder, bindings)] if holder is not None else []
    if holder is None or len(bound) != 1 or bound[0].path:
        return []
    if bound[0].kind == "value" and bound[0].node is not None:
        return items_of(place._replace(scope=holder, node=bound[0].node), levels - 1)
    given = given_by(place)
    return items_of(given, levels - 1) if given is not None else _rest(place, bound[0].place)


def _rest(place: Place, parameter: ast.AST) -> list[Place]:
    """What the call that has led into a function passes for its `*models`."""
    call = _call_into(place)
    arguments = getattr(place.scope.node, "args", None) if call is not None else None
    if call is None or not isinstance(arguments, ast.arguments) or arguments.vararg is not parameter:
        return []
    return [call.at(node) for node in rest_nodes(place.scope, call.node)]


def given_by(place: Place) -> Place | None:
    """What the call that has led into a function passes for a parameter of it."""
    call = _call_into(place)
    given = argument_node(place.scope, place.node.id, call.node) if call and isinstance(place.node, ast.Name) else None
    return call.at(given) if call is not None and given is not None else None


def is_left_out(place: Place) -> bool:
    """Whether an expression is a parameter with a default which the call that has led into its function leaves out."""
    bound = lookup(place.scope, place.node.id)[1] if isinstance(place.node, ast.Name) else []
    has_default = len(bound) == 1 and bound[0].kind == "parameter" and bound[0].node is not None
    return has_default and _call_into(place) is not None and given_by(place) is None


def _call_into(place: Place) -> Place | None:
    return next((frame.call for frame in reversed(place.frames) if frame.scope is place.scope), None)
