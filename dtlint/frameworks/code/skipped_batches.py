"""Finds batches that a rank skips for an exception that a function of the program raises by what this rank's own batch
holds: parts of `code.divergences`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtlint.frameworks.code.dependent_names import batch_names, mentions_any, resting_on
from dtlint.frameworks.pytorch.step_area import called_function
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.called import argument_node
from dtlint.languages.python.names import qualified
from dtlint.languages.python.places import Place
from dtlint.languages.python.program import Definition, definition
from dtlint.record import NamedTuple
from dtlint.source import Span

_LEVELS = 2
"""Functions within functions in which an exception may be raised."""
_ANY = frozenset({"Exception", "BaseException"})
_MAX_BASES = 4
_Tested = tuple[ast.expr, ...]


class Skip(NamedTuple):
    """A handler that leaves a turn of a training loop, and where the exception is raised that leads to it."""

    handler: ast.ExceptHandler
    leaving: ast.stmt
    raised: Span


def skipped_batches(place: Place, loop: ast.For | ast.While) -> Iterator[Skip]:
    """The handlers in a loop, outside loops within it, that skip the batch of a rank before its backward pass, for what
    it holds.
    """
    names = batch_names(loop)
    for node in _tries(loop.body) if names else ():
        for handler in node.handlers:
            leaving = _leaving(handler, loop, node)
            raised = _raised_in(place, node.body, names, handler, _LEVELS) if leaving is not None else None
            if raised is not None and leaving is not None:
                yield Skip(handler, leaving, raised)


def gives_nothing(place: Place, test: ast.expr, loop: ast.For | ast.While) -> bool:
    """Whether a condition in a loop asks if a function of the program has made nothing of this rank's batch: it returns
    None by what it is handed (`if picked is None`).
    """
    asked, names = _nothing_asked(test), batch_names(loop)
    made = (node for node in ast.walk(loop) if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call))
    calls = [node.value for node in made if asked and asked in map(dotted, _targets(node))]
    return bool(calls) and all(_may_return_nothing(place.at(call), names) for call in calls)


def _nothing_asked(test: ast.expr) -> str:
    """The name of which a condition asks whether it is None."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return dotted(test.operand) if isinstance(test.operand, ast.Name) else ""
    is_none = isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Is)
    nothing = is_none and isinstance(test, ast.Compare) and getattr(test.comparators[0], "value", test) is None
    return dotted(test.left) if nothing and isinstance(test, ast.Compare) else ""


def _targets(node: ast.Assign) -> Iterator[ast.expr]:
    for target in node.targets:
        yield from target.elts if isinstance(target, ast.Tuple) else (target,)


def _may_return_nothing(call: Place, names: frozenset[str]) -> bool:
    helper = called_function(call)
    if helper is None or not isinstance(call.node, ast.Call):
        return False
    inside = _resting_in(helper, call.node, names)
    nothing = [tested for value, tested in _returns(_body(helper)) if _is_nothing(value)]
    return any(mentions_any(test, inside) for tested in nothing for test in tested)


def _is_nothing(value: ast.expr | None) -> bool:
    """`return`, `return None`, `return None, None`"""
    parts = value.elts if isinstance(value, ast.Tuple) else [value]
    return all(part is None or (isinstance(part, ast.Constant) and part.value is None) for part in parts)


def _tries(body: list[ast.stmt]) -> Iterator[ast.Try]:
    """The `try` statements of a loop's own turns."""
    for node in body:
        if isinstance(node, ast.Try):
            yield node
        if not isinstance(node, ast.For | ast.While | ast.FunctionDef):
            blocks = (getattr(node, name, []) for name in ("body", "orelse", "finalbody"))
            yield from (found for block in blocks for found in _tries(block))


def _leaving(handler: ast.ExceptHandler, loop: ast.For | ast.While, around: ast.Try) -> ast.stmt | None:
    """The statement that leaves the turn after an exception: in the handler, or on a flag that it sets."""
    left = next(_exits(handler.body), None)
    if left is not None:
        return left
    flags = {dotted(item) for node in handler.body if isinstance(node, ast.Assign) for item in node.targets} - {""}
    for node in loop.body:
        asks = isinstance(node, ast.If) and node.lineno > around.lineno and mentions_any(node.test, flags)
        if asks and isinstance(node, ast.If) and (found := next(_exits(node.body), None)) is not None:
            return found
    return None


