"""Reads the switches that a program sets for itself: environment variables of NCCL and CUDA, and anomaly detection."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import partial
from typing import cast

from dtlint.frameworks import Member, Reading
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.environment import EXPECTED, PREFIXES, members_of
from dtlint.languages.python.bindings import ENVIRONMENTS, dotted
from dtlint.languages.python.calls import argument, calls
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Program, is_entry, of_file
from dtlint.languages.python.reach import reach, stands
from dtlint.languages.python.tree import Module, Scope, Site
from dtlint.record import NamedTuple
from dtlint.source import Span
from dtlint.value import Origin, Setting, Unknown, Value, written

LAYER = "environment-python"
ANOMALY = ("torch.autograd.set_detect_anomaly", "torch.autograd.detect_anomaly")

THREADS = "torch.set_num_threads"
"""What does for torch's own threads what OMP_NUM_THREADS does."""
SHARED_OUT = tuple(
    f"torchtune.{module}.set_torch_num_threads" for module in ("training", "training._distributed", "utils")
)
"""What gives torch the cores of the machine over its processes (torchtune training/_distributed.py)."""

_AND, _IS_CALLED = " and ", " is called"
"""What joins the parts of a condition under which a statement is reached, and what one ends in of which no call is
seen.
"""

READ_ON_IMPORT = frozenset(("TORCH_DISTRIBUTED_DEBUG",))
"""Variables that torch reads when it is imported (torch/distributed/__init__.py, set_debug_level_from_env, since 1.11):
what a program sets later changes nothing.
"""

_SETTING = ("update", "setdefault")
"""Methods of os.environ that set variables."""


class _Set(NamedTuple):
    """A statement that sets a variable."""

    name: str
    value: Setting
    statement: ast.stmt
    scope: Scope


def read(program: Program) -> Reading:
    """The collections `launch.environment` and `launch.debugging`, as far as the program adds to them."""
    found = [
        (each.name, each.value, module.span(each.statement))
        for module in program.modules.values()
        for each in of_file(program, "variables", module.top, partial(_variables, module))
        if _counts(program, module, each)
    ]
    collections = members_of((*found, *_threads(program)))
    debugging = (*collections.get("launch.debugging", ()), *_anomalies(program))
    return Reading(LAYER, collections={**collections, "launch.debugging": debugging} if debugging else collections)


def assigned(program: Program, name: str) -> Iterator[Value]:
    """What statements that are known to run set a variable to, whatever the launch has set."""
    for module in program.modules.values():
        for each in _set_in(module) if name in module.source.text else ():
            known = each.name == name and isinstance(each.value, Value) and not _is_fallback(each.statement)
            if known and _counts(program, module, each):
                yield cast("Value", each.value)


def worked_out(program: Program, name: str) -> Iterator[Place]:
    """The expressions, texts aside, to which statements that are known to run set a variable."""
    for module in program.modules.values():
        for scope in module.scopes if name in module.source.text else ():
            for statement in _body(scope) if isinstance(scope.node, ast.Module | ast.FunctionDef) else ():
                value = _value_of(statement, name)
                place = place_of(program, module, Site(statement, scope, (), ()))
                if value is not None and (isinstance(scope.node, ast.Module) or stands(place)):
                    yield place.at(value)


def set_anywhere(program: Program, name: str) -> Iterator[Place]:
    """The expressions to which statements, be they under conditions, set a variable of the program's own process."""
    for module in program.modules.values():
        for scope in module.scopes if name in module.source.text else ():
            for site in scope.sites:
                yield from (place_of(program, module, site).at(value) for value in _given(site.node, name))


def _given(node: ast.AST, name: str) -> Iterator[ast.expr]:
    """What a statement or call gives a variable: `os.environ["NAME"] = value`, `update`, `setdefault`."""
    if isinstance(node, ast.Assign):
        keys = (each.slice for each in node.targets if isinstance(each, ast.Subscript) and _is_environment(each.value))
        pairs: Iterator[tuple[ast.expr | None, ast.expr]] = ((key, node.value) for key in keys)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_environment(node.func.value):
        pairs = _pairs(node) if node.func.attr in _SETTING else iter(())
    else:
        return
    yield from (value for key, value in pairs if isinstance(key, ast.Constant) and key.value == name)


def _is_environment(node: ast.expr) -> bool:
    return dotted(node) in ENVIRONMENTS


def _value_of(statement: ast.stmt, name: str) -> ast.expr | None:
    """The right side of `os.environ["NAME"] = ...`, where that is no text."""
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if not isinstance(statement, ast.Assign) or not isinstance(target, ast.Subscript):
        return None
    named = isinstance(target.slice, ast.Constant) and target.slice.value == name
    known = dotted(target.value) in ENVIRONMENTS and named and not isinstance(statement.value, ast.Constant)
    return statement.value if known else None


