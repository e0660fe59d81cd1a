"""Tells forward passes that training goes through: what a call runs, with gradients or without them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from dtlint.frameworks.code.microsteps import is_inside
from dtlint.frameworks.code.with_blocks import with_blocks
from dtlint.frameworks.pytorch.step_area import called_function
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.called import argument_node, given_to
from dtlint.languages.python.places import Place
from dtlint.languages.python.reach import enclosing_function
from dtlint.languages.python.tree import Site

FROZEN = re.compile(r"\bno_grad\b|\binference_mode\b|set_grad_enabled\(False\)")
"""What turns gradients off, around a block or a function."""
_CUTS = frozenset({"detach", "item", "tolist", "numpy"})
"""Methods of a tensor whose result no gradient flows through."""
CALLS_NOTHING = frozenset(
    ("accumulate", "no_sync", "update", "clip_grad_norm_", "save", "save_model", "print", "watch")
)
"""Methods and functions that are handed a model and make no forward pass of it."""


def without_gradients(place: Place) -> bool:
    """Whether a call stands in a block or a function without gradients (`with torch.no_grad()`, `@torch.no_grad()`)."""
    texts = [
        place.module.text(item.context_expr)
        for block in with_blocks(place)
        if is_inside(place.node, block)
        for item in block.items
    ]
    function = enclosing_function(place.scope)
    decorators = (
        function.node.decorator_list if function is not None and isinstance(function.node, ast.FunctionDef) else []
    )
    return any(FROZEN.search(text) for text in [*texts, *map(place.module.text, decorators)])


def runs_forward(place: Place, node: ast.Call, model: str) -> bool:
    """`model(x)` with gradients, and `loss_of(model, x)` of a function of the program that calls what it is given."""
    if without_gradients(place.at(node)):
        return False
    if dotted(node.func) == model:
        return True
    helper = called_function(place.at(node)) if any(dotted(item) == model for item in given_to(node)) else None
    for site in helper.scope.sites if helper is not None else ():
        assert helper is not None
        inside = place._replace(module=helper.module, scope=helper.scope, node=site.node)
        name = dotted(site.node.func) if isinstance(site.node, ast.Call) else ""
        given = argument_node(helper.scope, name, node) if name else None
        if given is not None and dotted(given) == model and not without_gradients(inside):
            return True
    return False


def around(place: Place, site: Site) -> ast.AST:
    """The innermost loop around a call in which something goes backward, else the loop in which it stands, else its
    function (`for layer in layers: x = layer(x)` stands in the loop over the batches).
    """
    inner = site.loops[-1] if site.loops else place.scope.node
    return next((loop for loop in reversed(site.loops) if any(map(_goes_backward, ast.walk(loop)))), inner)


def _goes_backward(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "backward"


def is_trained(place: Place, site: Site) -> bool:
    """Whether the result of a call goes backward in the same loop or function."""
    whole = around(place, site)
    if isinstance(whole, ast.Module):
        return False
    backward = [node for node in ast.walk(whole) if _goes_backward(node)]
    bound = results_of(whole, place.node) if backward else set()
    used = any(mentions_result(node, bound, place.node) and node is not place.node for node in backward)
    return used and not without_gradients(place)


def results_of(around: ast.AST, call: ast.AST, names: Iterable[str] = ()) -> set[str]:
    """The names that what a call returns goes into with its gradients, and those computed from them or `names`."""
    bound = set(names)
    for _ in range(3):
        for node in ast.walk(around):
            for target, value in _moved(node):
                if mentions_result(value, bound, call):
                    bound |= set(_names(target))
    return bound


def _moved(node: ast.AST) -> list[tuple[ast.expr, ast.expr]]:
    """What a statement writes and where: an assignment, `losses.append(loss)`."""
    if isinstance(node, ast.Assign):
        return [(target, node.value) for target in node.targets]
    if isinstance(node, ast.AugAssign):
        return [(node.target, node.value)]
    appends = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append"
    if appends and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and len(node.args) == 1:
        return [(node.func.value, node.args[0])]
    return []


def _names(target: ast.expr) -> Iterator[str]:
    """The names that an assignment binds, whole (`self.loss`)."""
    if isinstance(target, ast.Tuple | ast.List):
        for item in target.elts:
            yield from _names(item)
    elif isinstance(target, ast.Subscript | ast.Starred):
        yield from _names(target.value)
    elif dotted(target):
        yield dotted(target)


def mentions_result(node: ast.AST, names: set[str], call: ast.AST) -> bool:
    """Whether an expression has in it what a call returns, or one of these names, not detached."""
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if part is call or (isinstance(part, ast.Name | ast.Attribute) and dotted(part) in names):
            return True
        if not (isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr in _CUTS):
            waiting.extend(ast.iter_child_nodes(part))
    return False
