"""Counts the batches whose gradients a loop adds up before the optimizer steps, where the code tells it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from dtlint.frameworks.code.counting import Turn, open_numbers, turns_of, worth
from dtlint.frameworks.code.loss_factors import is_handed_over
from dtlint.frameworks.code.microsteps import conditions_in, loops_around, optimizer_steps, steps_of
from dtlint.languages.python.callers import callers
from dtlint.languages.python.constants import evaluate
from dtlint.languages.python.names import qualified
from dtlint.languages.python.places import Budget, Frame, Place, place_of
from dtlint.languages.python.program import Definition, Program
from dtlint.languages.python.reach import enclosing_function, stands
from dtlint.languages.python.tree import Guard, Module, Site
from dtlint.record import NamedTuple
from dtlint.source import Span
from dtlint.value import Setting, Value, written


class Accumulation(NamedTuple):
    """How many batches a backward pass is one of, and the step of the optimizer after the last of them."""

    batches: Setting
    step: Place


def accumulated(program: Program) -> Setting | None:
    """The batches of one step of the optimizer, where every backward pass that is the program's own tells the same
    number; an Accelerator or Fabric that goes backward counts for itself.
    """
    found = list(_own(program))
    counts = {each.batches.value if each is not None and isinstance(each.batches, Value) else None for each in found}
    return found[0].batches if found and found[0] is not None and len(counts) == 1 else None


def _own(program: Program) -> Iterator[Accumulation | None]:
    for module in program.modules.values():
        for site in module.called.get("backward", ()):
            place = place_of(program, module, site)
            if stands(place) is not False and not is_handed_over(place):
                yield accumulation_of(program, module, site)


def accumulation_of(program: Program, module: Module, site: Site) -> Accumulation | None:
    """What a call of `backward` is one of; None where it is followed by a step at once, or nothing is told."""
    place = place_of(program, module, site)
    loop = site.loops[-1] if site.loops else None
    if not isinstance(loop, ast.For) or stands(place) is False:
        return None
    steps = steps_of(place, loop)
    if not steps:
        return _by_helper(place, site, loop)
    steps = [step for step in steps if loop in loops_around(step)] or steps
    if len(steps) != 1:
        return None
    step = steps[0]
    within = loop in loops_around(step)
    count = modulus(conditions_in(step, loop)) if within else _inner_turns(place, loop, step)
    return None if count is None else Accumulation(count, step)


def _by_helper(place: Place, site: Site, loop: ast.For) -> Accumulation | None:
    """A loop that is all that a function does in turns, called before the step in the loop of steps."""
    function = enclosing_function(site.scope)
    calls = callers(place.program, Definition(place.module, function)) if function is not None else []
    if function is None or len(calls) != 1 or len(site.loops) != 1 or _zeroes(loop):
        return None
    outside = place_of(place.program, *calls[0])
    around = loops_around(outside)
    steps = [step for step in optimizer_steps(outside) if around and loops_around(step) == around]
    count = _turns(place._replace(frames=(Frame(function, outside),)), loop)
    return None if len(steps) != 1 or count is None else Accumulation(count, steps[0])


def decides(step: Place) -> Span:
    """The condition of a step, if it has one: it says on which turn."""
    inner = [guard.test for guard in step.guards if guard.test is not None and "%" in step.module.text(guard.test)]
    return step.module.span(inner[-1] if inner else step.node)


def _inner_turns(place: Place, loop: ast.For, step: Place) -> Setting | None:
    """The turns of a loop of batches within the loop of steps, of which each goes backward."""
    if loops_around(step) != loops_around(place)[:-1] or not loops_around(step) or _zeroes(loop):
        return None
    return _turns(place, loop)


def _turns(place: Place, loop: ast.For) -> Setting | None:
    count = turns_of(place, loop, Turn({}, frozenset(), 0))
    if count is None:
        return _ended_by(place, loop)
    return written(count, place.module.span(loop.iter)) if count > 1 else None


def _ended_by(place: Place, loop: ast.For) -> Setting | None:
    """A of `for _ in range(A)`, where it has a value that a command may change."""
    source = loop.iter
    if not isinstance(source, ast.Call) or len(source.args) != 1 or source.keywords:
        return None
    is_range = qualified(place.module, source.func, place.scope) == ("range",)
    return _by_default(place.at(source.args[0])) if is_range else None


def _zeroes(loop: ast.For) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr == "zero_grad" for node in ast.walk(loop))


def modulus(conditions: Iterable[tuple[Place, Guard]]) -> Setting | None:
    """A of `if (i + 1) % A == 0: step`."""
    parts = [
        place.at(node)
        for place, guard in conditions
        if guard.test is not None
        for node in ast.walk(guard.test)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod)
    ]
    remainder = parts[0].node if len(parts) == 1 else None
    if not isinstance(remainder, ast.BinOp):
        return None
    divisor = parts[0].at(remainder.right)
    if open_numbers(divisor):
        return _by_default(divisor)
    value = worth(divisor._replace(budget=Budget()), Turn({}, frozenset(), 0))
    if value is None:
        return _certain(divisor)
    return written(value, divisor.module.span(remainder)) if value > 1 else None


def _certain(place: Place) -> Setting | None:
    """A number that follows from what several statements write (`if size > MOST: steps = size // MOST`)."""
    value = _several(evaluate(place._replace(budget=Budget(300))))
    return value if value is not None and value.origin.kind == "written" else None


def _by_default(place: Place) -> Setting | None:
    """An accumulation that a command may set and that has a value without."""
    return _several(evaluate(place._replace(budget=Budget())))


def _several(value: Setting) -> Value | None:
    """A number of batches that is known and larger than one."""
    number = value.value if isinstance(value, Value) else None
    is_count = isinstance(number, int) and not isinstance(number, bool) and number > 1
    return value if isinstance(value, Value) and is_count else None
