"""Finds long work of one rank for which the others wait in a barrier: `code.lone_work`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dtlint.frameworks import Member
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.code.ranks import side_of
from dtlint.frameworks.code.turns import turns
from dtlint.frameworks.pytorch.step_area import called_function
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import stands
from dtlint.languages.python.tree import Site

_WAITS = ("barrier", "wait_for_everyone")
_LONG = re.compile(
    r"^(map|save_to_disk|load_dataset|snapshot_download|download\w*|preprocess\w*|tokeni[sz]e(?!r)\w*|build_(index|dataset|data)\w*"
    r"|prepare_(data|dataset)\w*|convert_\w+)$"
)
"""Names of functions that go over a whole data set, or fetch one: minutes to hours."""
_SMALL = frozenset(
    {
        "MNIST",
        "FashionMNIST",
        "KMNIST",
        "USPS",
        "CIFAR10",
        "CIFAR100",
        "WikiText2",
        "PennTreebank",
        "AG_NEWS",
        "IMDB",
    }
)
"""Classes and functions of torchvision.datasets and torchtext.datasets that fetch an archive of at most 170 MB
(CIFAR-10; WikiText-2 has 4 MB): seconds, and once it is there no more than a look at its checksum.
"""


def lone_work(program: Program) -> tuple[Member, ...]:
    """The collection `code.lone_work`: `call`, what the first rank does before a barrier of all, behind a condition or
    in a context that lets it go first.
    """
    behind = (member for place, wait in _waits(program) for member in _before(place, wait))
    return (*behind, *_first_turns(program))


def _first_turns(program: Program) -> Iterator[Member]:
    """The long calls in contexts that let the first rank through before the others."""
    for turn in turns(program):
        for site in turn.within():
            if isinstance(site.node, ast.Call) and _takes_long(turn.place, site.node):
                span = turn.place.module.span(site.node)
                related = ((turn.place.module.span(turn.node.items[0].context_expr), "the others wait here"),)
                yield Member(span, texts(span, call=_name(site.node)), related)


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
        name = _name(node)
        place = place_of(barrier.program, barrier.module, site)
        if any(side_of(place, guard) == "first" for guard in site.guards) and _takes_long(place, node):
            span = place.module.span(node)
            related = ((barrier.module.span(wait.node), "the others wait here"),)
            yield Member(span, texts(span, call=name), related)


def _takes_long(place: Place, call: ast.Call) -> bool:
    """Whether a call goes over a whole data set, by its name, unless it is a function here that only fetches small
    ones.
    """
    if not _LONG.search(_name(call)):
        return False
    helper = called_function(place.at(call))
    parts = list(ast.walk(helper.scope.node)) if helper is not None else []
    named = {dotted(part).rpartition(".")[2] for part in parts if isinstance(part, ast.Name | ast.Attribute)}
    further = any(isinstance(part, ast.Call) and _LONG.search(_name(part)) for part in parts)
    return further or _SMALL.isdisjoint(named)


def _name(call: ast.Call) -> str:
    """The last word of what is called."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else dotted(call.func).rpartition(".")[2]
