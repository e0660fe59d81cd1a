"""The dimensions of a device mesh that an expression stands for, where the code tells them by name (`mesh["tp"]`)."""

from __future__ import annotations

import ast

from dtlint.frameworks.pytorch.names import DEVICE_MESH
from dtlint.languages.python.called import annotated_word
from dtlint.languages.python.calls import call_at, called, passed
from dtlint.languages.python.choices import options
from dtlint.languages.python.constants import evaluate
from dtlint.languages.python.entered import called_function
from dtlint.languages.python.following import ways
from dtlint.languages.python.names import lookup
from dtlint.languages.python.places import Budget, Place
from dtlint.value import Setting, Unknown, Value

_MESH = "DeviceMesh"
_USUAL = ("device_mesh", "mesh", "world_mesh")
"""Names of parameters that are meshes where no annotation says it."""
_MOST_DEPTH = 12


def mesh_names(place: Place, depth: int = 0) -> list[Setting] | None:
    """The names of the dimensions of the mesh at a place, one value (a word, or a tuple) for each way that leads to
    one; None where one of the ways ends in a mesh whose names are not told. No mesh at all (None) has no names.
    """
    if depth > _MOST_DEPTH:
        return None
    ends = [way.end for way in ways(place._replace(budget=Budget(closed=_MESH)))]
    found: list[Setting] = []
    for end in ends:
        names = None if isinstance(end, Unknown) else _names_of(end, depth)
        if names is None:
            return None
        found.extend(names)
    return found or None


def _names_of(end: Place, depth: int) -> list[Setting] | None:
    node = end.node
    if isinstance(node, ast.Constant) and node.value is None:
        return []
    if isinstance(node, ast.Subscript) and is_mesh(end.inner(node.value), depth + 1):
        return _known(end.inner(node.slice))
    if not isinstance(node, ast.Call):
        return None
    if called(end) in DEVICE_MESH:
        names = passed(call_at(end, called(end)), "mesh_dim_names", 2)
        return _known(names[0].place) if len(names) == 1 else None
    return _told_to_function(end, node, depth)


def _told_to_function(end: Place, node: ast.Call, depth: int) -> list[Setting] | None:
    """The names that a call gives to a function of the program that returns the mesh of these names
    (`dims.get_mesh("tp")`); those of what it returns, if it is given none.
    """
    if not is_mesh(end, depth + 1):
        return None
    if len(node.args) == 1 and not node.keywords and (names := _known(end.inner(node.args[0]))):
        return names
    opened = [way.end for way in ways(end._replace(budget=Budget()))]
    inner = [
        _names_of(item, depth + 1) if isinstance(item, Place) and item.node is not node else None for item in opened
    ]
    known = [names for names in inner if names is not None]
    return [name for names in known for name in names] if len(known) == len(inner) else None


def _known(place: Place) -> list[Setting] | None:
    """A word or a tuple of words, also a choice between such."""
    value = evaluate(place._replace(budget=Budget(), chain=()))
    return [value] if all(_is_names(option.value) for option in options(value)) else None


def _is_names(value: Value | Unknown) -> bool:
    if not isinstance(value, Value):
        return False
    words = value.value if isinstance(value.value, tuple) else (value.value,)
    return bool(words) and all(isinstance(word, str) for word in words)


def is_mesh(place: Place, depth: int = 0) -> bool:
    """Whether an expression is a mesh: by an annotation, or because the program builds it."""
    if depth > _MOST_DEPTH:
        return False
    if _annotation(place) == _MESH:
        return True
    ends = [way.end for way in ways(place._replace(budget=Budget(closed=_MESH)))]
    built = [end for end in ends if isinstance(end, Place) and not isinstance(end.node, ast.Constant)]
    return bool(built) and len(built) == len(ends) and all(_is_built(end, depth) for end in built)


def _is_built(end: Place, depth: int) -> bool:
    if isinstance(end.node, ast.Subscript):
        return is_mesh(end.inner(end.node.value), depth + 1)
    return called(end) in DEVICE_MESH or _annotation(end) == _MESH


def _annotation(place: Place) -> str:
    """The last word of what a parameter, or the function that is called, is annotated with; `X | None` is X."""
    node = place.node
    if isinstance(node, ast.Call):
        function = called_function(place, node)
        definition = function.scope.node if function is not None else None
        returns = definition.returns if isinstance(definition, ast.FunctionDef) else None
        return annotated_word(returns)
    bindings = lookup(place.scope, node.id)[1] if isinstance(node, ast.Name) else []
    argument = bindings[0].place if len(bindings) == 1 else None
    if not isinstance(argument, ast.arg):
        return ""
    if argument.annotation is None and argument.arg in _USUAL:
        return _MESH
    return annotated_word(argument.annotation)
