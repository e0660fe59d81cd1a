"""Finds loops that accumulate gradients: where they go backward, where the optimizer steps, which turns exchange."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from dtlint.frameworks.code.counting import Turn, counter_of, open_numbers, turns_of, unknown_numbers, worth
from dtlint.frameworks.code.ranks import asks_for_ranks
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.callers import callers
from dtlint.languages.python.names import qualified
from dtlint.languages.python.places import Budget, Frame, Place, place_of
from dtlint.languages.python.program import Definition, Program
from dtlint.languages.python.reach import enclosing_function
from dtlint.languages.python.tree import Guard, Site
from dtlint.record import NamedTuple

SAMPLED = (2, 3, 4, 8)
"""Numbers of accumulated batches that stand in for one that the files do not tell."""
_MOST_TURNS = 130
FLAG = "require_backward_grad_sync"
SETTER = "set_requires_gradient_sync"
"""The method of FSDP2 that says whether the next backward pass exchanges."""
SILENCERS = ("no_sync", "no_backward_sync")
"""Methods whose block exchanges nothing; the second, Fabric's, may be told `enabled=False`."""
_OPTIMIZERS = re.compile(r"opt(im(izer)?)?s?(?![a-z])|scaler|adam|sgd|muon", re.IGNORECASE)
_WRAPPED = re.compile(r"isinstance|hasattr|no_sync|\bddp\b|is_ddp|use_ddp|distributed", re.IGNORECASE)
"""Words of conditions that only ask whether the model is wrapped at all."""


class Switch(NamedTuple):
    """One place that turns the exchange off (`no_sync`) or sets it (`require_backward_grad_sync = ...`) in a loop.

    `model` is what has the exchange: the model, or the Accelerator or Fabric that wraps it. `value` is what the flag is
    set to, None for no_sync; where it is `off`, nothing is exchanged.
    """

    place: Place
    model: Place
    loop: ast.For
    value: Place | None = None
    off: bool = False


def no_sync_calls(program: Program) -> Iterator[Place]:
    """The calls of no_sync (Fabric's no_backward_sync), each as its loop sees it: one in a helper function through each
    call of the helper.
    """
    for module in program.modules.values():
        for site in (site for word in SILENCERS for site in module.called.get(word, ())):
            if not isinstance(site.node, ast.Call) or not isinstance(site.node.func, ast.Attribute):
                continue
            place = place_of(program, module, site)
            yield from _in_loops(place, site)


def _in_loops(place: Place, site: Site) -> Iterator[Place]:
    function = enclosing_function(site.scope)
    if site.loops or function is None:
        yield place
        return
    for module, call in callers(place.program, Definition(place.module, function)):
        outside = place_of(place.program, module, call)
        yield place._replace(frames=(Frame(function, outside),))


def outermost(place: Place) -> Place:
    """The place in the loop that leads to a place: itself, or the call of the helper function around it."""
    return place.frames[0].call if place.frames else place


def loops_around(place: Place) -> tuple[ast.AST, ...]:
    """The loops around a place, outermost first."""
    site = _site_of(outermost(place))
    return site.loops if site is not None else ()


def _site_of(place: Place) -> Site | None:
    return next((site for site in place.scope.sites if site.node is place.node), None)


def switches(program: Program) -> Iterator[Switch]:
    """Every switch of the exchange that stands in a loop that counts its turns."""
    for place in no_sync_calls(program):
        node = place.node
        receiver = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else node
        enabled = _enabled(node)
        for loop in _counting(place):
            yield Switch(place, place.at(receiver), loop, place.at(enabled) if enabled is not None else None, True)
    for flag in flags(program):
        for loop in _counting(flag.place):
            yield Switch(flag.place, flag.place.at(flag.at.value), loop, flag.place.at(flag.value))
    for module in program.modules.values():
        for site in module.called.get(SETTER, ()):
            yield from _setters(place_of(program, module, site))


def _setters(place: Place) -> Iterator[Switch]:
    """`model.set_requires_gradient_sync(last)` of FSDP2."""
    node = place.node
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or len(node.args) != 1:
        return
    for loop in _counting(place):
        yield Switch(place, place.at(node.func.value), loop, place.at(node.args[0]))


