"""How many batches a training loop of its own accumulates, where the code counts them; unknown where it speaks of
accumulation in a way that is not read.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import chain, islice

from dtlint.frameworks import Claim
from dtlint.frameworks.code.accumulated import accumulated
from dtlint.frameworks.code.microsteps import conditions_in, steps_of
from dtlint.frameworks.code.own_batches import stays
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.constants import evaluate
from dtlint.languages.python.places import Budget, Place, place_of
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import stands
from dtlint.languages.python.tree import Scope
from dtlint.source import Span
from dtlint.value import Origin, Unknown, Value

_SETTING = "batch.accumulation"
_HOW = f"--set {_SETTING}=N"
_COUNTS = re.compile(
    r"accum|grad(ient)?s?_acc(?!ur)|(?<![a-z])acc_(steps?|iters?)|update_freq|iter_size", re.IGNORECASE
)
"""What the numbers of batches are called that go into one step of the optimizer."""
_TELLS = re.compile(
    r"accum[a-z]{0,8}_?(steps?|iter|freq|num|factor|count|grad|batches)|(num|n|grads?|gradients?)_?accum"
    r"|grad(ient)?s?_acc(?!ur)|(?<![a-z])acc_(steps?|iters?)|update_freq|iter_size",
    re.IGNORECASE,
)
"""The same where nothing is known of what a name is used for."""

_MOST = 40
"""Most numbers of batches that are worked out."""
_NAMES = ("id", "attr", "arg")
"""Fields of a syntax tree by which names, attributes and arguments are spelled."""


def accumulation_claims(program: Program) -> Iterator[Claim]:
    """The number of batches that all loops tell, else what divides and counts there, and what it is called; nothing
    where each backward pass is followed by a step and no name speaks of it.
    """
    whole = accumulated(program)
    if isinstance(whole, Value) and stays(program, whole):
        yield Claim(_SETTING, whole, "the loop around backward")
        return
    places = islice(chain(_divisors(program), _named(program)), _MOST)
    found = [_number(place) for place in places]
    first = found[0] if found else None
    if isinstance(first, Value) and all(isinstance(each, Value) and each.value == first.value for each in found):
        yield Claim(_SETTING, first, "accumulation")
        return
    unknown = next((each for each in found if isinstance(each, Unknown)), first)
    if unknown is not None:
        reason = unknown.reason if isinstance(unknown, Unknown) else "several numbers of batches are accumulated"
        yield Claim(_SETTING, Unknown(reason, _HOW, unknown.origin), "accumulation")
    elif (told := next(_tellings(program), None)) is not None:
        reason = "the program accumulates in a way that is not read"
        yield Claim(_SETTING, Unknown(reason, _HOW, Origin("written", told)), "accumulation")


def _number(place: Place) -> Value | Unknown:
    value = evaluate(place._replace(budget=Budget(300)))
    if isinstance(value, Value) and type(value.value) is int and value.value > 0 and stays(place.program, value):
        return value
    text, origin = place.module.text(place.node, 60), Origin("written", place.module.span(place.node))
    return Unknown(f"how many batches {text} is, which are accumulated, is not known", _HOW, origin)


def _divisors(program: Program) -> Iterator[Place]:
    """What chooses the turns on which a loop that goes backward steps (`(i + 1) % A == 0`), where all its steps are
    chosen so, and by nothing that the backward pass hangs on too.
    """
    for module in program.modules.values():
        for site in module.called.get("backward", ()):
            place = place_of(program, module, site)
            loop = site.loops[-1] if site.loops else None
            if isinstance(loop, ast.For) and stands(place) is not False:
                chosen = [list(_remainders(place, step, loop)) for step in steps_of(place, loop)]
                yield from (each for found in chosen for each in found) if all(chosen) else ()


def _remainders(backward: Place, step: Place, loop: ast.For) -> Iterator[Place]:
    shared = {id(guard.test) for guard in backward.guards}
    for place, guard in conditions_in(step, loop):
        if guard.test is None or id(guard.test) in shared:
            continue
        for node in ast.walk(guard.test):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
                yield place.at(node.right)


def _named(program: Program) -> Iterator[Place]:
    """What a program divides by, or counts to, that is called a number of accumulated batches."""
    for module in program.modules.values():
        if not _COUNTS.search(module.source.text):
            continue
        for scope in module.scopes:
            yield from (Place(program, module, scope, node) for node in _counts_in(scope))


def _counts_in(scope: Scope) -> Iterator[ast.expr]:
    """The names of numbers of batches that the statements of a scope divide by, or count to."""
    for node in _own_nodes(scope.node):
        yield from _of_accelerator(node)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod | ast.Div | ast.FloorDiv):
            used = node.right
        elif isinstance(node, ast.Call) and dotted(node.func) == "range" and node.args:
            used = node.args[-1]
        else:
            continue
        if _COUNTS.search(dotted(used).rpartition(".")[2]):
            yield used


def _of_accelerator(node: ast.AST) -> Iterator[ast.expr]:
    """The number that an Accelerator is told, be it by a plugin."""
    name = _TOLD.get(dotted(node.func).rpartition(".")[2]) if isinstance(node, ast.Call) else None
    if isinstance(node, ast.Call) and name is not None:
        yield from (keyword.value for keyword in node.keywords if keyword.arg == name)


_TOLD = {"Accelerator": "gradient_accumulation_steps", "GradientAccumulationPlugin": "num_steps"}
"""Classes of Accelerate, and the argument of each that is the number."""


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a scope but for those of the scopes in it."""
    waiting = list(ast.iter_child_nodes(node))
    while waiting:
        here = waiting.pop()
        if not isinstance(here, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield here
            waiting.extend(ast.iter_child_nodes(here))


def _tellings(program: Program) -> Iterator[Span]:
    """Names and flags that speak of accumulated batches."""
    for module in program.modules.values():
        if _TELLS.search(module.source.text):
            yield from (module.span(node) for node in ast.walk(module.top.node) if _TELLS.search(_spelled(node)))


def _spelled(node: ast.AST) -> str:
    """What a node is called: a name, an argument, or the flag that a text is."""
    if isinstance(node, ast.Constant):
        text = node.value if isinstance(node.value, str) else ""
        return text.replace("-", "_") if text.startswith("--") else ""
    return next((found for name in _NAMES if isinstance(found := getattr(node, name, None), str)), "")
