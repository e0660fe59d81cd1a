"""Tells whether DDP broadcasts the buffers of a model before each forward pass (batch norms have some)."""

from __future__ import annotations

import ast
import re

from dtlint.frameworks.code.objects import makers
from dtlint.frameworks.pytorch.names import DDP
from dtlint.languages.python.calls import argument, call_at, called, passed
from dtlint.languages.python.names import qualified
from dtlint.languages.python.places import Place
from dtlint.languages.python.program import Definition, definition
from dtlint.value import Value

_NORMED = re.compile(
    r"torchvision\.models\.(?:\w+\.)?(?:wide_resnet|resnet|resnext|densenet|mobilenet_v|mnasnet|efficientnet_|regnet_"
    r"|shufflenet_|googlenet|inception_v)\w*|torchvision\.models\.(?:vgg\.)?vgg1[1369]_bn"
)
"""Models of torchvision that have batch norms."""
_BUFFERS = re.compile(r"\bBatchNorm[123]d\(|\bSyncBatchNorm\(|\bregister_buffer\(")
_MAX_LEVELS = 2


def sends_buffers(model: Place) -> bool:
    """Whether a model of DDP certainly has buffers that DDP broadcasts (broadcast_buffers is on by default)."""
    made = [maker.call for maker in makers(model)]
    return bool(made) and all(call is not None and called(call) in DDP and _sends(call) for call in made)


def _sends(wrap: Place) -> bool:
    call = call_at(wrap, called(wrap))
    asked = argument(call, "broadcast_buffers", 4)
    if asked is not None and not (isinstance(asked, Value) and asked.value is True):
        return False
    inner = [maker.call for item in passed(call, "module", 0) for maker in makers(item.place)]
    return bool(inner) and all(built is not None and _has_buffers(built) for built in inner)


def _has_buffers(built: Place) -> bool:
    """Whether a call builds a model with buffers: one of torchvision, or a class in sight that makes some."""
    if _NORMED.fullmatch(called(built)):
        return True
    found = definition(built.program, built.module, called(built)) if called(built) else None
    return found is not None and _makes_buffers(built, found, _MAX_LEVELS)


def _makes_buffers(place: Place, owner: Definition, levels: int) -> bool:
    """Whether a class, or one of the classes that it builds, registers buffers."""
    if not isinstance(owner.scope.node, ast.ClassDef):
        return False
    if _BUFFERS.search(owner.module.source.text[slice(*owner.module.span(owner.scope.node)[1:])]):
        return True
    built = (node for node in ast.walk(owner.scope.node) if isinstance(node, ast.Call)) if levels else ()
    names = {name for node in built for name in qualified(owner.module, node.func, owner.scope)}
    parts = (definition(place.program, owner.module, name) for name in sorted(names))
    return any(_makes_buffers(place, part, levels - 1) for part in parts if part is not None)
