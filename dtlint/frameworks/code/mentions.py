"""Words that a program writes anywhere, which keep a collector from saying what it cannot be certain of."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice

from dtlint.frameworks.code.ranks import is_rank
from dtlint.languages.python.callers import callers
from dtlint.languages.python.following import ways
from dtlint.languages.python.imported import MAX_MODULES
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Definition, Program
from dtlint.languages.python.reach import enclosing_function
from dtlint.languages.python.tree import Module, Site
from dtlint.source import Source

_MAX_LEVELS = 2
_MAX_CALLERS = 6


def mentions(program: Program, words: re.Pattern[str]) -> bool:
    """Whether any file of the program holds one of the words; one that was not read to its end may."""
    return len(program.modules) >= MAX_MODULES or any(
        _holds(module.source, words) for module in program.modules.values()
    )


@lru_cache(maxsize=1 << 14)
def _holds(source: Source, words: re.Pattern[str]) -> bool:
    """Whether a file holds one of the words: searched once, however many programs the file is part of."""
    return words.search(source.text) is not None


def holds_rank(place: Place) -> bool:
    """Whether an expression holds the number of this rank."""
    names = (node for node in ast.walk(place.node) if isinstance(node, ast.Name | ast.Attribute | ast.Call))
    return any(is_rank(place.at(node), 0) for node in names)


def picked_by_rank(place: Place, levels: int) -> bool:
    """Whether the number of the rank goes into an expression, also by way of the names in it."""
    if holds_rank(place):
        return True
    names = [node for node in ast.walk(place.node) if isinstance(node, ast.Name)] if levels else []
    ends = (way.end for name in names for way in ways(place.at(name)))
    return any(isinstance(end, Place) and end.node not in names and picked_by_rank(end, levels - 1) for end in ends)


def passes(program: Program) -> Iterator[tuple[Place, Site]]:
    """The backward passes of a program, and the calls that lead to them by way of its functions."""
    for module in program.modules.values():
        for site in module.called.get("backward", ()):
            yield from leading_to(program, module, site, _MAX_LEVELS)


def leading_to(program: Program, module: Module, site: Site, levels: int) -> Iterator[tuple[Place, Site]]:
    """A call, and the calls that lead to it by way of functions of the program."""
    yield place_of(program, module, site), site
    function = enclosing_function(site.scope)
    if function is None or not levels:
        return
    for caller, call in islice(callers(program, Definition(module, function)), _MAX_CALLERS):
        if enclosing_function(call.scope) is not function:
            yield from leading_to(program, caller, call, levels - 1)


def turned_over(site: Site) -> Iterator[ast.expr]:
    """What the loops around a call turn over, `enumerate` and progress bars taken off."""
    return (bare(loop.iter) for loop in site.loops if isinstance(loop, ast.For))


def bare(node: ast.expr) -> ast.expr:
    """What a loop turns over, without `enumerate` and progress bars around it."""
    while isinstance(node, ast.Call) and node.args and _hands_on(node.func):
        node = node.args[0]
    return node


def _hands_on(function: ast.expr) -> bool:
    last = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return last in ("enumerate", "tqdm", "track", "iter", "log_every")
