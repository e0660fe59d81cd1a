"""Finds ranks that destroy the process group before they leave a loop, and once more behind it.

The second call finds no group and raises an error (torch/distributed/distributed_c10d.py, destroy_process_group: a
RuntimeError, since torch 2.0 an AssertionError or ValueError): the process fails, and its launcher ends the others.
"""

from __future__ import annotations

import ast

from dtlint.languages.python.tree import Guard, Module, Site
from dtlint.source import Span

_DESTROYS = "destroy_process_group"
_ASKS = "is_initialized"


def torn_down_again(module: Module, leaving: ast.stmt, guards: tuple[Guard, ...]) -> Span | None:
    """Where the group is destroyed again behind a loop, by a rank that does so before it leaves the loop; None where it
    does not, or asks whether there is a group.
    """
    sites = module.called.get(_DESTROYS, ())
    first = next((each for each in sites if _is_before(each, leaving, guards)), None)
    if first is None:
        return None
    end = getattr(first.loops[-1], "end_lineno", 0)
    again = (each.node for each in sites if _line(each) > end and _is_met(module, each, first))
    return next(map(module.span, again), None)


def _is_before(site: Site, leaving: ast.stmt, guards: tuple[Guard, ...]) -> bool:
    """Whether a call stands before an exit, under the same conditions at least."""
    tests = {id(guard.test) for guard in site.guards}
    under = bool(guards) and all(id(guard.test) in tests for guard in guards)
    return under and bool(site.loops) and _line(site) < leaving.lineno


def _is_met(module: Module, site: Site, first: Site) -> bool:
    """Whether whoever comes to the first call comes to this one, by its conditions."""
    met = {(module.text(each.test), each.holds) for each in first.guards if each.test is not None}
    asked = {(module.text(each.test), each.holds) for each in site.guards if each.test is not None}
    whole = site.scope is first.scope and not site.loops and all(each.test is not None for each in site.guards)
    return whole and asked <= met and not any(_ASKS in text for text, _ in asked)


def _line(site: Site) -> int:
    return getattr(site.node, "lineno", 0)
