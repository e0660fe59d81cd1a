"""Tells what only a run of one rank reaches, by what it asks for, or by a switch that makes the program one rank; and
what only runs of several processes reach.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from dtlint.frameworks.code.ranks import is_alone, is_apart
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.constants import holds
from dtlint.languages.python.places import Place, conditions_at, place_of, site_at
from dtlint.languages.python.program import Program
from dtlint.languages.python.tree import Binding, Guard
from dtlint.source import Span

_RANKS = re.compile(r"(?:.*_)?(?:world_?size|n_?gpus?|num_gpus|nprocs|num_processes|n_?procs)", re.IGNORECASE)
"""Names of the number of ranks."""
_SEVERAL = re.compile(r"(?:is_|use_)?(?:distributed|ddp|multi_?gpu)", re.IGNORECASE)
"""Names of switches that say that there are several ranks."""


def is_for_one_rank(place: Place) -> bool:
    """Whether only runs of one rank reach a place: `world_size == 1`, or `if debug` where the program sets the number
    of ranks to 1 `if debug`.
    """
    if any(is_alone(place, guard) for guard in place.guards):
        return True
    asked = set(_switches(place.guards))
    return bool(asked) and not asked.isdisjoint(_alone_under(place.program))


def is_for_several(program: Program, span: Span) -> bool:
    """Whether only runs of several processes reach a place of a program's files, and none of one by its defaults."""
    module = next((each for each in program.modules.values() if each.source is span.source), None)
    site = site_at(module, span) if module is not None else None
    if module is None or site is None:
        return False
    place = place_of(program, module, site)
    apart = [guard for guard in site.guards if is_apart(place, guard)]
    return bool(apart) and not all(holds(condition) is True for condition in conditions_at(place, tuple(apart)))


def _alone_under(program: Program) -> Iterator[tuple[str, bool]]:
    """The switches under which a program says that there is one rank."""
    for module in program.modules.values():
        for scope in module.scopes:
            for name, bindings in scope.bindings.items():
                for binding in bindings:
                    if binding.guards and _says_one(name.rpartition(".")[2], binding):
                        yield from _switches(binding.guards)


def _says_one(name: str, binding: Binding) -> bool:
    if binding.kind != "value" or binding.path or not isinstance(binding.node, ast.Constant):
        return False
    value = binding.node.value
    return bool(_SEVERAL.fullmatch(name)) if value is False else value == 1 and bool(_RANKS.fullmatch(name))


def _switches(guards: Iterable[Guard]) -> Iterator[tuple[str, bool]]:
    """The last word of each switch that conditions need, and how it stands: `debug` of `if several and cfg.debug`."""
    for guard in guards:
        if guard.test is not None:
            yield from _needed(guard.test, guard.holds)


def _needed(test: ast.expr, holds: bool) -> Iterator[tuple[str, bool]]:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _needed(test.operand, not holds)
    elif isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) is holds:
        for value in test.values:
            yield from _needed(value, holds)
    elif name := dotted(test).rpartition(".")[2]:
        yield name, holds
