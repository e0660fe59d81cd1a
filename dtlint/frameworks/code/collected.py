"""Tells whether a condition asks if a rank has collected anything, where its own batches decide what is collected."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtlint.frameworks.code.batch_contents import AGREED, asks_sample, comes_with_batch, operands, own_batch
from dtlint.frameworks.code.collective_names import is_metric
from dtlint.frameworks.code.partial_values import Partial
from dtlint.languages.python.bindings import dotted, enclosing_class, last_word, receiver
from dtlint.languages.python.names import attribute_bindings, lookup
from dtlint.languages.python.places import Budget, Place, place_of
from dtlint.languages.python.reach import enclosing_function
from dtlint.languages.python.tree import Binding, Guard, Scope
from dtlint.source import Span

_GROWS = ("append", "extend", "add", "insert", "update")
_FEEDS = ("update", "forward")
"""Methods of a metric of torchmetrics that take samples in, as calling it does (torchmetrics/metric.py)."""
_LENGTHS = frozenset(("len", "bool", "any", "sum"))
_SIZES = frozenset(("numel", "nelement", "size", "item"))


def collected(test: Place) -> Partial | None:
    """What a condition asks of what this rank has collected, which grows only under a condition on its own batches: a
    list, a count, the state of a metric; None for anything else, and for what the ranks may agree on.
    """
    test = test._replace(budget=Budget())
    if AGREED.search(test.module.text(test.node, 200)):
        return None
    for part in operands(test.node):
        held = _held(part)
        grown = _grown_by_batch(test.at(held)) if dotted(held) else None
        if grown is not None:
            return Partial("collected", grown, "what this rank's own batches hold decides what is collected")
    return None


def _held(node: ast.AST) -> ast.AST:
    """What is asked whether there is any of it: `len(held)`, `held.numel()`, `held`."""
    if not isinstance(node, ast.Call):
        return node
    if isinstance(node.func, ast.Attribute) and node.func.attr in _SIZES:
        return node.func.value
    return node.args[0] if last_word(node.func) in _LENGTHS and len(node.args) == 1 else node


def _grown_by_batch(place: Place) -> Span | None:
    """The condition on a batch under which what is held grows; None where anything is added without one, or under the
    opposite of one.
    """
    conditions: list[Guard | None] = []
    for grown, loops in _growths(place):
        counted = _counts_samples(grown)
        conditions.append(Guard(counted, True) if counted is not None else _condition(grown, loops))
    asked = [guard for guard in conditions if guard is not None]
    outcomes = {(id(guard.test), guard.holds) for guard in asked}
    parted = len(outcomes) == len({test for test, _ in outcomes})
    if not asked or len(asked) < len(conditions) or not parted or asked[0].test is None:
        return None
    return place.module.span(asked[0].test)


def _counts_samples(grown: Place) -> ast.expr | None:
    """The number of samples of a kind that a count grows by: `count += mask.sum()`."""
    added = grown.node if isinstance(grown.node, ast.AugAssign) and isinstance(grown.node.op, ast.Add) else None
    return added.value if added is not None and own_batch(grown.at(added.value)) is not None else None


def _condition(grown: Place, loops: tuple[ast.AST, ...]) -> Guard | None:
    """The condition around an addition that asks what the batch, or one of the samples gone through, holds."""
    for guard in grown.guards:
        asked = grown.at(guard.test or grown.node)
        if guard.test is not None and (own_batch(asked) is not None or _picks_sample(asked, guard, loops)):
            return guard
    return None


def _picks_sample(asked: Place, guard: Guard, loops: tuple[ast.AST, ...]) -> bool:
    """Whether a condition in a loop over the samples of a batch asks what one has."""
    around = (loop for loop in loops if isinstance(loop, ast.For) and comes_with_batch(asked.at(loop.iter)))
    holds = any(part is guard.test for loop in around for part in ast.walk(loop))
    return holds and asks_sample(asked)


def _growths(place: Place) -> Iterator[tuple[Place, tuple[ast.AST, ...]]]:
    """The places where something is added to what is held, and the loops around each."""
    node, name = place.node, dotted(place.node)
    metric = isinstance(node, ast.Attribute) and is_metric(place.at(node.value))
    if isinstance(node, ast.Attribute) and metric:
        owner = dotted(node.value)
        words = {owner, *(f"{owner}.{word}" for word in _FEEDS)}
    else:
        words = {f"{name}.{word}" for word in _GROWS}
        yield from _assigned(place, name)
    for scope in _around(place, name):
        for site in scope.sites:
            if isinstance(site.node, ast.Call) and dotted(site.node.func) in words:
                yield place_of(place.program, place.module, site), site.loops


def _assigned(place: Place, name: str) -> Iterator[tuple[Place, tuple[ast.AST, ...]]]:
    """Where a name or an attribute is given more than what it begins with."""
    holder, bindings = lookup(place.scope, name)
    owned = [(holder, item) for item in bindings] if holder is not None else []
    for scope, binding in owned or attribute_bindings(place.module, place.scope, name):
        if not _is_beginning(binding):
            inside = place._replace(scope=scope, node=binding.node or binding.place, guards=binding.guards)
            yield inside, binding.loops


def _is_beginning(binding: Binding) -> bool:
    """`[]`, `0`, `False`, `None`, `list()`: nothing yet."""
    node = binding.node
    if isinstance(node, ast.Tuple) and binding.path and 0 <= binding.path[0] < len(node.elts):
        node = node.elts[binding.path[0]]
    if isinstance(node, ast.Constant):
        return not node.value
    if isinstance(node, ast.List | ast.Dict | ast.Set | ast.Tuple):
        return not any(isinstance(part, ast.Name) for part in ast.walk(node))
    empty = isinstance(node, ast.Call) and not node.keywords and last_word(node.func) in ("list", "dict", "set")
    return binding.kind == "value" and empty and isinstance(node, ast.Call) and not node.args


def _around(place: Place, name: str) -> Iterator[Scope]:
    """The functions that may add to what is held: the methods of the class for an attribute of `self`, else the
    function around.
    """
    function, owner = enclosing_function(place.scope), enclosing_class(place.scope)
    mine = function is not None and name.partition(".")[0] == receiver(function) and "." in name
    yield from owner.inner if owner is not None and mine else (place.scope,)
