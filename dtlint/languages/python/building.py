"""Runs through the statements of a function that builds an object, as far as they can be told: nothing is executed.

Branches whose condition is not known are both taken and joined; a function of the program is entered, what a library
returns is open.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence

from dtlint.languages.python.built import DICT, LIST, Built, Names, Part, copied, join, join_names, leaf, objects_in
from dtlint.languages.python.places import Budget, Place
from dtlint.languages.python.program import Definition, Program
from dtlint.languages.python.tree import Module, Scope
from dtlint.record import NamedTuple
from dtlint.value import Unknown, Value, written

MAX_STEPS = 6_000
"""Most statements and expressions that are run through for one question."""
MAX_DEPTH = 12
"""Most functions that are entered one from within the other."""
MAX_FORKS = 40
"""Most conditions that are not known of which both branches are taken."""


class Seen(NamedTuple):
    """A call that was met on the way, with the objects that it was given as they stood then."""

    name: str
    built: Built


class Run:
    """What is left of the budget, which calls are only noted and not entered, and those that were met."""

    __slots__ = ("forks", "leaves", "left", "met", "program")

    def __init__(self, program: Program, leaves: Sequence[str] = ()) -> None:
        self.program = program
        self.leaves = frozenset(leaves)
        self.left = MAX_STEPS
        self.forks = MAX_FORKS
        self.met: list[Seen] = []

    def spend(self) -> bool:
        """Take one step; False when none is left."""
        self.left -= 1
        return self.left >= 0


class Here(NamedTuple):
    """Where statements stand: the run, the module and scope that they are in, what names stand for, how deep."""

    run: Run
    module: Module
    scope: Scope
    names: Names
    depth: int

    def place(self, node: ast.AST) -> Place:
        """An expression as the resolver of single values takes it."""
        return Place(self.run.program, self.module, self.scope, node, budget=Budget())


Evaluate = Callable[[ast.expr, Here], Part]
Statements = Sequence[ast.stmt]


def run_statements(body: Statements, here: Here, value: Evaluate) -> Part | None:
    """Run through statements; what they return, None where they return nothing."""
    for index, statement in enumerate(body):
        if not here.run.spend():
            _give_up(here)
            return None
        if isinstance(statement, ast.Return):
            return (
                written(None, here.module.span(statement)) if statement.value is None else value(statement.value, here)
            )
        if isinstance(statement, ast.If):
            returned = _branches(statement, body[index + 1 :], here, value)
            if returned is not None:
                return returned[0]
            continue
        returned_inside = _step(statement, here, value)
        if returned_inside is not None:
            return returned_inside
    return None


def _give_up(here: Here) -> None:
    """The rest is not read: whatever the names hold may be changed by it."""
    for built in objects_in(here.names.values()):
        built.open = built.open or "the program is too long to follow"


def _step(statement: ast.stmt, here: Here, value: Evaluate) -> Part | None:
    """One statement that is no condition; what it returns from the function, if it does."""
    if isinstance(statement, ast.Assign):
        part = value(statement.value, here)
        for target in statement.targets:
            assign(target, part, here, value)
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        assign(statement.target, value(statement.value, here), here, value)
    elif isinstance(statement, ast.AugAssign):
        changed = ast.copy_location(ast.BinOp(_loaded(statement.target), statement.op, statement.value), statement)
        assign(statement.target, value(changed, here), here, value)
    elif isinstance(statement, ast.Expr):
        value(statement.value, here)
    elif isinstance(statement, ast.With | ast.AsyncWith):
        return run_statements(statement.body, here, value)
    elif isinstance(statement, ast.Try):
        return run_statements([*statement.body, *statement.orelse, *statement.finalbody], here, value)
    elif isinstance(statement, ast.For | ast.AsyncFor | ast.While | ast.Match):
        _perhaps(statement, here, value)
    return None


def _loaded(target: ast.expr) -> ast.expr:
    """The target of `a.b += c` as an expression."""
    if isinstance(target, ast.Attribute):
        return ast.copy_location(ast.Attribute(target.value, target.attr, ast.Load()), target)
    return ast.copy_location(ast.Name(target.id, ast.Load()), target) if isinstance(target, ast.Name) else target


def assign(target: ast.expr, part: Part, here: Here, value: Evaluate) -> None:
    """Give a name, an attribute or an item a value."""
    if isinstance(target, ast.Name):
        here.names[target.id] = part
    elif isinstance(target, ast.Tuple | ast.List):
        for number, element in enumerate(target.elts):
            inner = part.fields.get(str(number)) if isinstance(part, Built) else None
            assign(element, inner or Unknown("a part of several values"), here, value)
    elif isinstance(target, ast.Attribute):
        owner = value(target.value, here)
        if isinstance(owner, Built):
            owner.fields[target.attr] = part
    elif isinstance(target, ast.Subscript):
        _assign_item(target, part, here, value)


def _assign_item(target: ast.Subscript, part: Part, here: Here, value: Evaluate) -> None:
    owner, key = value(target.value, here), leaf(value(target.slice, here))
    if not isinstance(owner, Built):
        return
    if isinstance(key, Value) and isinstance(key.value, str | int):
        owner.fields[str(key.value)] = part
    else:
        owner.hide("an item whose key is not known is assigned")


# Conditions


def _branches(statement: ast.If, rest: Statements, here: Here, value: Evaluate) -> tuple[Part] | None:
    """Take the branch whose condition holds, or both; what the function returns, None to go on behind the statement."""
    verdict = truth(value(statement.test, here))
    if verdict is not None:
        taken = statement.body if verdict else statement.orelse
        returned = run_statements(taken, here, value)
        return None if returned is None and not _leaves(taken) else (returned or Unknown("nothing is returned"),)
    return _both(statement.body, statement.orelse, rest, here.module.text(statement.test), here, value)


def truth(part: Part) -> bool | None:
    """Whether a condition holds; None where that is not known, or hangs on what a command may change."""
    if isinstance(part, Built):
        return bool(part.fields) if part.name in (DICT, LIST) and not part.open else True if part.name else None
    return bool(part.value) if isinstance(part, Value) and part.origin.kind in ("written", "default") else None


def _leaves(body: Statements) -> bool:
    return any(isinstance(statement, ast.Return | ast.Raise) for statement in body)


def _returns(body: Statements) -> bool:
    return any(isinstance(node, ast.Return) for statement in body for node in ast.walk(statement))


def _both(
    body: Statements, orelse: Statements, rest: Statements, guard: str, here: Here, value: Evaluate
) -> tuple[Part] | None:
    """Take both branches and join what they leave; one that raises ends the run and is no plan."""
    if any(isinstance(statement, ast.Raise) for statement in body):
        body, orelse = orelse, ()
    if any(isinstance(statement, ast.Raise) for statement in orelse):
        orelse = ()
    here.run.forks -= 1
    if here.run.forks < 0:
        _give_up(here)
        return None
    originals = objects_in(here.names.values())
    twins: dict[int, Built] = {}
    names = {name: copied(part, twins) for name, part in here.names.items()}
    other = here._replace(names=names)
    further = rest if _returns(body) or _returns(orelse) else ()
    one_returned = run_statements([*body, *further], here, value)
    other_returned = run_statements([*orelse, *further], other, value)
    join_names(here.names, names, guard, twins, originals)
    if not further and one_returned is None and other_returned is None:
        return None
    if one_returned is None or other_returned is None:
        return (one_returned or other_returned or Unknown("nothing is returned"),)
    return (join(one_returned, other_returned, guard, set()),)


def _perhaps(statement: ast.For | ast.AsyncFor | ast.While | ast.Match, here: Here, value: Evaluate) -> None:
    """A loop or a match: its statements may run or not."""
    guard = here.module.text(statement, 40)
    if isinstance(statement, ast.Match):
        for case in statement.cases:
            _both(case.body, (), (), guard, here, value)
        return
    if isinstance(statement, ast.For | ast.AsyncFor):
        assign(statement.target, Unknown("it changes with each turn of a loop"), here, value)
    _both(statement.body, (), (), guard, here, value)


# Functions


def enter(
    found: Definition, given: Mapping[str, Part], rest: Built | None, run: Run, depth: int, value: Evaluate
) -> Part:
    """What a function of the program returns for what it is given; `rest` are keywords that it has no name for."""
    node = found.scope.node
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or depth > MAX_DEPTH:
        return Unknown("the function is not followed")
    here = Here(run, found.module, found.scope, {}, depth + 1)
    outside = here._replace(scope=found.scope.parent or found.scope)
    for name, default in defaults(node.args):
        here.names[name] = given[name] if name in given else _default(default, outside, value)
    if node.args.kwarg is not None and rest is not None:
        here.names[node.args.kwarg.arg] = rest
    returned = run_statements(node.body, here, value)
    return Unknown("nothing is returned") if returned is None else returned


def _default(node: ast.expr | None, here: Here, value: Evaluate) -> Part:
    """A parameter that a call leaves out has its default; without one the caller is not known."""
    return Unknown("the caller decides") if node is None else value(node, here)


def defaults(arguments: ast.arguments) -> list[tuple[str, ast.expr | None]]:
    """The parameters of a function with their defaults."""
    plain = [*arguments.posonlyargs, *arguments.args]
    without: list[ast.expr | None] = [None] * (len(plain) - len(arguments.defaults))
    named = [(item.arg, default) for item, default in zip(plain, [*without, *arguments.defaults], strict=True)]
    keyword = [(item.arg, default) for item, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    return [*named, *keyword]
