"""Contexts that let the first rank through before the others: main_process_first and its kin."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dtlint.frameworks.code.with_blocks import with_blocks
from dtlint.frameworks.pytorch.step_area import called_function
from dtlint.languages.python.bindings import last_word
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import stands
from dtlint.languages.python.tree import Module, Site
from dtlint.record import NamedTuple

_FIRST = re.compile(r"^(\w+_)?(process|zero|rank)_first$")
"""Contexts in front of which all ranks but the first wait in a barrier until it is through, and behind which the first
waits: main_process_first of TrainingArguments and Accelerator (accelerate 1.15.0 state.py, _goes_first),
torch_distributed_zero_first, Fabric's rank_zero_first.
"""
_WAITING = re.compile(r"barrier|wait", re.IGNORECASE)


class Turn(NamedTuple):
    """A `with` statement of such a context, the place of the call that makes it, and whether the context is seen to
    wait, where the program defines it itself.
    """

    place: Place
    node: ast.With
    waits: bool

    def within(self) -> Iterator[Site]:
        """The calls in the body of the statement."""
        first, last = self.node.body[0].lineno, self.node.end_lineno or 0
        calls = (site for site in self.place.scope.sites if isinstance(site.node, ast.Call))
        return (site for site in calls if first <= getattr(site.node, "lineno", 0) <= last)


def turns(program: Program) -> Iterator[Turn]:
    """The statements of such contexts that may be reached."""
    for module in program.modules.values():
        yield from turns_in(program, module)


def turns_in(program: Program, module: Module) -> Iterator[Turn]:
    """Those of one module."""
    for site in (site for name in module.called if _FIRST.search(name) for site in module.called[name]):
        place = place_of(program, module, site)
        node = _statement(place, site)
        if node is not None and stands(place) is not False:
            yield Turn(place, node, _waits(place))


def _waits(place: Place) -> bool:
    own = called_function(place)
    parts = ast.walk(own.scope.node) if own is not None else ()
    calls = (part for part in parts if isinstance(part, ast.Call))
    return own is None or any(_WAITING.search(last_word(call.func)) for call in calls)


def _statement(place: Place, site: Site) -> ast.With | None:
    """The `with` statement whose context a call makes."""
    return next(
        (each for each in with_blocks(place) if any(item.context_expr is site.node for item in each.items)), None
    )
