"""Tells what certainly moves a model to the current device of its process, which is the first GPU of the machine where
nothing sets another: `.cuda()`, `.to("cuda")`, a block under `torch.device("cuda")`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtlint.frameworks.code.with_blocks import with_blocks
from dtlint.frameworks.pytorch.step_area import called_function
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.callers import callers
from dtlint.languages.python.calls import called
from dtlint.languages.python.choices import options
from dtlint.languages.python.constants import evaluate, live_ways
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Definition
from dtlint.languages.python.reach import enclosing_function
from dtlint.value import Setting, Value

_SAME_MODEL = frozenset({"cuda", "to", "train", "eval", "half", "bfloat16", "float", "double", "requires_grad_"})
"""Methods of a model that return the model itself."""
_HANDED_ON = frozenset({"compile", "convert_sync_batchnorm"})
"""Functions that return the model that they are given."""
_MOVES = ("cuda", "to")
_MAX_DEPTH = 3


def blocks_around(place: Place) -> Iterator[Place]:
    """The devices under which the blocks around a call make their tensors: `with torch.device("cuda"):`."""
    for block in with_blocks(place):
        if any(node is place.node for part in block.body for node in ast.walk(part)):
            yield from (place.at(item.context_expr) for item in block.items if _is_device(place.at(item.context_expr)))


def _is_device(place: Place) -> bool:
    ends = [way.end for way, _ in live_ways(place)]
    return bool(ends) and all(isinstance(end, Place) and called(end) == "torch.device" for end in ends)


def moves_in(place: Place) -> Iterator[Place]:
    """The moves in a chain of calls, that of `Net().to(dtype).cuda()` for one."""
    return (place.at(call) for call in chain(place.node) if _is_move(place.at(call)))


def chain(node: ast.AST) -> Iterator[ast.AST]:
    """An expression and the models inside it, down to the one that is not made from another."""
    yield node
    while isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr in _SAME_MODEL:
            node = node.func.value
        elif dotted(node.func).rpartition(".")[2] in _HANDED_ON and node.args:
            node = node.args[0]
        else:
            return
        yield node


def _is_move(place: Place) -> bool:
    """Whether a call is `.cuda(...)`, or `.to(...)` with anything but a number format."""
    node = place.node
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    target = _target(node)
    if node.func.attr == "cuda":
        return True
    return node.func.attr == "to" and target is not None and not _is_format(evaluate(place.at(target)))


def _target(node: ast.Call) -> ast.expr | None:
    """Where a move goes, None if it does not say."""
    named = (keyword.value for keyword in node.keywords if keyword.arg == "device")
    return next(iter(node.args), None) or next(named, None)


def _is_format(value: Setting) -> bool:
    return isinstance(value, Value) and str(value.value).startswith("torch.")


def is_first(move: Place) -> bool:
    """Whether a move, or the device of a block, certainly is the current device, which is the first GPU where nothing
    sets another.
    """
    node = move.node
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr not in _MOVES:
        return is_plain_cuda(move)
    target = _target(node)
    return not node.keywords if target is None else is_plain_cuda(move.at(target))


def has_used_gpu(place: Place, levels: int = 2) -> bool:
    """Whether the process has certainly used its current GPU before a call: in the same function, or before each call
    of it.
    """
    for site in place.scope.sites:
        before = getattr(site.node, "lineno", 0) < getattr(place.node, "lineno", 0)
        passes = before and not site.loops and set(site.guards) <= set(place.guards)
        if passes and _uses_gpu(place_of(place.program, place.module, site), levels):
            return True
    function = enclosing_function(place.scope)
    if function is None or not levels:
        return False
    calling = callers(place.program, Definition(place.module, function))
    outside = (place_of(place.program, module, site) for module, site in calling)
    return bool(calling) and all(has_used_gpu(each, levels - 1) for each in outside)


def _uses_gpu(place: Place, levels: int) -> bool:
    """Whether a statement certainly uses the current GPU, also in a function that it calls."""
    if not isinstance(place.node, ast.Call):
        return False
    if (_is_move(place) and is_first(place)) or any(map(is_first, blocks_around(place))):
        return True
    helper = called_function(place) if levels else None
    inside = [site for site in helper.scope.sites if not site.guards and not site.loops] if helper is not None else []
    return helper is not None and any(
        _uses_gpu(place_of(place.program, helper.module, site), levels - 1) for site in inside
    )


def is_plain_cuda(place: Place, depth: int = 0) -> bool:
    """Whether a device is "cuda" without a number, on every way that has a GPU."""
    ends = [way.end for way, _ in live_ways(place)]
    found = [_devices(end, depth) if isinstance(end, Place) else ("?",) for end in ends]
    words = {word for item in found for word in item}
    return "cuda" in words and words <= {"cuda", "cpu"}


def _devices(end: Place, depth: int) -> tuple[str, ...]:
    """What a device expression can be, "?" for what is not known for certain."""
    node = end.node
    if isinstance(node, ast.Call) and called(end) == "torch.device":
        whole = len(node.args) == 1 and not node.keywords and depth < _MAX_DEPTH
        return ("cuda",) if whole and is_plain_cuda(end.at(node.args[0]), depth + 1) else ("?",)
    return tuple(_word(option.value) for option in options(evaluate(end)))


def _word(value: Setting) -> str:
    certain = isinstance(value, Value) and value.origin.kind == "written"
    return str(value.value) if isinstance(value, Value) and certain else "?"
