"""The type of a torch device (`device.type`): what its constructor names, or the machine's accelerator."""

from __future__ import annotations

import ast

from dtlint.languages.python.following import ways
from dtlint.languages.python.names import qualified
from dtlint.languages.python.objects import Evaluate
from dtlint.languages.python.places import Place
from dtlint.value import Setting, Value, assumed

_ACCELERATOR = frozenset({"torch.accelerator.current_accelerator", "torch._utils._get_available_device_type"})
_MOST_DEPTH = 24
_GPU = "cuda"
"""What torch calls a GPU, of NVIDIA and of AMD."""


def accelerator(place: Place, name: str) -> Setting | None:
    """The accelerator that torch finds on the machine; None for a call of anything else."""
    if name not in _ACCELERATOR:
        return None
    why = "torch takes the machine's accelerator, and calls a GPU cuda"
    return assumed(_GPU, why, span=place.module.span(place.node), chain=place.chain)


def device_type(place: Place, node: ast.Attribute, evaluate: Evaluate) -> Setting | None:
    """`device.type` of a device that the program makes; None where it is not known to be one."""
    return _named(place.inner(node.value), evaluate) if node.attr == "type" else None


def _named(place: Place, evaluate: Evaluate) -> Setting | None:
    """The type of the device that an expression stands for, if all ways to it agree."""
    if place.depth > _MOST_DEPTH or not place.budget.spend():
        return None
    found = [_made(way.end, evaluate) if isinstance(way.end, Place) else None for way in ways(place)]
    first = found[0]
    alike = isinstance(first, Value) and all(isinstance(item, Value) and item.value == first.value for item in found)
    return first if alike else None


def _made(place: Place, evaluate: Evaluate) -> Setting | None:
    node = place.node
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
        return _named(place.inner(node.values[0]), evaluate)
    names = qualified(place.module, node.func, place.scope) if isinstance(node, ast.Call) else ()
    if not isinstance(node, ast.Call) or len(names) != 1:
        return None
    if names[0] != "torch.device":
        return accelerator(place, names[0])
    told = [*node.args[:1], *(keyword.value for keyword in node.keywords if keyword.arg == "type")]
    return _without_index(place.inner(told[0]), evaluate) if told else None


def _without_index(place: Place, evaluate: Evaluate) -> Setting | None:
    """`cuda` of `"cuda:0"` and of `f"cuda:{rank}"`."""
    node = place.node
    first = node.values[0] if isinstance(node, ast.JoinedStr) and node.values else node
    value = evaluate(place.at(first))
    if not isinstance(value, Value) or not isinstance(value.value, str):
        return None
    kind, colon, _ = value.value.partition(":")
    return value._replace(value=kind) if colon or first is node else None
