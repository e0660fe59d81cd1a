"""Tells whether an engine of ignite computes metrics where it runs, which sum over all ranks."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtlint.frameworks.code.objects import makers
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.calls import call_at, called, passed
from dtlint.languages.python.following import ways
from dtlint.languages.python.names import lookup
from dtlint.languages.python.places import Budget, Place, place_of
from dtlint.languages.python.program import imports_from

_EVALUATOR = "create_supervised_evaluator"
_PACKAGES = ("ignite.engine", "ignite.engine.engine")
_ENGINES = frozenset(
    f"{package}.{name}"
    for package in _PACKAGES
    for name in (_EVALUATOR, "create_supervised_trainer", "Engine", "DeterministicEngine")
)
_METRICS = ("ignite.metrics.", "ignite.contrib.metrics.")
_OF_ITS_OWN = frozenset(("GpuInfo", "CpuInfo"))
"""Metrics that each rank keeps for itself; `compute` of the others sums over the ranks (sync_all_reduce, or a gather),
as soon as there are several.
"""


def runs_metrics(engine: Place) -> bool:
    """Whether an object is an engine of ignite that was given metrics when it was made, or to which some were attached
    in its file.
    """
    made = [maker.call for maker in makers(engine)] if imports_from(engine.program, "ignite") else []
    if not made or not all(call is not None and called(call) in _ENGINES for call in made):
        return False
    return _is_attached(engine) or all(call is not None and _is_given_metrics(call) for call in made)


def _is_given_metrics(made: Place) -> bool:
    """`create_supervised_evaluator(model, metrics={"accuracy": Accuracy()})`"""
    name = called(made)
    given = passed(call_at(made, name), "metrics", 1) if name.endswith(_EVALUATOR) else ()
    return any(_are_metrics(item.place) for item in given)


def _is_attached(engine: Place) -> bool:
    """`Accuracy().attach(evaluator, "accuracy")`, also of each of several in a loop."""
    for site in engine.module.called.get("attach", ()):
        node = site.node
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            place = place_of(engine.program, engine.module, site)
            if dotted(node.args[0]) == dotted(engine.node) and any(
                map(_are_metrics, _attached(place, node.func.value))
            ):
                return True
    return False


def _attached(place: Place, metric: ast.expr) -> Iterator[Place]:
    """A metric, or what the loop turns over that it is a variable of."""
    loops = [binding.node for binding in lookup(place.scope, dotted(metric))[1] if binding.kind == "loop"]
    for turned in loops or [metric]:
        if isinstance(turned, ast.Call) and isinstance(turned.func, ast.Attribute) and loops:
            yield place.at(turned.func.value)
        elif turned is not None:
            yield place.at(turned)


def _are_metrics(place: Place) -> bool:
    """Whether an expression is a metric that sums over the ranks, or certainly holds one."""
    ends = [way.end for way in ways(place._replace(guards=(), budget=Budget()))]
    return bool(ends) and all(isinstance(end, Place) and any(map(_is_metric, _held(end))) for end in ends)


def _held(place: Place) -> Iterator[Place]:
    """The items of a dict, a list or a tuple, of anything else itself."""
    node = place.node
    if isinstance(node, ast.Dict):
        yield from map(place.at, node.values)
    elif isinstance(node, ast.List | ast.Tuple):
        yield from map(place.at, node.elts)
    else:
        yield place


def _is_metric(place: Place) -> bool:
    made = [maker.call for maker in makers(place._replace(budget=Budget()))]
    names = [called(call) for call in made if call is not None]
    return bool(names) and len(names) == len(made) and all(map(_sums, names))


def _sums(name: str) -> bool:
    return name.startswith(_METRICS) and name.rpartition(".")[2] not in _OF_ITS_OWN