def _exits(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        if isinstance(node, ast.Continue | ast.Break | ast.Return):
            yield node
        elif isinstance(node, ast.If | ast.With):
            yield from _exits([*node.body, *getattr(node, "orelse", [])])


def _raised_in(
    place: Place, body: list[ast.stmt], names: frozenset[str], handler: ast.ExceptHandler, levels: int
) -> Span | None:
    """Where statements raise what a handler takes, under a condition on one of the names."""
    for raised, tested in _raises(body):
        if any(mentions_any(test, names) for test in tested) and _takes(place, handler, raised):
            return place.module.span(raised)
    inside = (node for part in body for node in ast.walk(part) if levels and isinstance(node, ast.Call))
    for call in inside:
        helper = called_function(place.at(call)) if any(mentions_any(item, names) for item in _given(call)) else None
        found = _raised_by(place.at(call), helper, names, handler, levels) if helper is not None else None
        if found is not None:
            return found
    return None


def _raised_by(
    call: Place, helper: Definition, names: frozenset[str], handler: ast.ExceptHandler, levels: int
) -> Span | None:
    """Where a function raises what a handler takes, by an argument that rests on one of the names."""
    assert isinstance(call.node, ast.Call)
    inside = call._replace(module=helper.module, scope=helper.scope)
    own = _resting_in(helper, call.node, names)
    return _raised_in(inside, _body(helper), own, handler, levels - 1) if own else None


def _resting_in(helper: Definition, call: ast.Call, names: frozenset[str]) -> frozenset[str]:
    """The names in a function that rest on an argument which mentions one of the names."""
    function = helper.scope.node
    assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
    parameters = [item.arg for item in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]
    passed = ((name, argument_node(helper.scope, name, call)) for name in parameters)
    own = {name for name, node in passed if node is not None and mentions_any(node, names)}
    return resting_on(function.body, own) if own else frozenset()


def _body(helper: Definition) -> list[ast.stmt]:
    function = helper.scope.node
    return function.body if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) else []


def _given(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def _raises(body: list[ast.stmt]) -> Iterator[tuple[ast.Raise, _Tested]]:
    return ((node, tested) for node, tested in _ends(body, ()) if isinstance(node, ast.Raise))


def _returns(body: list[ast.stmt]) -> Iterator[tuple[ast.expr | None, _Tested]]:
    return ((node.value, tested) for node, tested in _ends(body, ()) if isinstance(node, ast.Return))


def _ends(body: list[ast.stmt], tested: _Tested) -> Iterator[tuple[ast.stmt, _Tested]]:
    """The `raise` and `return` statements, each with the conditions around it; those of a `try` may end there."""
    for node in body:
        if isinstance(node, ast.Raise | ast.Return):
            yield node, tested
        elif isinstance(node, ast.If | ast.While):
            yield from _ends([*node.body, *node.orelse], (*tested, node.test))
        elif isinstance(node, ast.For | ast.With):
            yield from _ends(node.body, tested)


def _takes(place: Place, handler: ast.ExceptHandler, raised: ast.Raise) -> bool:
    """Whether a handler takes an exception: of its class by name, or of one that this builds on."""
    named = raised.exc.func if isinstance(raised.exc, ast.Call) else raised.exc
    if named is None:
        return False
    parts = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    caught = {dotted(part).rpartition(".")[2] for part in parts if part is not None}
    return handler.type is None or bool(caught & (_classes(place, named) | _ANY))


def _classes(place: Place, named: ast.expr) -> frozenset[str]:
    """The last words of the names of an exception's class and of those that it builds on in the program."""
    found, waiting = set[str](), [(place, named)]
    while waiting and len(found) < _MAX_BASES:
        here, node = waiting.pop()
        found.add(dotted(node).rpartition(".")[2])
        for name in qualified(here.module, node, here.scope):
            known = definition(here.program, here.module, name)
            if known is not None and isinstance(known.scope.node, ast.ClassDef):
                outer = here._replace(module=known.module, scope=known.scope.parent or known.scope)
                waiting += [(outer, base) for base in known.scope.node.bases]
    return frozenset(found)
