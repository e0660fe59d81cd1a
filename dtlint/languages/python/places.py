"""An expression where it stands, and the ways from it to what it can mean."""

from __future__ import annotations

import ast

from dtlint.languages.python.program import Program
from dtlint.languages.python.tree import Guard, Module, Scope, Site
from dtlint.record import NamedTuple
from dtlint.source import Span
from dtlint.value import Origin, Step, Unknown

MAX_STEPS = 2_000
"""Most expressions visited for one question; a hostile file can double the ways at each line."""

MAX_DEPTH = 24
"""Most expressions that lead one to the other."""


class Budget:
    """Steps left for one question, and what it has found out so far: about conditions, and about names (`memo`).

    `closed`: a class whose name a function's annotation returns where the function is not to be entered.
    """

    __slots__ = ("closed", "left", "memo", "verdicts")

    def __init__(self, left: int = MAX_STEPS, closed: str = "", whole: Budget | None = None) -> None:
        self.left = left
        self.closed = closed
        self.verdicts: dict[tuple[int, ...], bool | None] = {} if whole is None else whole.verdicts
        self.memo: dict[tuple[str, int, str], object] = {} if whole is None else whole.memo

    def part(self, most: int) -> Budget:
        """At most so many steps, for a part of the question; it knows what the whole has found out."""
        return Budget(min(most, self.left), self.closed, self)

    def anew(self) -> Budget:
        """The same knowledge with all steps to spend, for the next question (another argument of one call)."""
        fresh = Budget(MAX_STEPS, self.closed)
        fresh.verdicts = self.verdicts
        return fresh

    def spend(self) -> bool:
        """Take one step; False when none is left."""
        self.left -= 1
        return self.left >= 0


class Frame(NamedTuple):
    """A function entered through one call: its parameters are the arguments of `call`."""

    scope: Scope
    call: Place


class Place(NamedTuple):
    """An expression where it stands. `chain` leads from the place of use to it; `depth` counts the steps taken."""

    program: Program
    module: Module
    scope: Scope
    node: ast.AST
    guards: tuple[Guard, ...] = ()
    frames: tuple[Frame, ...] = ()
    chain: tuple[Step, ...] = ()
    budget: Budget = Budget(0)
    depth: int = 0

    def at(self, node: ast.AST) -> Place:
        """Another expression of the same statement."""
        return self._replace(node=node)

    def inner(self, node: ast.AST) -> Place:
        """A part of this expression, one step deeper: chains of steps are bounded."""
        return self._replace(node=node, depth=self.depth + 1)


class Condition(NamedTuple):
    """A guard and a place in its scope, from which its test can be evaluated; `said` words one that is no test of the
    program (which of several calls, which turn of a loop).
    """

    guard: Guard
    place: Place
    said: str = ""

    @property
    def text(self) -> str:
        """The condition as people read it."""
        return self.said or guard_text(self.place.module, self.guard)


class Way(NamedTuple):
    """One expression that is reached, and under which conditions; or why none is. `assumed`: why it may differ."""

    conditions: tuple[Condition, ...]
    end: Place | Unknown
    assumed: str = ""


def place_of(program: Program, module: Module, site: Site) -> Place:
    """A site as a place to follow expressions from."""
    return Place(program, module, site.scope, site.node, site.guards, budget=Budget())


def site_at(module: Module, span: Span) -> Site | None:
    """The innermost site of a file that a place lies in."""
    sites = ((module.span(site.node), site) for scope in module.scopes for site in scope.sites)
    around = [(found.end - found.start, site) for found, site in sites if found.start <= span.start < found.end]
    return min(around, key=lambda each: each[0])[1] if around else None


def unknown(place: Place, reason: str, means: str = "") -> Unknown:
    """Not known, for a reason, at a place."""
    return Unknown(reason, "", Origin("written", place.module.span(place.node), place.chain), means)


def conditions_at(place: Place, guards: tuple[Guard, ...]) -> tuple[Condition, ...]:
    """Guards as conditions that can be evaluated where they stand."""
    return tuple(Condition(guard, place._replace(depth=place.depth + 1)) for guard in guards)


def one_of_several(place: Place, said: str) -> Condition:
    """A condition that no test of the program decides, in words."""
    return Condition(Guard(None, True), place, said)


def guard_text(module: Module, guard: Guard) -> str:
    """A condition as people read it."""
    if guard.test is None:
        return "in another branch"
    text = ast.unparse(guard.test) if _is_of_match(guard.test) else module.text(guard.test)
    return text if guard.holds else f"not ({text})"


def _is_of_match(test: ast.expr) -> bool:
    """Whether a test is that of a `case`, whose subject stands before it."""
    first = test.values[0] if isinstance(test, ast.BoolOp) else test
    return isinstance(first, ast.Compare) and first.left.lineno < first.lineno
