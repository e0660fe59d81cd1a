"""Attributes that keep the number that they start with: counters that nothing counts, and what waits for them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import islice

from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.callers import callers
from dtlint.languages.python.constants import evaluate
from dtlint.languages.python.names import attribute_bindings
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Definition, Program, all_modules
from dtlint.languages.python.reach import enclosing_function
from dtlint.languages.python.tree import Binding, Guard, Module, Scope, Site
from dtlint.languages.python.uncalled import is_handed_on, is_named
from dtlint.languages.unused import Unused
from dtlint.value import Value

_SETS_NOTHING = re.compile(r"(^|\.)(object|ABC|(nn\.)?Module)$")
"""Classes that set no attribute of the classes built on them but their own."""
_BY_MODULES = frozenset(
    {
        "forward",
        "train",
        "apply",
        "_apply",
        "extra_repr",
        "get_extra_state",
        "set_extra_state",
        "_load_from_state_dict",
        "_save_to_state_dict",
    }
)
"""Methods that torch.nn.Module calls."""
_SWAPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Eq: ast.Eq}
_MAX_STEPS = 200
_MAX_CALLERS = 6


def unset(program: Program, module: Module, site: Site) -> tuple[Unused, ...]:
    """The attributes of the object that conditions around a site, or around all calls of its function, wait for in
    vain: none of its methods that anything in the program calls changes what `__init__` gives them
    (`if self.step > self.config.warmup`, with `self.step = 0`).
    """
    own = _own(program, module, site)
    function = enclosing_function(site.scope)
    if own or function is None:
        return own
    calls = tuple(islice(callers(program, Definition(module, function)), _MAX_CALLERS + 1))
    found = [_own(program, around, call) for around, call in calls] if len(calls) <= _MAX_CALLERS else []
    return found[0] if found and all(found) else ()


def _own(program: Program, module: Module, site: Site) -> tuple[Unused, ...]:
    place = place_of(program, module, site)
    return tuple(_waiting(place, site.guards)) if any(guard.holds for guard in site.guards) else ()


def _waiting(place: Place, guards: tuple[Guard, ...]) -> Iterator[Unused]:
    for part in (part for guard in guards if guard.holds and guard.test is not None for part in _needed(guard.test)):
        for name, operation, limit in _asked(part):
            found = _kept(place, name)
            if found is not None and not _may_hold(place, found[0], operation, limit):
                yield found[1]


def _needed(test: ast.expr) -> Iterator[ast.expr]:
    """The conditions that all have to hold: those of `a and b`."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        for value in test.values:
            yield from _needed(value)
    else:
        yield test


def _asked(test: ast.expr) -> Iterator[tuple[str, type[ast.cmpop], ast.expr]]:
    """The attributes that a condition compares, each with what is asked of it: `self.step > limit`."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        operation = type(test.ops[0])
        yield dotted(test.left), operation, test.comparators[0]
        if operation in _SWAPPED:
            yield dotted(test.comparators[0]), _SWAPPED[operation], test.left


def _may_hold(place: Place, kept: float, operation: type[ast.cmpop], limit: ast.expr) -> bool:
    """Whether what an attribute keeps may pass; of a limit that the files do not tell it is known that a counter which
    starts at nothing is not beyond it.
    """
    told = evaluate(place.at(limit)._replace(budget=place.budget.part(_MAX_STEPS)))
    number = told.value if isinstance(told, Value) else None
    if not isinstance(number, int | float):
        return operation is not ast.Gt or kept > 0
    verdicts = {ast.Gt: kept > number, ast.GtE: kept >= number, ast.Eq: kept == number}
    return verdicts.get(operation, True)


def _kept(place: Place, name: str) -> tuple[float, Unused] | None:
    """The one number that an attribute of the object keeps, and what would change it."""
    first, _, attribute = name.partition(".")
    bindings = attribute_bindings(place.module, place.scope, name) if attribute and "." not in attribute else []
    numbers = {number for _, binding in bindings if (number := _number(binding)) is not None}
    setters = {method.name: method for method, binding in bindings if _number(binding) is None}
    owner = bindings[0][0].parent if bindings else None
    if owner is None or len(numbers) != 1 or not _keeps_to_itself(owner):
        return None
    if any(map(_is_started, setters.values())) or any(is_named(place.program, each) for each in setters.values()):
        return None
    if any(_is_set(module, first, attribute, owner) for module in all_modules(place.program).values()):
        return None
    by = tuple(setter.rpartition(".")[2] for setter in setters)
    return numbers.pop(), Unused("attribute", f"{owner.name}.{attribute}", by)


def _is_started(setter: Scope) -> bool:
    return setter.name.rpartition(".")[2] in _BY_MODULES or is_handed_on(setter)


def _number(binding: Binding) -> float | None:
    """The number that a statement gives an attribute."""
    given = binding.node if binding.kind == "value" and not binding.path else None
    value = given.value if isinstance(given, ast.Constant) else None
    return value if isinstance(value, int | float) else None


def _keeps_to_itself(owner: Scope) -> bool:
    bases = owner.node.bases if isinstance(owner.node, ast.ClassDef) else None
    return bases is not None and all(_SETS_NOTHING.search(dotted(base)) for base in bases)


def _is_set(module: Module, receiver: str, attribute: str, owner: Scope) -> bool:
    """Whether a file sets the attribute of another object than a method's own, by its name too, or has a class built
    on the owner.
    """
    if attribute not in module.source.text:
        return False
    last = owner.name.rpartition(".")[2]
    return any(_sets(node, receiver, attribute) or _is_built_on(node, last) for node in ast.walk(module.top.node))


def _sets(node: ast.AST, receiver: str, attribute: str) -> bool:
    if isinstance(node, ast.Attribute) and node.attr == attribute and isinstance(node.ctx, ast.Store):
        return dotted(node.value) != receiver
    return isinstance(node, ast.Call) and dotted(node.func) == "setattr"


def _is_built_on(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.ClassDef) and any(dotted(base).rpartition(".")[2] == name for base in node.bases)
