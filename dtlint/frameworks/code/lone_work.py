"""Finds long work of one rank for which the others wait in a barrier: `code.lone_work`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dtlint.frameworks import Member
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.code.ranks import side_of
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import stands
from dtlint.languages.python.tree import Site

_WAITS = ("barrier", "wait_for_everyone")
_LONG = re.compile(
    r"^(map|save_to_disk|load_dataset|snapshot_download|download\w*|preprocess\w*|tokeni[sz]e\w*|build_(index|dataset|data)\w*"
    r"|prepare_(data|dataset)\w*|convert_\w+)$"
)
"""Names of functions that go over a whole data set, or fetch one: minutes to hours."""


def lone_work(program: Program) -> tuple[Member, ...]:
    """The collection `code.lone_work`: `call`, what the first rank does behind a condition before a barrier of all."""
    return tuple(member for place, wait in _waits(program) for member in _before(place, wait))


def _waits(program: Program) -> Iterator[tuple[Place, Site]]:
    for module in program.modules.values():
        for name in _WAITS:
            for site in module.called.get(name, ()):
                place = place_of(program, module, site)
                if stands(place) is not False and not any(side_of(place, guard) for guard in site.guards):
                    yield place, site


def _before(barrier: Place, wait: Site) -> Iterator[Member]:
    """The long calls of the first rank that stand before a barrier in the same function."""
    for site in barrier.scope.sites:
        node = site.node
        if not isinstance(node, ast.Call) or node.lineno >= getattr(wait.node, "lineno", 0):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else dotted(node.func).rpartition(".")[2]
        place = place_of(barrier.program, barrier.module, site)
        if _LONG.search(name) and any(side_of(place, guard) == "first" for guard in site.guards):
            span = place.module.span(node)
            related = ((barrier.module.span(wait.node), "the others wait here"),)
            yield Member(span, texts(span, call=name), related)
