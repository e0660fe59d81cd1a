"""Tells where DDP leaves the broadcast of the buffers out of a forward pass: behind one without gradients."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dtlint.frameworks.code.ranks import side_of
from dtlint.frameworks.code.reached import Search, asks_for_several
from dtlint.frameworks.pytorch.step_area import called_function
from dtlint.languages.python.bindings import last_word
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.tree import Site

_NO_GRADIENTS = re.compile(r"\bno_grad\b|\binference_mode\b|set_grad_enabled\(False\)")
_BACKWARD = re.compile(r"\bbackward\(")
_EVALUATES = re.compile(r"eval|valid|test|infer|predict|sampl|generat", re.IGNORECASE)
"""Words of functions out of sight that run a model without gradients."""
_MOST = 20_000
"""Most of a function's text that is looked at."""


def follows_silent(search: Search, place: Place) -> bool:
    """Whether the last forward pass before a call, on all ranks and in the same turn, has no gradients: the next one
    then broadcasts no buffers (torch/nn/parallel/distributed.py, _post_forward sets require_forward_param_sync to
    False).
    """
    before = max(_before(search, place), key=lambda site: getattr(site.node, "lineno", 0), default=None)
    return before is not None and _is_silent(place_of(search.program, place.module, before))


def _before(search: Search, place: Place) -> Iterator[Site]:
    """The calls in front of a place that run its model, or are given what it is given, on all ranks."""
    loops = next((site.loops for site in place.scope.sites if site.node is place.node), ())
    outer = {id(guard.test) for guard in place.guards}
    line = getattr(place.node, "lineno", 0)
    names = _given(place.node)
    for site in place.scope.sites:
        if not isinstance(site.node, ast.Call) or site.loops[: len(loops)] != loops or _end(site.node) >= line:
            continue
        here = place_of(search.program, place.module, site)
        if any(side_of(here, guard) for guard in site.guards):
            continue
        if all(id(guard.test) in outer or asks_for_several(here, guard) for guard in site.guards) and (
            names & _given(site.node) or "forward" in search.operations(here)
        ):
            yield site


def _given(node: ast.AST) -> frozenset[str]:
    """The names that a call is given."""
    given = [*node.args, *(keyword.value for keyword in node.keywords)] if isinstance(node, ast.Call) else []
    return frozenset(part.id for item in given for part in ast.walk(item) if isinstance(part, ast.Name))


def _end(node: ast.Call) -> int:
    return node.end_lineno or node.lineno


def _is_silent(call: Place) -> bool:
    helper = called_function(call)
    if helper is not None:
        text = " ".join(helper.module.text(part, _MOST) for part in _decorated(helper.scope.node))
        return bool(_NO_GRADIENTS.search(text)) and not _BACKWARD.search(text)
    around = (node for node in ast.walk(call.scope.node) if isinstance(node, ast.With) and call.node in ast.walk(node))
    contexts = (call.module.text(item.context_expr) for node in around for item in node.items)
    name = last_word(call.node.func) if isinstance(call.node, ast.Call) else ""
    return any(map(_NO_GRADIENTS.search, contexts)) or bool(_EVALUATES.search(name))


def _decorated(node: ast.AST) -> Iterator[ast.AST]:
    yield from node.decorator_list if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else ()
    yield node
