"""Finds calls that hand out the features of all ranks without gradients: functions in which they go through a plain
gather of torch, and the methods of Lightning and Accelerate that return what they gather.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtlint.frameworks.code.collective_names import is_lightning_module
from dtlint.frameworks.code.objects import kinds
from dtlint.frameworks.code.own_gradients import base_name
from dtlint.frameworks.code.passes import mentions_result, results_of, without_gradients
from dtlint.frameworks.pytorch.step_area import called_function
from dtlint.languages.python.bindings import dotted, last_word
from dtlint.languages.python.called import argument_node
from dtlint.languages.python.calls import called
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Definition
from dtlint.languages.python.reach import stands
from dtlint.record import NamedTuple

GATHERS = (
    "torch.distributed.all_gather",
    "torch.distributed.distributed_c10d.all_gather",
    "torch.distributed.all_gather_into_tensor",
)
_JOINS = frozenset({"cat", "concat"})
_CUTS = frozenset({"detach", "item", "tolist", "numpy"})
_LEVELS = 3
"""Functions within functions through which a gather is looked for."""


_SHAPES = frozenset({"flatten", "view", "reshape", "contiguous", "squeeze", "float"})
"""Methods that return the features that they are called on."""
_SYNCS = "sync_grads"
TORCH, LIGHTNING, ACCELERATE = "torch", "lightning", "accelerate"


class Plain(NamedTuple):
    """What a call gathers, the gather itself, whether the own part is put back with its gradients, and whose gather it
    is: torch's, which fills a list, or one that returns what it gathers.
    """

    tensors: tuple[ast.expr, ...]
    gather: Place
    back: bool
    by: str = TORCH


def plain_gather(place: Place, levels: int = _LEVELS) -> Plain | None:
    """What a call gathers without gradients and returns, itself or in a function of the program, None for any other."""
    node = place.node
    direct = returning_gather(place)
    if direct is not None:
        return direct
    helper = called_function(place) if levels and place.budget.spend() else None
    if helper is None or not isinstance(node, ast.Call) or not isinstance(helper.scope.node, ast.FunctionDef):
        return None
    for site in helper.scope.sites:
        inside = place_of(place.program, helper.module, site)._replace(budget=place.budget)
        if not isinstance(site.node, ast.Call):
            continue
        found = _own(inside, helper) or plain_gather(inside, levels - 1)
        if found is None or without_gradients(inside) or stands(inside) is False:
            continue
        if _is_returned(helper, site.node, found):
            tensors = [item for each in found.tensors for item in _given(helper, base_name(each), node)]
            if tensors:
                return found._replace(tensors=tuple(tensors))
    return None


def _own(place: Place, helper: Definition) -> Plain | None:
    """`dist.all_gather(parts, x)`; a tensor that is detached is meant to have no gradient."""
    node = place.node
    if not isinstance(node, ast.Call) or called(place) not in GATHERS or len(node.args) < 2:
        return None
    if not _is_plain(node.args[1]):
        return None
    return Plain((node.args[1],), place, puts_back(helper.scope.node, dotted(node.args[0])))


def returning_gather(place: Place) -> Plain | None:
    """`self.all_gather(x)` of a LightningModule and `fabric.all_gather(x)`, which send no gradients back unless they
    are told to (lightning/pytorch/core/module.py, all_gather, sync_grads=False), and `accelerator.gather(x)`, which
    never does (accelerate/utils/operations.py, _gpu_gather); also in the shape of one batch.
    """
    node = place.node
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    if node.func.attr in _SHAPES:
        return returning_gather(place.at(node.func.value))
    if last_word(node.func) in _JOINS and node.args:
        return returning_gather(place.at(node.args[0]))
    by = _whose(place, node.func)
    told = [word for word in node.keywords if word.arg in (_SYNCS, None)]
    asked = len(node.args) > 2 or any(not _is_off(word) for word in told)
    if not by or not node.args or asked or not _is_plain(node.args[0]):
        return None
    return Plain((node.args[0],), place, False, by)


def _whose(place: Place, function: ast.Attribute) -> str:
    if function.attr == "all_gather" and is_lightning_module(place, function.value):
        return LIGHTNING
    wanted = {"all_gather": "fabric", "gather": "accelerator"}.get(function.attr)
    if wanted is None or kinds(place.at(function.value)) != {wanted}:
        return ""
    return LIGHTNING if wanted == "fabric" else ACCELERATE


def _is_off(word: ast.keyword) -> bool:
    return word.arg == _SYNCS and isinstance(word.value, ast.Constant) and word.value.value is False


def _is_plain(tensor: ast.expr) -> bool:
    """Whether a tensor is handed over with its gradients."""
    methods = (part.func for part in ast.walk(tensor) if isinstance(part, ast.Call))
    return bool(base_name(tensor)) and not any(last_word(method) in _CUTS for method in methods)


def puts_back(function: ast.AST, parts: str) -> bool:
    """Whether a function puts the rank's own features back into what it gathers, with their gradients."""
    assigned = (node for node in ast.walk(function) if isinstance(node, ast.Assign))
    targets = (target for node in assigned for target in node.targets if isinstance(target, ast.Subscript))
    return any(dotted(target.value) == parts for target in targets)


def _is_returned(helper: Definition, call: ast.Call, found: Plain) -> bool:
    """Whether a function returns what one of its calls gathers."""
    filled = [dotted(call.args[0])] if call is found.gather.node and found.by == TORCH else []
    names = results_of(helper.scope.node, call, filled)
    returned = (site.node.value for site in helper.scope.sites if isinstance(site.node, ast.Return))
    return any(mentions_result(value, names - {""}, call) for value in returned if value is not None)


def _given(helper: Definition, name: str, call: ast.Call) -> Iterator[ast.expr]:
    """What a call passes for a parameter of its function, or for one that the function turns over in a loop."""
    node = helper.scope.node
    loops = (each for each in ast.walk(node) if isinstance(each, ast.For | ast.comprehension))
    turned = next((dotted(loop.iter) for loop in loops if dotted(loop.target) == name), "")
    several = isinstance(node, ast.FunctionDef) and node.args.vararg is not None and node.args.vararg.arg == turned
    passed = argument_node(helper.scope, turned or name, call)
    if turned and isinstance(passed, ast.List | ast.Tuple):
        yield from passed.elts
    elif passed is not None and not turned:
        yield passed
    elif turned and several:
        yield from call.args
