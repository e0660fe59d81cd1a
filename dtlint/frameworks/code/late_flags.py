"""Finds the flag by which DDP exchanges set after the forward pass, which reads it: `code.late_flags`."""

from __future__ import annotations

import ast

from dtlint.frameworks import Member
from dtlint.frameworks.code.floored_batches import shared_among_ranks
from dtlint.frameworks.code.microsteps import Flag, flags
from dtlint.frameworks.code.objects import wrapped_kinds
from dtlint.frameworks.code.passes import runs_forward
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.constants import evaluate
from dtlint.languages.python.following import ways
from dtlint.languages.python.places import Budget, Place
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import stands
from dtlint.value import Setting, Unknown, Value, written


def late_flags(program: Program) -> tuple[Member, ...]:
    """`require_backward_grad_sync` set between the forward and the backward pass: DDP read it in the forward pass.
    `batches` is the number of micro-batches of a step, where the files tell it; `total`, `each` and `least` are where
    the number of ranks decides (`total // (each * ranks)`).
    """
    found = []
    every = tuple(flags(program))
    for flag in every if not all(map(_is_on, every)) else ():
        model, around = dotted(flag.at.value), flag.loops[-1] if flag.loops else None
        forward = [node for node in _calls_in(around) if runs_forward(flag.place, node, model)]
        if len(forward) == 1 and _stands_between(flag.place.node, forward[0], _calls_in(around)):
            of_model = flag.place.at(flag.at.value)
            if wrapped_kinds(of_model) == {"ddp"} and stands(flag.place) is not False:
                span = flag.place.module.span(flag.place.node)
                related = ((flag.place.module.span(forward[0]), "the forward pass, which decides"),)
                found.append(Member(span, {"model": written(model, span), **_batches(flag, around)}, related))
    return tuple(found)


def _is_on(flag: Flag) -> bool:
    """Whether a flag is set to what it is anyway."""
    return isinstance(flag.value, ast.Constant) and flag.value.value is True


def _batches(flag: Flag, around: ast.AST | None) -> dict[str, Setting]:
    """How many micro-batches a step has, by the turns of the loop or by what the flag divides them by."""
    turned = [each for each in (_turns(around), *_divisors(flag.value)) if each is not None]
    ends = [way.end for each in turned[:1] for way in ways(flag.place.at(each)._replace(guards=(), budget=Budget()))]
    end = ends[0] if len(ends) == 1 else None
    unknown: dict[str, Setting] = dict.fromkeys(("batches", "total", "each", "least"), Unknown("no number is told"))
    if not isinstance(end, Place):
        return unknown
    number, shared = evaluate(end._replace(budget=Budget())), shared_among_ranks(end)
    if isinstance(number, Value) and isinstance(number.value, int):
        return {**unknown, "batches": number}
    return unknown if shared is None else {**unknown, **shared.fields}


def _turns(loop: ast.AST | None) -> ast.expr | None:
    """What a loop counts up to: `for i in range(steps)`."""
    call = loop.iter if isinstance(loop, ast.For) else None
    counts = isinstance(call, ast.Call) and dotted(call.func) == "range" and len(call.args) == 1
    return call.args[0] if counts and isinstance(call, ast.Call) else None


def _divisors(value: ast.expr) -> list[ast.expr]:
    """The divisors of remainders: `(i + 1) % steps == 0`."""
    operations = (node for node in ast.walk(value) if isinstance(node, ast.BinOp))
    return [node.right for node in operations if isinstance(node.op, ast.Mod)]


def _calls_in(loop: ast.AST | None) -> list[ast.Call]:
    return [node for node in ast.walk(loop) if isinstance(node, ast.Call)] if loop is not None else []


def _stands_between(flag: ast.AST, forward: ast.Call, inside: list[ast.Call]) -> bool:
    """Whether a flag is set after the forward pass and before a backward pass of the same turn."""
    line = getattr(flag, "lineno", 0)
    backward = [node for node in inside if isinstance(node.func, ast.Attribute) and node.func.attr == "backward"]
    return forward.lineno < line and any(node.lineno > line for node in backward)
