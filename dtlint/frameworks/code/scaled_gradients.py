"""Tells whether a program multiplies or divides gradients by hand, by what may count the ranks or their tokens."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dtlint.frameworks.pytorch.tensor_kinds import is_gradient, kind_of
from dtlint.languages.python.bindings import last_word
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Program
from dtlint.languages.python.tree import Module

_NAMED = re.compile(r"(?<![a-z])(?<!no_)(grads?|gradients?)(?![a-z])", re.IGNORECASE)
"""Words in what is called a gradient."""
_SCALING = re.compile(r"_*(re)?scale_(model_)?(grads?|gradients?)_?", re.IGNORECASE)
"""Functions that scale the gradients of a model, as torchtune's `training.scale_grads_(model, world_size / tokens)`
(torchtune/training/_grad_scaler.py) and Automodel's `scale_grads_and_clip_grad_norm`.
"""
_IN_PLACE = ("mul_", "div_", "copy_")
_SEVERAL = ("_foreach_mul_", "_foreach_div_")
_CLIPS = re.compile(r"clip|coef|(?<![a-z])norm", re.IGNORECASE)
"""Words of factors that bring gradients down to a norm."""


def scales_gradients(program: Program) -> bool:
    """Whether some statement of a program scales gradients by another number than one that is written out, or that
    clips: it may take back what a wrapper divides by, or a factor of the loss.
    """
    return any(any(_scalings(program, module)) for module in program.modules.values() if _speaks_of_any(module))


def _speaks_of_any(module: Module) -> bool:
    return _NAMED.search(module.source.text) is not None


def _scalings(program: Program, module: Module) -> Iterator[bool]:
    for scope in module.scopes:
        for site in scope.sites:
            yield _scales(place_of(program, module, site))
    yield from (_assigns(module, node) for node in ast.walk(module.top.node) if isinstance(node, ast.Assign))


def _scales(place: Place) -> bool:
    """Whether a statement scales gradients in place: `p.grad *= n`, `p.grad.mul_(n)`, `torch._foreach_mul_(grads, n)`,
    `scale_grads_(model, n)`.
    """
    node = place.node
    if isinstance(node, ast.AugAssign):
        scales = isinstance(node.op, ast.Mult | ast.Div)
        return scales and _is_open(place.module, node.value) and _may_be_gradient(place.at(node.target))
    if not isinstance(node, ast.Call):
        return False
    word = last_word(node.func)
    if _SCALING.match(word):
        return True
    if word in _SEVERAL:
        return len(node.args) > 1 and _is_open(place.module, node.args[1]) and _may_be_gradient(place.at(node.args[0]))
    if word not in _IN_PLACE or not isinstance(node.func, ast.Attribute) or not node.args:
        return False
    is_scaling = word != "copy_" or _is_product(place.module, node.args[0])
    return is_scaling and _is_open(place.module, node.args[0]) and _may_be_gradient(place.at(node.func.value))


def _assigns(module: Module, node: ast.Assign) -> bool:
    """Whether an assignment gives a parameter its gradient scaled: `p.grad = p.grad * n`."""
    into = any(isinstance(target, ast.Attribute) and _NAMED.search(module.text(target)) for target in node.targets)
    return into and _is_product(module, node.value) and _is_open(module, node.value)


def _is_product(module: Module, node: ast.expr) -> bool:
    scales = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div)
    return scales and _NAMED.search(module.text(node)) is not None


def _is_open(module: Module, factor: ast.expr) -> bool:
    """Whether a factor is neither a number that is written out nor one that clips."""
    return not isinstance(factor, ast.Constant) and _CLIPS.search(module.text(factor)) is None


def _may_be_gradient(place: Place) -> bool:
    return _NAMED.search(place.module.text(place.node)) is not None or is_gradient(kind_of(place))
