"""Tells whether a program makes its samples up: such data has no order that an epoch could repeat."""

from __future__ import annotations

import ast
import re

from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.calls import Call, passed
from dtlint.languages.python.constants import evaluate
from dtlint.languages.python.following import ways
from dtlint.languages.python.names import qualified
from dtlint.languages.python.places import Condition, Place
from dtlint.languages.python.program import definition
from dtlint.languages.python.tree import Scope
from dtlint.value import Value

_DRAWS = re.compile(
    r"torch\.(rand|randn|randint|normal|bernoulli)|(np|numpy)\.random\.(rand|randn|randint|normal|uniform|random|choice)"
    r"|random\.(random|gauss|uniform|randint|randrange)|.+\.(normal_|uniform_|random_)"
)
"""Functions that draw values, not an order."""
_SAYS_SO = re.compile(r"random|dummy|fake|synthetic|mock", re.IGNORECASE)
_FAKES = ("torchvision.datasets.FakeData",)
_TENSORS = ("torch.utils.data.TensorDataset",)


def is_made_up(call: Call) -> bool:
    """Whether what a sampler draws from is made up at random, unless the user asks for other data."""
    found = [way for item in passed(call, "dataset", 0) for way in ways(item.place)]
    ends = [way.end for way in found if not any(map(_is_refused, way.conditions))]
    return bool(ends) and all(isinstance(end, Place) and _makes_up(end) for end in ends)


def _is_refused(condition: Condition) -> bool:
    """Whether a condition fails as long as nobody asks for anything: by the defaults of the arguments."""
    test = condition.guard.test
    if test is None:
        return False
    value = evaluate(condition.place._replace(node=test, guards=(), chain=()))
    return isinstance(value, Value) and bool(value.value) is not condition.guard.holds


def _makes_up(end: Place) -> bool:
    if not isinstance(end.node, ast.Call):
        return False
    names = qualified(end.module, end.node.func, end.scope)
    if len(names) != 1:
        return False
    if names[0] in _TENSORS:
        return bool(end.node.args) and all(_is_drawn(end.inner(item)) for item in end.node.args[:1])
    found = definition(end.program, end.module, names[0])
    return names[0] in _FAKES if found is None else _class_makes_up(found.scope)


def _is_drawn(place: Place) -> bool:
    ends = [way.end for way in ways(place)]
    return all(isinstance(end, Place) and _draws(end.node) for end in ends)


def _class_makes_up(owner: Scope) -> bool:
    """Whether a dataset picks each sample whatever its index, or says by its name that what it draws first is all."""
    methods = {scope.name.rpartition(".")[2]: scope.node for scope in owner.inner}
    item, first = methods.get("__getitem__"), methods.get("__init__")
    if not isinstance(item, ast.FunctionDef):
        return False
    if not _uses_index(item):
        return True
    return bool(_SAYS_SO.search(owner.name)) and first is not None and _draws(first)


def _uses_index(method: ast.FunctionDef) -> bool:
    """Whether a sample rests on the index that is asked for: one that is drawn anew before does not."""
    index = next((each.arg for each in method.args.args[1:2]), "")
    if not index or method.args.vararg is not None:
        return True
    for statement in method.body:
        if _is_drawn_anew(statement, index):
            return False
        if _names(statement, index):
            return True
    return False


def _is_drawn_anew(statement: ast.stmt, index: str) -> bool:
    """`index = random.randint(0, self.last)`, whatever it was."""
    if not isinstance(statement, ast.Assign) or [dotted(target) for target in statement.targets] != [index]:
        return False
    return _draws(statement.value) and not _names(statement.value, index)


def _names(node: ast.AST, name: str) -> bool:
    return any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(node))


def _draws(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Call) and _DRAWS.fullmatch(dotted(each.func)) for each in ast.walk(node))
