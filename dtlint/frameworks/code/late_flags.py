"""Finds the flag by which DDP exchanges set after the forward pass, which reads it: `code.late_flags`."""

from __future__ import annotations

import ast

from dtlint.frameworks import Member
from dtlint.frameworks.code.microsteps import flags
from dtlint.frameworks.code.objects import wrapped_kinds
from dtlint.frameworks.code.passes import runs_forward
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import stands
from dtlint.value import written


def late_flags(program: Program) -> tuple[Member, ...]:
    """`require_backward_grad_sync` set between the forward and the backward pass: DDP read it in the forward pass."""
    found = []
    for flag in flags(program):
        model, around = dotted(flag.at.value), flag.loops[-1] if flag.loops else None
        forward = [node for node in _calls_in(around) if runs_forward(flag.place, node, model)]
        if len(forward) == 1 and _stands_between(flag.place.node, forward[0], _calls_in(around)):
            of_model = flag.place.at(flag.at.value)
            if wrapped_kinds(of_model) == {"ddp"} and stands(flag.place) is not False:
                span = flag.place.module.span(flag.place.node)
                related = ((flag.place.module.span(forward[0]), "the forward pass, which decides"),)
                found.append(Member(span, {"model": written(model, span)}, related))
    return tuple(found)


def _calls_in(loop: ast.AST | None) -> list[ast.Call]:
    return [node for node in ast.walk(loop) if isinstance(node, ast.Call)] if loop is not None else []


def _stands_between(flag: ast.AST, forward: ast.Call, inside: list[ast.Call]) -> bool:
    """Whether a flag is set after the forward pass and before a backward pass of the same turn."""
    line = getattr(flag, "lineno", 0)
    backward = [node for node in inside if isinstance(node.func, ast.Attribute) and node.func.attr == "backward"]
    return forward.lineno < line and any(node.lineno > line for node in backward)
