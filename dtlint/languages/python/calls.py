"""Calls of a program by qualified name, and their arguments, `**kwargs` rebuilt where the program writes them out."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from dtlint.languages.python.constants import merged
from dtlint.languages.python.dicts import Passed, passed_on
from dtlint.languages.python.following import ways
from dtlint.languages.python.names import lookup, qualified
from dtlint.languages.python.places import Place, place_of, unknown
from dtlint.languages.python.program import Program, all_modules
from dtlint.languages.python.tree import Module
from dtlint.record import NamedTuple
from dtlint.source import Span
from dtlint.value import Setting

MAX_CALLS = 300
"""Most calls of one function that are looked at; a training program has a handful."""


class Call(NamedTuple):
    """A call of a known function or class.

    `positional` and `keywords` are its arguments in order of writing; `open` says why more may be passed than is
    known, "" if not; `loops` are the loops and comprehensions around it.
    """

    name: str
    place: Place
    positional: tuple[Passed, ...]
    keywords: Mapping[str, tuple[Passed, ...]]
    open: str
    loops: tuple[ast.AST, ...] = ()

    @property
    def span(self) -> Span:
        """The whole call."""
        return self.place.module.span(self.place.node)

    @property
    def head(self) -> Span:
        """The name that is called."""
        node = self.place.node
        return self.place.module.span(node.func if isinstance(node, ast.Call) else node)


def calls(program: Program, names: Iterable[str]) -> Iterator[Call]:
    """The calls in a program whose function is one of `names`, in text order of each module, at most MAX_CALLS."""
    wanted = frozenset(names)
    last = frozenset(name.rpartition(".")[2] for name in wanted)
    found = (
        place_and_loops
        for module in all_modules(program).values()
        for place_and_loops in _likely(program, module, last)
    )
    named = ((place, called(place), loops) for place, loops in found)
    wanted_calls = (call_at(place, name)._replace(loops=loops) for place, name, loops in named if name in wanted)
    return islice(wanted_calls, MAX_CALLS)


def _likely(program: Program, module: Module, last: frozenset[str]) -> Iterator[tuple[Place, tuple[ast.AST, ...]]]:
    """The calls of a module whose function ends in one of these words, under any name that the file gives to it."""
    sites = {id(site): site for word in last for site in module.called.get(word, ())}
    for site in sorted(
        sites.values(), key=lambda site: (getattr(site.node, "lineno", 0), getattr(site.node, "col_offset", 0))
    ):
        yield place_of(program, module, site), site.loops


def called(place: Place) -> str:
    """The qualified name of what a call calls, through aliases and functools.partial; "" if that is not one thing."""
    if not isinstance(place.node, ast.Call):
        return ""
    names = qualified(place.module, place.node.func, place.scope)
    partial = _partial(place)
    if partial is not None and isinstance(partial.node, ast.Call):
        names = qualified(partial.module, partial.node.args[0], partial.scope)
    return names[0] if len(set(names)) == 1 else ""


def _partial(place: Place) -> Place | None:
    """The `functools.partial(...)` that a called name is bound to."""
    if not isinstance(place.node, ast.Call) or not isinstance(place.node.func, ast.Name):
        return None
    _, bindings = lookup(place.scope, place.node.func.id)
    if not any(binding.kind == "value" and isinstance(binding.node, ast.Call) for binding in bindings):
        return None
    ends = [way.end for way in ways(place.at(place.node.func))]
    return next((end for end in ends if isinstance(end, Place) and _is_partial(end)), None)


def _is_partial(place: Place) -> bool:
    node = place.node
    if not isinstance(node, ast.Call) or not node.args:
        return False
    return qualified(place.module, node.func, place.scope) == ("functools.partial",)


def call_at(place: Place, name: str) -> Call:
    """The call at a place with its arguments, those of a partial included."""
    node = place.node
    if not isinstance(node, ast.Call):
        return Call(name, place, (), {}, "not a call")
    positional, keywords, hidden = _arguments(place, node)
    partial = _partial(place)
    if partial is not None and isinstance(partial.node, ast.Call):
        first, early, hidden_early = _arguments(partial, partial.node)
        return Call(name, place, first[1:] + positional, {**early, **keywords}, hidden or hidden_early)
    return Call(name, place, positional, keywords, hidden)


def _arguments(place: Place, node: ast.Call) -> tuple[tuple[Passed, ...], dict[str, tuple[Passed, ...]], str]:
    hidden = "" if not any(isinstance(item, ast.Starred) for item in node.args) else "a * argument"
    positional = tuple(_passed(place, item) for item in node.args if not isinstance(item, ast.Starred))
    keywords: dict[str, tuple[Passed, ...]] = {}
    for keyword in node.keywords:
        if keyword.arg is not None:
            keywords[keyword.arg] = (_passed(place, keyword.value),)
            continue
        rebuilt = passed_on(place.at(keyword.value))
        if rebuilt is None:
            hidden = f"**{place.module.text(keyword.value, 40)}"
        else:
            keywords.update(rebuilt)
    return positional, keywords, hidden


def _passed(place: Place, node: ast.expr) -> Passed:
    """One argument of a call: a question of its own, whatever the others take."""
    return Passed(place._replace(node=node, budget=place.budget.anew()))


def passed(call: Call, name: str, position: int | None = None) -> tuple[Passed, ...]:
    """The expressions that a call passes for a parameter by name or position; () if it is left out."""
    if name in call.keywords:
        return call.keywords[name]
    if position is not None and position < len(call.positional):
        return (call.positional[position],)
    return ()


def argument(call: Call, name: str, position: int | None = None) -> Setting | None:
    """The value that a call passes for a parameter; None if it is certainly left out, Unknown if the call is open."""
    found = passed(call, name, position)
    if not found:
        return unknown(call.place, f"it may be passed by {call.open}") if call.open else None
    return merged(call.place, found)
