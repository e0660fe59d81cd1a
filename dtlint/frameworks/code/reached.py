"""What a call leads to: the collectives that it is, or that functions of the program make which it calls."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtlint.frameworks.code.collective_names import ALWAYS, LOADING, OPEN, SHARDED, Collective, collective_at
from dtlint.frameworks.code.picked_items import asks_for_shard, picks_items, run_sites
from dtlint.frameworks.code.ranks import Side, asks_for_ranks, is_alone, side_of
from dtlint.frameworks.code.serving import endless
from dtlint.frameworks.pytorch.step_area import called_function, functions_given
from dtlint.languages.python.bindings import last_word
from dtlint.languages.python.calls import called
from dtlint.languages.python.instances import method
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Definition, Program
from dtlint.languages.python.tree import Guard, Scope, Site
from dtlint.record import NamedTuple

_MAX_DEPTH = 3
_MAX_HELPERS = 60
_FOR_FIRST = frozenset(
    (
        "rank_zero_only",
        "on_main_process",
        "on_local_main_process",
        "master_only",
        "rank0_only",
        "main_process_only",
        "one_rank_only",
    )
)
"""Decorators of functions that run on the first rank only."""
_TAKING = frozenset(("dict", "list", "set", "sorted", "tuple"))
"""Functions that run a generator to its end."""
_REGISTERING = frozenset(("add_event_handler",))
"""Methods of an engine that calls the function which they are given later, on each rank that has given it."""


class Reached(NamedTuple):
    """A collective that a call is, or leads to through functions of the program (`through`); `endless`: in a loop of
    theirs that has no end of its own.
    """

    collective: Collective
    place: Place
    through: str = ""
    endless: bool = False


def first_only(scope: Scope) -> ast.expr | None:
    """The decorator that lets a function run on the first rank only, None where it has none."""
    node = scope.node
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else []
    return next((item for item in decorators if last_word(_decorator(item)) in _FOR_FIRST), None)


def _decorator(node: ast.expr) -> ast.expr:
    """What decorates: of `@one_rank_only(rank=0)` what is called."""
    return node.func if isinstance(node, ast.Call) else node


class Search:
    """What the functions of one program lead to, each looked at once."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._found: dict[int, Reached | None] = {}
        self._sides: dict[tuple[int, bool], Side] = {}

    def side(self, place: Place, guard: Guard) -> Side:
        """The ranks that a guard lets pass, asked once however many calls it stands around."""
        key = id(guard.test), guard.holds
        if key not in self._sides:
            self._sides[key] = side_of(place, guard)
        return self._sides[key]

    def reached(self, place: Place, depth: int) -> Reached | None:
        """The collective that a call is or leads to for certain."""
        own = collective_at(place)
        if own is not None:
            return Reached(own, place)
        helper = _called(place) if depth < _MAX_DEPTH else None
        if helper is None or (_is_generator(helper.scope) and not _is_run_through(place)):
            return None
        found = self._in_function(helper, depth + 1)
        return found._replace(through=helper.scope.name.rpartition(".")[2]) if found is not None else None

    def _in_function(self, helper: Definition, depth: int) -> Reached | None:
        key = id(helper.scope)
        if key not in self._found and len(self._found) < _MAX_HELPERS:
            self._found[key] = None
            self._found[key] = self._first(helper, depth)
        return self._found.get(key)

    def _first(self, helper: Definition, depth: int) -> Reached | None:
        """The first collective of a function that no condition but "are there several ranks" stands around; a load,
        which ZeRO-3 alone makes one, only where there is no other.
        """
        if first_only(helper.scope) is not None:
            return None
        load = None
        for place, site in _certain_calls(self.program, helper):
            found = self.reached(place, depth)
            if found is None:
                continue
            waits = found.endless or any(map(endless, site.loops))
            found = _as_guarded(found, site)._replace(endless=waits)
            if found.collective.needs != LOADING:
                return found
            load = load or found
        return load

    def operations(self, place: Place, depth: int = 0) -> set[str]:
        """The operations that a call may lead to, by what it calls or is given to call; conditions left aside."""
        own = collective_at(place)
        node = place.node
        if own is not None:
            return {own.operation}
        spelled = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
        if spelled in OPEN and spelled not in ("gather", "reduce", "scatter"):
            return {spelled}
        if depth >= _MAX_DEPTH:
            return set()
        helper = _called(place)
        entered = [*functions_given(place), *([helper] if helper is not None else [])]
        calls = ((each, site) for each in entered for site in each.scope.sites if isinstance(site.node, ast.Call))
        found = (self.operations(place_of(self.program, each.module, site), depth + 1) for each, site in calls)
        return set().union(*found)


def _called(place: Place) -> Definition | None:
    """The function that a call runs, also as a method of an object that comes from elsewhere (`self.saver.save()`), or
    that it has an engine run.
    """
    node = place.node
    function = node.func if isinstance(node, ast.Call) else None
    if last_word(function) in _REGISTERING:
        return next(iter(functions_given(place)), None)
    found = called_function(place)
    return method(place, function) if found is None and isinstance(function, ast.Attribute) else found


def leads_to(place: Place, names: tuple[str, ...], depth: int = 0) -> bool:
    """Whether a call is one of functions of these names, or leads to one for certain."""
    if called(place) in names:
        return True
    helper = called_function(place) if depth < _MAX_DEPTH else None
    inside = _certain_calls(place.program, helper) if helper is not None else ()
    return any(leads_to(inner, names, depth + 1) for inner, _ in inside)


def _certain_calls(program: Program, helper: Definition) -> Iterator[tuple[Place, Site]]:
    """The calls of a function that no condition stands around but "are there several ranks", "is this a shard", those
    that an error is raised for, and those that pick out of a loop the items that a call is made for.
    """
    for site in run_sites(helper.scope):
        if isinstance(site.node, ast.Call):
            place = place_of(program, helper.module, site)
            if all(_lets_pass(place, site, guard) for guard in site.guards):
                yield place, site


def _lets_pass(place: Place, site: Site, guard: Guard) -> bool:
    return guard.raises or asks_for_shard(guard) or asks_for_several(place, guard) or picks_items(site, guard)


def asks_for_several(place: Place, guard: Guard) -> bool:
    """Whether a condition lets runs of several ranks through: `if args.distributed`."""
    return asks_for_ranks(place, guard) and not is_alone(place, guard)


def _as_guarded(found: Reached, site: Site) -> Reached:
    """A collective behind such a question is one of sharded models."""
    asked = found.collective.needs == ALWAYS and any(map(asks_for_shard, site.guards))
    return found._replace(collective=found.collective._replace(needs=SHARDED)) if asked else found


def _is_run_through(place: Place) -> bool:
    """Whether a generator is run where it is called: a loop turns over it, or something takes all that it yields."""
    return any(_takes_all(node, place.node) for node in ast.walk(place.scope.node))


def _takes_all(node: ast.AST, call: ast.AST) -> bool:
    if isinstance(node, ast.For | ast.comprehension):
        return node.iter is call
    if isinstance(node, ast.YieldFrom):
        return node.value is call
    return isinstance(node, ast.Call) and last_word(node.func) in _TAKING and call in node.args


def _is_generator(scope: Scope) -> bool:
    """Whether a function is a generator, which calling does not run (a context manager that lets rank 0 go first)."""
    if isinstance(scope.node, ast.Module):
        return False
    return any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(scope.node))