def _enabled(node: ast.AST) -> ast.expr | None:
    """`enabled=...` of Fabric's no_backward_sync."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != SILENCERS[1]:
        return None
    named = next((keyword.value for keyword in node.keywords if keyword.arg == "enabled"), None)
    return node.args[1] if named is None and len(node.args) > 1 else named


class Flag(NamedTuple):
    """`require_backward_grad_sync` where it is set: the statement, the attribute, and the loops around it."""

    place: Place
    at: ast.Attribute
    value: ast.expr
    loops: tuple[ast.AST, ...]


def flags(program: Program) -> Iterator[Flag]:
    """Every place that sets the flag by which DDP exchanges or does not."""
    for module in program.modules.values():
        for scope in module.scopes if FLAG in module.source.text else ():
            for site in scope.sites:
                target = site.node.targets[0] if isinstance(site.node, ast.Assign) else None
                if isinstance(target, ast.Attribute) and target.attr == FLAG and isinstance(site.node, ast.Assign):
                    yield Flag(place_of(program, module, site), target, site.node.value, site.loops)


def _counting(place: Place) -> Iterator[ast.For]:
    """The innermost loop around a place that counts its turns."""
    here = outermost(place)
    for loop in reversed(loops_around(place)):
        if isinstance(loop, ast.For) and counter_of(here, loop) is not None:
            yield loop
            return


def steps_of(place: Place, loop: ast.For) -> list[Place]:
    """The steps of an optimizer in a loop, or right after it in the loop around it."""
    return [place_of(place.program, place.module, site) for site in _step_sites(place) if _belongs(site, loop)]


def optimizer_steps(place: Place) -> list[Place]:
    """The steps of optimizers in the function of a place."""
    return [place_of(place.program, place.module, site) for site in _step_sites(place)]


def _step_sites(place: Place) -> Iterator[Site]:
    for site in place.scope.sites:
        node = site.node
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "step":
            continue
        owner = node.func.value.func if isinstance(node.func.value, ast.Call) else node.func.value
        spelled = dotted(owner).rpartition(".")[2]
        if _OPTIMIZERS.search(spelled) and "sched" not in spelled:
            yield site


def _belongs(site: Site, loop: ast.For) -> bool:
    if loop in site.loops:
        return site.loops[-1] is loop
    return getattr(site.node, "lineno", 0) > (loop.end_lineno or 0)


def is_inside(node: ast.AST, loop: ast.AST) -> bool:
    """Whether a node stands in the text of a loop."""
    line = getattr(node, "lineno", 0)
    return getattr(loop, "lineno", 0) <= line <= (getattr(loop, "end_lineno", 0) or 0)


def conditions_in(place: Place, loop: ast.For) -> list[tuple[Place, Guard]]:
    """The conditions within a loop under which a place is reached; those of a helper function first."""
    found = [(place, guard) for guard in place.guards if place.frames or _is_within(guard, loop)]
    outside = outermost(place)
    if place.frames:
        found += [(outside, guard) for guard in outside.guards if _is_within(guard, loop)]
    return [(here, guard) for here, guard in found if not asks_for_wrapper(here, guard)]


def _is_within(guard: Guard, loop: ast.For) -> bool:
    return guard.test is not None and is_inside(guard.test, loop)


def asks_for_wrapper(place: Place, guard: Guard) -> bool:
    """Whether a condition only asks whether the model is wrapped, or whether there are several ranks."""
    if guard.test is None or isinstance(guard.test, ast.BoolOp):
        return False
    return asks_for_ranks(place, guard) or bool(_WRAPPED.search(place.module.text(guard.test, 200)))


def holds_on(conditions: Iterable[tuple[Place, Guard]], turn: Turn) -> bool | None:
    """Whether all conditions hold on a turn; None where that is not told."""
    verdict: bool | None = True
    for place, guard in conditions:
        found = _worth(place, guard, turn)
        if found is False:
            return False
        verdict = None if found is None else verdict
    return verdict


def _worth(place: Place, guard: Guard, turn: Turn) -> bool | None:
    test = guard.test
    if test is None:
        return None
    if isinstance(test, ast.BoolOp):
        return _without_wrapper(place, test, guard.holds, turn)
    value = worth(place._replace(node=test, budget=Budget()), turn)
    return None if value is None else bool(value) is guard.holds


def _without_wrapper(place: Place, test: ast.BoolOp, holds: bool, turn: Turn) -> bool | None:
    """A condition of several parts; those that ask whether the model is wrapped are answered with yes."""
    parts: list[bool | None] = []
    for part in test.values:
        if asks_for_wrapper(place, Guard(part, True)):
            parts.append(not (isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.Not)))
            continue
        value = worth(place._replace(node=part, budget=Budget()), turn)
        parts.append(None if value is None else bool(value))
    decisive = isinstance(test.op, ast.Or)
    if decisive in parts:
        return decisive is holds
    return None if None in parts else (not decisive) is holds


def open_accumulation(place: Place, loop: ast.For, conditions: Iterable[tuple[Place, Guard]]) -> frozenset[str]:
    """The texts of the numbers of accumulated batches that the files do not tell for certain."""
    found: set[str] = set()
    for here, guard in conditions:
        if guard.test is not None:
            found |= unknown_numbers(here._replace(budget=Budget()), guard.test)
    if isinstance(loop.iter, ast.Call) and qualified(place.module, loop.iter.func, place.scope) == ("range",):
        last = loop.iter.args[-1] if loop.iter.args else loop.iter
        found |= open_numbers(place.at(last))
    return frozenset(found)


def turns(place: Place, loop: ast.For, unknowns: frozenset[str], accumulation: int) -> Iterator[Turn]:
    """The first turns of a loop: as many as it has, else enough for three steps of the optimizer."""
    counter = counter_of(place, loop)
    if counter is None:
        return
    target, first = counter
    count = turns_of(place, loop, Turn({}, unknowns, accumulation)) or (3 * accumulation if unknowns else _MOST_TURNS)
    for index in range(min(count, _MOST_TURNS)):
        yield Turn({id(target): first + index}, unknowns, accumulation)
