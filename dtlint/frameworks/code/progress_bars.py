"""Progress bars that count on some ranks only: a bar of tqdm that is disabled stays at its first count."""

from __future__ import annotations

import ast

from dtlint.frameworks.code.objects import makers
from dtlint.frameworks.code.ranks import side_of
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.calls import called
from dtlint.languages.python.names import lookup
from dtlint.languages.python.places import Budget, Place
from dtlint.languages.python.tree import Guard
from dtlint.source import Span

COUNT = "n"
"""The attribute of a bar that `update` and its loop count up, unless it is disabled (tqdm/std.py)."""
_MODULES = ("tqdm", "tqdm.auto", "tqdm.autonotebook", "tqdm.notebook", "tqdm.rich", "tqdm.std")
_BARS = frozenset(f"{module}.{name}" for module in _MODULES for name in ("tqdm", "trange"))
_OF_MAIN = frozenset(("accelerate.utils.tqdm", "accelerate.utils.tqdm.tqdm"))
"""Bars that are disabled on all ranks but the first of each machine unless they are told not to be (accelerate's
utils/tqdm.py).
"""


def lone_count(place: Place) -> Span | None:
    """Where a bar is made of which an expression asks the count (`bar.n`), if only some ranks count; else None."""
    node = place.node
    if not isinstance(node, ast.Attribute) or node.attr != COUNT:
        return None
    made = _made(place.at(node.value))
    lone = bool(made) and all(call is not None and _is_lone(call) for call in made)
    return made[0].module.span(made[0].node) if lone and made[0] is not None else None


def _made(bar: Place) -> list[Place | None]:
    """The calls that make a bar, that of a `with` statement included; None for what is not known."""
    handles = [item.node for item in lookup(bar.scope, dotted(bar.node))[1]]
    if handles and all(isinstance(node, ast.Call) and _is_bar(bar.at(node)) for node in handles):
        return [bar.at(node) for node in handles if node is not None]
    return [maker.call for maker in makers(bar._replace(budget=Budget()))]


def _is_bar(call: Place) -> bool:
    return called(call) in _BARS | _OF_MAIN


def _is_lone(call: Place) -> bool:
    """Whether a call makes a bar that some ranks disable, and others do not."""
    if not isinstance(call.node, ast.Call) or not _is_bar(call):
        return False
    told = {keyword.arg: keyword.value for keyword in call.node.keywords}
    if None in told:
        return False
    if called(call) in _OF_MAIN:
        return _is_for_main(call.node, told.get("main_process_only"))
    disable = told.get("disable")
    return disable is not None and bool(side_of(call.at(disable)._replace(budget=Budget()), Guard(disable, True)))


def _is_for_main(call: ast.Call, named: ast.expr | None) -> bool:
    """Whether nothing but True is said of who sees the bar; older releases take that before what it goes through."""
    first = call.args[0] if call.args and (len(call.args) > 1 or isinstance(call.args[0], ast.Constant)) else None
    return all(item is None or (isinstance(item, ast.Constant) and item.value is True) for item in (named, first))
