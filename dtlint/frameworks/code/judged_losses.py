"""Tells whether a condition judges the loss of one rank: by a comparison, or by a function that is handed it."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator

from dtlint.frameworks.pytorch.step_area import called_function
from dtlint.languages.python.bindings import dotted, last_word
from dtlint.languages.python.called import argument_node
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Definition

_NOT_FINITE = re.compile(r"isnan|isinf|isfinite")
_AGREED = re.compile(r"reduce|gather|broadcast|sync|barrier|recv|any_rank|all_rank|global", re.IGNORECASE)
"""Words of functions by which the ranks may agree."""
_JUDGES = (ast.Gt, ast.GtE, ast.Lt, ast.LtE, ast.Eq, ast.NotEq)
_TAKES_LOSS = ("accelerator", "fabric", "engine", "model")
_PLAIN = frozenset({
    "abs", "clone", "cpu", "detach", "double", "float", "int", "item", "mean", "numpy", "round", "sqrt", "sum",
    "tensor", "to", "tolist",
})  # fmt: skip
"""Functions and methods that make a number of a tensor."""
_LEVELS = 3
"""Functions within functions that a loss is followed into."""


def judges_loss(place: Place, test: ast.expr, loop: ast.AST) -> bool:
    """Whether a condition in a loop compares the loss that goes backward there, or a value of it, or a function of the
    program does that it is handed to, and no rank tells the others.
    """
    losses = _with_values(loop, {name for node in ast.walk(loop) for name in _backward_of(node)})
    if _compares(test, losses):
        return True
    handed = (node for node in ast.walk(test) if isinstance(node, ast.Call) and _mentions(node, losses))
    return any(_judges(place.at(node), losses, _LEVELS) for node in handed)


def _backward_of(node: ast.AST) -> Iterator[str]:
    """The names of what goes backward: `loss.backward()`, `scaler.scale(loss).backward()`, `engine.backward(loss)`."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "backward":
        return
    receiver = node.func.value
    scaled = receiver.args if isinstance(receiver, ast.Call) else []
    owner = dotted(receiver).rpartition(".")[2].lower()
    given = node.args if owner.endswith(_TAKES_LOSS) else [*scaled, receiver]
    yield from (dotted(item) for item in given if isinstance(item, ast.Name))


def _with_values(around: ast.AST, names: Collection[str]) -> set[str]:
    """The names, and those of numbers that are made of them (`value = loss.item()`), without those that a function
    makes anew, which may have asked the other ranks.
    """
    found, remade = set(names), set[str]()
    for _ in range(2):
        for node in ast.walk(around):
            if isinstance(node, ast.Assign) and _mentions(node.value, found):
                bound = {target.id for target in node.targets if isinstance(target, ast.Name)}
                found, remade = (found | bound, remade) if _is_plain(node.value) else (found, remade | bound)
    return found - remade


def _is_plain(expression: ast.AST) -> bool:
    """Whether an expression calls nothing but what makes a number of a tensor."""
    calls = (node for node in ast.walk(expression) if isinstance(node, ast.Call))
    return all(last_word(node.func) in _PLAIN for node in calls)


def _mentions(node: ast.AST, names: Collection[str]) -> bool:
    return any(isinstance(part, ast.Name) and part.id in names for part in ast.walk(node))


def _compares(around: ast.AST, names: Collection[str]) -> bool:
    """Whether something in an expression compares one of these, or asks whether it is finite."""
    for node in ast.walk(around):
        judges = isinstance(node, ast.Compare) and isinstance(node.ops[0], _JUDGES)
        if isinstance(node, ast.Compare) and judges and _any_plain((node.left, *node.comparators), names):
            return True
        if isinstance(node, ast.Call) and _NOT_FINITE.search(last_word(node.func)) and _mentions(node, names):
            return True
    return False


def _any_plain(sides: Iterable[ast.expr], names: Collection[str]) -> bool:
    return any(_mentions(side, names) and _is_plain(side) for side in sides)


def _judges(call: Place, losses: Collection[str], levels: int) -> bool:
    """Whether the function that a call runs judges one of the losses that it is handed, for this rank alone."""
    helper = called_function(call) if levels and call.budget.spend() else None
    if helper is None or not isinstance(call.node, ast.Call) or _agrees(helper):
        return False
    function = helper.scope.node
    assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
    parameters = [item.arg for item in (*function.args.args, *function.args.kwonlyargs)]
    passed = ((name, argument_node(helper.scope, name, call.node)) for name in parameters)
    inner = {name for name, node in passed if node is not None and _mentions(node, losses)}
    values = _with_values(function, inner) if inner else set()
    if not values or _compares(function, values):
        return bool(values)
    sites = [site for site in helper.scope.sites if isinstance(site.node, ast.Call)]
    handed = (site for site in sites if _mentions(site.node, values))
    return any(_judges(place_of(call.program, helper.module, site), values, levels - 1) for site in handed)


def _agrees(helper: Definition) -> bool:
    calls = (node for node in ast.walk(helper.scope.node) if isinstance(node, ast.Call))
    return any(_AGREED.search(last_word(node.func)) for node in calls)
