"""Finds where a program certainly stops itself by what its command line says, before it trains: `code.halts`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtlint.frameworks import Member
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.constants import holds
from dtlint.languages.python.places import Place, conditions_at, place_of
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import enclosing_function, stands
from dtlint.languages.python.tree import Guard, Module, Scope, Site
from dtlint.source import Span
from dtlint.value import written

_SETTERS = frozenset({"setattr", "vars"})
"""Functions by which a program may give an option any value, be it on the command line."""


def halts(program: Program) -> tuple[Member, ...]:
    """The conditions of the script that is launched under which it raises an error or asserts what is false, where the
    command line certainly meets them. `condition` is the condition, `ends` what is done then.
    """
    if program.given is None:
        return ()
    module = program.main
    tests = {id(guard.test): (site, guard) for scope in module.scopes for site, guard in _refusals(module, scope)}
    found = (_member(program, module, site, guard) for site, guard in tests.values())
    return tuple(member for member in found if member is not None)[:1]


def _refusals(module: Module, scope: Scope) -> Iterator[tuple[Site, Guard]]:
    """The conditions that sites of a script stand behind since an error is raised where they are met."""
    if scope is not module.top and enclosing_function(scope) is not scope:
        return
    for site in scope.sites:
        yield from ((site, guard) for guard in site.guards if guard.raises and not guard.holds)


def _member(program: Program, module: Module, site: Site, guard: Guard) -> Member | None:
    place = place_of(program, module, site)
    before = site.guards[: site.guards.index(guard)]
    if guard.test is None or not _is_denied(place, guard) or stands(place._replace(guards=before)) is not True:
        return None
    end = _end(module, guard)
    if end is None or _may_be_caught(module, site.scope) or _is_set(program, guard.test):
        return None
    span = module.span(guard.test)
    fields = {"condition": written(module.text(guard.test, 60), span), "ends": written(end.text.split("\n")[0], end)}
    return Member(span, fields, ((end, "the program stops here"),))


def _is_denied(place: Place, guard: Guard) -> bool:
    return any(holds(condition) is False for condition in conditions_at(place, (guard,)))


def _end(module: Module, guard: Guard) -> Span | None:
    """The statement that ends the program under a condition."""
    branches = (node for node in ast.walk(module.top.node) if isinstance(node, ast.If) and node.test is guard.test)
    statements = (each for node in branches for each in node.body if isinstance(each, ast.Raise | ast.Assert))
    found = next(statements, None)
    return module.span(found) if found is not None else None


def _is_set(program: Program, test: ast.expr) -> bool:
    """Whether the program sets what is asked for itself (`args.resume = ""`), or may set anything (`vars(args)`)."""
    asked = {node.attr for node in ast.walk(test) if isinstance(node, ast.Attribute)}
    holders = {dotted(node.value) for node in ast.walk(test) if isinstance(node, ast.Attribute)}
    nodes = (node for module in program.modules.values() for node in ast.walk(module.top.node))
    return any(_stores(node, asked) or _may_store(node, holders) for node in nodes)


def _stores(node: ast.AST, asked: set[str]) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in asked and isinstance(node.ctx, ast.Store)


def _may_store(node: ast.AST, holders: set[str]) -> bool:
    """Whether an object that is asked is handed to what may set any of its attributes."""
    if isinstance(node, ast.Attribute):
        return node.attr == "__dict__" and dotted(node.value) in holders
    last = dotted(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""
    first = node.args[0] if isinstance(node, ast.Call) and node.args else None
    return last in _SETTERS and first is not None and dotted(first) in holders


def _may_be_caught(module: Module, scope: Scope) -> bool:
    """Whether a call of the function, or anything in it, stands where errors are caught."""
    name = scope.name.rpartition(".")[2]
    tries = (node for node in ast.walk(module.top.node) if isinstance(node, ast.Try) and node.handlers)
    return any(
        isinstance(inner, ast.Call) and dotted(inner.func).rpartition(".")[2] == name
        for node in tries
        for statement in node.body
        for inner in ast.walk(statement)
    )
