"""Finds loops that some ranks leave, or whose backward pass some skip, by what only they know: `code.divergences`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dtlint.frameworks import Member
from dtlint.frameworks.code.collective_names import OPEN
from dtlint.frameworks.code.loaders import loaders
from dtlint.frameworks.code.ranks import side_of
from dtlint.frameworks.torch_names import DDP, FSDP1, FSDP2
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.calls import calls
from dtlint.languages.python.places import Budget, Place
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import stands
from dtlint.languages.python.tree import Guard, Module, Scope
from dtlint.record import NamedTuple
from dtlint.value import Value, written

_EXCHANGING = (*DDP, *FSDP1, *FSDP2, "deepspeed.initialize")
_NOT_FINITE = re.compile(r"\b(isnan|isinf|isfinite)\b")
_AGREED = re.compile(r"reduce|gather|broadcast|sync|any_rank|all_rank|global", re.IGNORECASE)
"""Words of values on which the ranks have agreed."""


class _Exit(NamedTuple):
    """A statement that leaves a loop or a turn of it, and the conditions within the loop, outermost first."""

    node: ast.Break | ast.Continue
    guards: tuple[Guard, ...]


def divergences(program: Program) -> tuple[Member, ...]:
    """The `break` and `continue` of training loops that not all ranks take in the same turn."""
    found = []
    for module in program.modules.values():
        if "backward" not in module.called:
            continue
        for scope in module.scopes:
            for loop in _training_loops(scope):
                place = Place(program, module, scope, loop, budget=Budget())
                found += [member for item in _exits(loop) if (member := _member(place, loop, item)) is not None]
    if not found or all(stands(call.place) is False for call in calls(program, _EXCHANGING)):
        return ()
    return tuple(member for member in found if _is_by_rank(member) or not _is_the_same_for_all(program))


def _is_by_rank(member: Member) -> bool:
    cause = member.fields["by_rank"]
    return isinstance(cause, Value) and bool(cause.value)


def _is_the_same_for_all(program: Program) -> bool:
    """Whether all ranks certainly train on the same batches, so that one's loss is everyone's."""
    kinds = (member.fields["kind"] for member in loaders(program))
    return any(isinstance(kind, Value) and kind.value == "same" for kind in kinds)


def _training_loops(scope: Scope) -> Iterator[ast.For | ast.While]:
    """The innermost loops of a function that go backward."""
    loops = {id(loop): loop for site in scope.sites for loop in site.loops if _is_backward(site.node)}
    for loop in loops.values():
        if isinstance(loop, ast.For | ast.While) and any(
            site.loops and site.loops[-1] is loop for site in scope.sites if _is_backward(site.node)
        ):
            yield loop


def _is_backward(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "backward"


def _exits(loop: ast.For | ast.While) -> Iterator[_Exit]:
    """The exits of a loop itself; those of loops and functions within it are not its own."""
    waiting: list[tuple[ast.stmt, tuple[Guard, ...]]] = [(node, ()) for node in loop.body]
    while waiting:
        node, guards = waiting.pop()
        if isinstance(node, ast.Break | ast.Continue):
            yield _Exit(node, guards)
        elif isinstance(node, ast.If):
            waiting += [(inner, (*guards, Guard(node.test, True))) for inner in node.body]
            waiting += [(inner, (*guards, Guard(node.test, False))) for inner in node.orelse]
        elif isinstance(node, ast.With | ast.Try):
            waiting += [(inner, guards) for inner in node.body]


def _member(place: Place, loop: ast.For | ast.While, item: _Exit) -> Member | None:
    if isinstance(item.node, ast.Continue) and not _goes_backward_after(loop, item.node):
        return None
    cause = _cause(place, loop, item)
    if cause is None:
        return None
    word, guard = cause
    span = place.module.span(guard.test or item.node)
    fields = {
        "word": written("break" if isinstance(item.node, ast.Break) else "continue", span),
        "by_rank": written(word == "rank", span),
        "condition": written(place.module.text(guard.test or item.node, 60), span),
    }
    return Member(span, fields, ((place.module.span(item.node), "these ranks leave here, the others go on"),))


def _cause(place: Place, loop: ast.For | ast.While, item: _Exit) -> tuple[str, Guard] | None:
    for guard in item.guards:
        if guard.test is None or _agrees(place.module, loop, guard.test):
            continue
        here = place._replace(node=guard.test, budget=Budget())
        if side_of(here, guard) and not _others_leave(loop, guard, item.node):
            return "rank", guard
        if _NOT_FINITE.search(place.module.text(guard.test, 200)) and not _any_collective(place.module, loop):
            return "loss", guard
    return None


def _agrees(module: Module, loop: ast.AST, test: ast.expr) -> bool:
    """Whether a condition speaks of something that the ranks have agreed on: by its name, or by a collective on it."""
    if _AGREED.search(module.text(test, 200)):
        return True
    names = {dotted(node) for node in ast.walk(test) if isinstance(node, ast.Name)}
    reduced = {
        dotted(part)
        for node in ast.walk(loop)
        if isinstance(node, ast.Call) and _last(node) in OPEN
        for argument in node.args
        for part in ast.walk(argument)
    }
    return bool(names & (reduced - {""}))


def _any_collective(module: Module, loop: ast.AST) -> bool:
    """Whether the loop holds anything that may let the ranks agree before the condition."""
    calls_in = (node for node in ast.walk(loop) if isinstance(node, ast.Call))
    return any(_AGREED.search(_last(node)) for node in calls_in)


def _last(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else dotted(node.func).rpartition(".")[2]


def _others_leave(loop: ast.AST, guard: Guard, leaving: ast.stmt) -> bool:
    """Whether the other branch of the condition leaves the loop too."""
    for node in ast.walk(loop):
        if isinstance(node, ast.If) and node.test is guard.test:
            other = node.orelse if guard.holds else node.body
            return any(
                isinstance(part, type(leaving) | ast.Return | ast.Raise) for step in other for part in ast.walk(step)
            )
    return False


def _goes_backward_after(loop: ast.AST, leaving: ast.stmt) -> bool:
    return any(_is_backward(node) and getattr(node, "lineno", 0) > leaving.lineno for node in ast.walk(loop))
