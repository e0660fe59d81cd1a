"""Finds collectives behind conditions that rest on what only some ranks know: parts of `code.divergences`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from itertools import islice

from dtlint.frameworks.code.batch_contents import own_batch
from dtlint.frameworks.code.collected import collected
from dtlint.frameworks.code.collective_names import WORDS
from dtlint.frameworks.code.guarded import left_out
from dtlint.frameworks.code.partial_values import Partial, known_in_part
from dtlint.frameworks.code.ranks import asks_for_ranks, side_of
from dtlint.frameworks.code.reached import Reached, Search, first_only
from dtlint.languages.python.bindings import last_word
from dtlint.languages.python.places import Budget, Place, place_of
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import stands
from dtlint.languages.python.sharing import kept
from dtlint.languages.python.tree import Guard, Scope, Site
from dtlint.record import NamedTuple

MAX_FOUND = 30
Ask = Callable[[Place], Partial | None]
WHY: Mapping[str, str] = {
    "partial": "what only some ranks set",
    "reduced": "a sum that dist.reduce leaves with one rank",
    "dealt": "what this rank measured on its own share of the samples",
    "picked": "what the samples of this rank's own batch hold",
    "collected": "what this rank has collected, by what the samples of its own batches hold",
    "loss": "the loss of this rank's own batch",
    "raised": "an exception that this rank's own batch raises",
    "bar": "the count of a progress bar that the other ranks disable",
}
"""What a condition rests on, by the cause of the difference."""


class Missed(NamedTuple):
    """A call that leads to a collective behind a condition (`guard`) which does not hold on all ranks, and why."""

    place: Place
    guard: Guard
    reached: Reached
    partial: Partial


def missed_collectives(program: Program) -> tuple[Missed, ...]:
    """The first call behind each such condition."""
    return tuple(islice(_missed(program, _known_by_some), MAX_FOUND))


def _known_by_some(test: Place) -> Partial | None:
    return known_in_part(test) or _by_batch(test)


def missed_by_batch(program: Program) -> tuple[Missed, ...]:
    """The first call behind each condition on what a rank's own batch holds."""
    return tuple(islice(_missed(program, _by_batch), MAX_FOUND))


def _by_batch(test: Place) -> Partial | None:
    return own_batch(test) or collected(test)


def _missed(program: Program, ask: Ask) -> Iterator[Missed]:
    search = Search(program)
    told: set[int] = set()
    words = WORDS.union(name.rpartition(".")[2] for module in program.modules.values() for name in module.definitions)
    for module in program.modules.values():
        for scope in module.scopes:
            causes: dict[int, Partial | None] = {}
            for site in _sites(scope, words):
                if all(id(guard.test) in causes and causes[id(guard.test)] is None for guard in site.guards):
                    continue
                place = place_of(program, module, site)
                found = next((guard for guard in site.guards if _cause(place, guard, causes, ask) is not None), None)
                if found is None or id(found.test) in told or _is_for_some(place):
                    continue
                reached = left_out(search, place, found)
                partial = _cause(place, found, causes, ask)
                if reached is not None and partial is not None and stands(place) is not False:
                    told.add(id(found.test))
                    yield Missed(place, found, reached, partial)


def _sites(scope: Scope, words: frozenset[str]) -> Iterator[Site]:
    """The calls of a function behind conditions that end in one of the words; none where it is for the first rank."""
    calls = (site for site in scope.sites if site.guards and isinstance(site.node, ast.Call))
    yield from (site for site in calls if _called_word(site) in words and first_only(scope) is None)


def _called_word(site: Site) -> str:
    return last_word(site.node.func) if isinstance(site.node, ast.Call) else ""


def _cause(place: Place, guard: Guard, known: dict[int, Partial | None], ask: Ask) -> Partial | None:
    """Why a condition holds on some ranks only."""
    if guard.test is None:
        return None
    if id(guard.test) not in known:
        asked = place._replace(node=guard.test, guards=(), budget=Budget())
        known[id(guard.test)] = _asked(asked, ask)
    return known[id(guard.test)]


def _asked(test: Place, ask: Ask) -> Partial | None:
    """What is asked of a condition; or what was found for another launch of the script, if that answers alike."""
    program = test.program
    key = (ask.__name__, program.entry, program.main.top, test.module.name, test.scope, test.node)
    return kept(program, key, lambda: ask(test), lambda: test.budget.left >= 0)


def _is_for_some(place: Place) -> bool:
    """Whether a condition around names the ranks that pass, or that there is one rank: that is another mistake, or
    none.
    """
    return any(bool(side_of(place, guard)) or asks_for_ranks(place, guard) for guard in place.guards)
