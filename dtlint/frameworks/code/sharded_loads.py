"""Loads of models by Transformers, which shares their weights out while it builds them once it knows of ZeRO-3."""

from __future__ import annotations

import ast
import re

from dtlint.frameworks.code.with_blocks import with_blocks
from dtlint.frameworks.pytorch.model_loading import tells_arguments
from dtlint.frameworks.pytorch.step_area import called_function
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.instances import foreign_classes
from dtlint.languages.python.places import Place

LOADS = ("from_pretrained", "from_config")
_MODEL = re.compile(r"Model(?!Card)|For[A-Z]")
"""What the name of a model's class has in it, beside those of tokenizers and configs."""
_OTHERWISE = re.compile(r"quantization_config|load_in_|device_map")
"""Arguments of a load that ZeRO-3 does not share out while it builds the model, for its few bits (transformers 4.57.1
modeling_utils.py, get_init_context), or that it refuses.
"""
_SWITCHED = re.compile(r"zero3?_init|zero\.Init")
"""What contexts are called that switch it off or on around a load."""


def shares_out(place: Place, call: ast.Call) -> bool:
    """Whether a load builds a model of Transformers, or of a class that inherits from one, which ZeRO-3 shares out:
    one behind the arguments or the Accelerator by which Transformers learns of the stage.
    """
    if not isinstance(call.func, ast.Attribute) or called_function(place) is not None:
        return False
    if not any(map(_is_model, foreign_classes(place.at(call.func.value)))):
        return False
    hidden = any(word.arg is None for word in call.keywords) or _OTHERWISE.search(ast.unparse(call))
    return not hidden and not _is_switched(place, call) and not _is_early(place, call)


def _is_model(name: str) -> bool:
    return name.startswith("transformers.") and _MODEL.search(name.rpartition(".")[2]) is not None


def _is_switched(place: Place, call: ast.Call) -> bool:
    around = (node for node in with_blocks(place) if _holds(node, call))
    return any(_SWITCHED.search(ast.unparse(item.context_expr)) for node in around for item in node.items)


def _holds(node: ast.With, call: ast.Call) -> bool:
    return node.lineno <= call.lineno <= (node.end_lineno or 0)


def _is_early(place: Place, call: ast.Call) -> bool:
    """Whether a load stands above what tells Transformers of the stage in the same function."""
    telling = [site.node for site in place.scope.sites if _tells(site.node)]
    return bool(telling) and all(getattr(node, "lineno", 0) > call.lineno for node in telling)


def _tells(node: ast.AST) -> bool:
    if tells_arguments(node):
        return True
    return isinstance(node, ast.Call) and dotted(node.func).rpartition(".")[2] == "Accelerator"
