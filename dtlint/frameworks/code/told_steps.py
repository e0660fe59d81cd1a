"""Calls that go backward and are told when the optimizer steps: `scaler(loss, optimizer, update_grad=last)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtlint.frameworks.code.microsteps import optimizer_steps
from dtlint.languages.python.called import argument_node
from dtlint.languages.python.callers import callers
from dtlint.languages.python.instances import instances
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Definition, Program
from dtlint.languages.python.reach import enclosing_function
from dtlint.languages.python.tree import Guard, Module, Scope, Site
from dtlint.record import NamedTuple

_CALLED = "__call__"


class ToldStep(NamedTuple):
    """A call in a loop that goes backward in each of its turns, and what it is told of the step."""

    place: Place
    loop: ast.For
    told: Place


def told_steps(program: Program, backward: Place) -> Iterator[ToldStep]:
    """The calls in loops of the function of a backward pass, where one of its parameters alone decides on the step."""
    function = enclosing_function(backward.scope)
    name = _deciding(backward, function) if function is not None and not backward.guards else ""
    if function is None or not name:
        return
    for module, site in _calls(program, Definition(backward.module, function), name):
        given = argument_node(function, name, site.node)
        loop = site.loops[-1] if site.loops else None
        if isinstance(given, ast.expr) and isinstance(loop, ast.For):
            place = place_of(program, module, site)
            yield ToldStep(place, loop, place.at(given))


def _deciding(backward: Place, function: Scope) -> str:
    """The parameter under which the one step of a function stands."""
    steps = optimizer_steps(backward)
    tests = [[guard for guard in step.guards if guard.test is not None] for step in steps]
    if not tests or any(len(guards) != 1 for guards in tests):
        return ""
    names = {_switch(guards[0]) for guards in tests}
    (name,) = names if len(names) == 1 else ("",)
    own = [binding for binding in function.bindings.get(name, ()) if binding.kind == "parameter"]
    return name if own and len(function.bindings[name]) == 1 else ""


def _switch(guard: Guard) -> str:
    """The name that a step waits for."""
    return guard.test.id if guard.holds and isinstance(guard.test, ast.Name) else ""


def _calls(program: Program, wanted: Definition, name: str) -> Iterator[tuple[Module, Site]]:
    """The calls of a function; of `__call__` those of objects of its class, which say the parameter by name."""
    if wanted.scope.name.rpartition(".")[2] != _CALLED:
        yield from callers(program, wanted)
        return
    for module in program.modules.values():
        if f"{name}=" not in module.source.text.replace(" ", ""):
            continue
        for scope in module.scopes:
            for site in scope.sites:
                node = site.node
                if not isinstance(node, ast.Call) or not any(keyword.arg == name for keyword in node.keywords):
                    continue
                owners = instances(place_of(program, module, site).at(node.func))
                if any(owner.definition.scope is wanted.scope.parent for owner in owners):
                    yield module, site
