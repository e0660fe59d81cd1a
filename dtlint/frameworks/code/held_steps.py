"""Finds steps of DeepSpeed's engine that a loop takes after so many micro-batches only, which the engine counts itself:
conflicts of `batch.accumulation`.
"""

from __future__ import annotations

import ast

from dtlint.frameworks import Member
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.code.objects import kinds
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import stands
from dtlint.languages.python.tree import Guard, Site


def held_steps(program: Program) -> tuple[Member, ...]:
    """Conflicts of `engine.step()` in every n-th turn of a loop that goes backward in each: the engine takes a step
    when it has been called as often as its accumulation says (`effect` held; engine.py, step and
    is_gradient_accumulation_boundary).
    """
    found = []
    for module in program.modules.values():
        for site in module.called.get("step", ()):
            guard = next((each for each in reversed(site.guards) if _is_periodic(each)), None)
            place = place_of(program, module, site)
            if guard is not None and _holds_back(place, site, guard) and stands(place) is not False:
                found.append(_member(place, guard))
    return tuple(found)


def _is_periodic(guard: Guard) -> bool:
    """`(step + 1) % n == 0`"""
    test = guard.test
    counted = isinstance(test, ast.Compare) and isinstance(test.left, ast.BinOp) and isinstance(test.left.op, ast.Mod)
    return counted and isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq) and guard.holds


def _holds_back(place: Place, site: Site, guard: Guard) -> bool:
    """Whether an engine steps under a condition under which it does not go backward, in the same turn of a loop."""
    engine = _receiver(place.node)
    if not site.loops or not dotted(engine) or kinds(place.at(engine)) != {"deepspeed"}:
        return False
    passes = (
        other
        for other in place.module.called.get("backward", ())
        if other.scope is site.scope and other.loops == site.loops
    )
    return any(
        dotted(_receiver(other.node)) == dotted(engine) and all(each.test is not guard.test for each in other.guards)
        for other in passes
    )


def _receiver(node: ast.AST) -> ast.AST:
    """What a method is called on; the call itself where it is none."""
    return node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else node


def _member(place: Place, guard: Guard) -> Member:
    span = place.module.span(place.node)
    test = place.module.text(guard.test, 60) if guard.test is not None else ""
    told = {"name": test, "value": test, "winner": test, "effect": "held"}
    call = f"{dotted(_receiver(place.node))}.step"
    fields = texts(span, setting="batch.accumulation", winner_name=call, **told)
    related = ((place.module.span(guard.test), "called in these turns only"),) if guard.test is not None else ()
    return Member(span, fields, related)
