"""Reads activation checkpointing out of Python: wrappers, `torch.utils.checkpoint`, Hugging Face models' switch."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtlint.frameworks import Claim
from dtlint.frameworks.torch_names import CHECKPOINT_WRAPPERS, CHECKPOINTS, SELECTIVE_POLICIES
from dtlint.languages.python.calls import calls
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Program, sites
from dtlint.languages.python.reach import reach, stands
from dtlint.source import Span
from dtlint.value import Choice, Option, Origin, Unknown, Value

_SWITCH = "gradient_checkpointing_enable"


def checkpointing_claims(program: Program) -> tuple[Claim, ...]:
    """`checkpointing.activations` where the program turns it on; an open condition makes a choice with "none"."""
    possible = [(place, span) for place, span in _places(program) if stands(place) is not False]
    if not possible:
        return ()
    certain = next(((place, span) for place, span in possible if stands(place)), None)
    place, span = certain or possible[0]
    turned_on = _extent(program, span)
    if certain is not None:
        return (Claim("checkpointing.activations", turned_on, span.text),)
    condition = reach(place).condition
    off = Value("none", Origin("written", span))
    value = Choice((Option(condition, turned_on), Option(f"not ({condition})", off)))
    return (Claim("checkpointing.activations", value, span.text),)


def _places(program: Program) -> Iterator[tuple[Place, Span]]:
    for call in calls(program, (*CHECKPOINT_WRAPPERS, *CHECKPOINTS)):
        yield call.place, call.head
    for module in program.modules.values():
        if _SWITCH not in module.source.text:
            continue
        for site in sites(module):
            node = site.node
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == _SWITCH:
                yield place_of(program, module, site), module.span(node.func)


def _extent(program: Program, span: Span) -> Value | Unknown:
    """All activations are dropped and computed again ("full"), unless a policy picks what is kept ("selective")."""
    policies = [stands(call.place) for call in calls(program, SELECTIVE_POLICIES)]
    if any(policies):
        return Value("selective", Origin("written", span))
    if None in policies:
        return Unknown("a condition decides between full and selective checkpointing", "", Origin("written", span))
    return Value("full", Origin("written", span))