def _is_fallback(statement: ast.stmt) -> bool:
    """Whether a statement sets only what the launch has not: `os.environ.setdefault("NAME", "value")`."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and dotted(call.func).endswith(".setdefault")


def _variables(module: Module) -> tuple[_Set, ...]:
    """Variables that statements of the module or of a function set, under no condition, of those that are looked at."""
    return tuple(each for each in _set_in(module) if each.name.startswith(PREFIXES))


def _set_in(module: Module) -> Iterator[_Set]:
    """Variables that statements of the module or of a function set, under no condition."""
    if "environ" not in module.source.text:
        return
    scopes = [scope for scope in module.scopes if isinstance(scope.node, ast.Module | ast.FunctionDef)]
    for scope in scopes:
        for statement in _body(scope):
            yield from (_Set(name, value, statement, scope) for name, value in _told(module, statement))


def _body(scope: Scope) -> list[ast.stmt]:
    assert isinstance(scope.node, ast.Module | ast.FunctionDef)
    return scope.node.body


def _told(module: Module, statement: ast.stmt) -> Iterator[tuple[str, Setting]]:
    """The variables that a statement sets: `os.environ["NAME"] = "value"`, and by the methods of os.environ
    `update({"NAME": "value"})`, `update(NAME="value")` and `setdefault("NAME", "value")`.
    """
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        told = _variable(module, statement)
        yield from (told,) if told is not None else ()
    elif dotted(call.func.value) in ENVIRONMENTS and call.func.attr in _SETTING:
        for name, value in _pairs(call):
            yield from _set_to(module, statement, name, value)


def _pairs(call: ast.Call) -> Iterator[tuple[ast.expr | None, ast.expr]]:
    """The names and values that `update` and `setdefault` are given."""
    first = call.args[0] if call.args else None
    if isinstance(first, ast.Dict):
        yield from zip(first.keys, first.values, strict=True)
    elif first is not None and len(call.args) > 1:
        yield first, call.args[1]
    yield from ((ast.Constant(word.arg), word.value) for word in call.keywords if word.arg is not None)


def _set_to(
    module: Module, statement: ast.stmt, name: ast.expr | None, value: ast.expr
) -> Iterator[tuple[str, Setting]]:
    """A variable by its name and value; of variables that are looked for also what is worked out."""
    if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
        return
    place = module.span(value)
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        yield name.value, written(value.value, place)
    elif name.value in EXPECTED:
        yield name.value, _worked_out(module.span(statement))


def _variable(module: Module, statement: ast.stmt) -> tuple[str, Setting] | None:
    """`os.environ["NAME"] = "value"`; of variables that are looked for also what is worked out."""
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Subscript):
        return None
    target, value = statement.targets[0], statement.value
    name = target.slice.value if isinstance(target.slice, ast.Constant) else None
    if dotted(target.value) not in ENVIRONMENTS or not isinstance(name, str):
        return None
    place = module.span(statement)
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return name, written(value.value, place)
    return (name, _worked_out(place)) if name in EXPECTED else None


def _worked_out(place: Span) -> Unknown:
    return Unknown("the program works it out", "--env NAME=VALUE", Origin("written", place))


def _counts(program: Program, module: Module, found: _Set) -> bool:
    """Whether a statement is known to run, and in time for what reads its variable."""
    in_module = isinstance(found.scope.node, ast.Module)
    if not in_module and not stands(place_of(program, module, Site(found.statement, found.scope, (), ()))):
        return False
    return found.name not in READ_ON_IMPORT or (in_module and _stands_first(program, module, found.statement))


def _stands_first(program: Program, module: Module, statement: ast.stmt) -> bool:
    """Whether the script has imported nothing but Python's own modules before a statement."""
    tree = module.top.node
    assert isinstance(tree, ast.Module)
    before = tree.body[: tree.body.index(statement)]
    return is_entry(program, module) and not any(map(_imports, before))


def _imports(statement: ast.stmt) -> bool:
    """Whether a statement imports what is not Python's own."""
    if isinstance(statement, ast.ImportFrom):
        names = [statement.module or "."]
    else:
        names = [each.name for each in statement.names] if isinstance(statement, ast.Import) else []
    return any(name.partition(".")[0] not in sys.stdlib_module_names for name in names)


def _threads(program: Program) -> Iterator[tuple[str, Setting, Span]]:
    """The threads that the program asks torch for; one is what it has without."""
    for call in calls(program, (THREADS,)):
        if stands(call.place) is False:
            continue
        count = argument(call, "num", 0)
        if not isinstance(count, Value) or stands(call.place) is None:
            yield "OMP_NUM_THREADS", _worked_out(call.head), call.head
        elif count.value != 1:
            yield "OMP_NUM_THREADS", written(str(count.value), call.head), call.head
    for call in calls(program, SHARED_OUT):
        if stands(call.place) is not False:
            yield "OMP_NUM_THREADS", _worked_out(call.head), call.head


def _anomalies(program: Program) -> Iterator[Member]:
    for call in calls(program, ANOMALY):
        mode = argument(call, "mode", 0)
        on = mode is None or (isinstance(mode, Value) and mode.value is True)
        if on and (stands(call.place) or _whenever_it_trains(program, call.place)):
            reason = "every backward step is checked and remembers its forward step"
            yield Member(call.head, texts(call.head, name="detect_anomaly", value="on", effect="blocks", reason=reason))


def _whenever_it_trains(program: Program, place: Place) -> bool:
    """Whether a statement runs under no condition that a backward pass of the program does not run under too (`if
    args.do_train`); what nothing in sight calls may not be for training.
    """
    condition = reach(place)
    asked = frozenset(condition.condition.split(_AND))
    if condition.verdict is False or any(part.endswith(_IS_CALLED) for part in asked):
        return False
    sites = ((module, site) for module in program.modules.values() for site in module.called.get("backward", ()))
    passes = [reach(place_of(program, module, site)) for module, site in sites]
    told = [frozenset(each.condition.split(_AND)) for each in passes if each.verdict is not False]
    return bool(told) and all(asked <= each for each in told)
