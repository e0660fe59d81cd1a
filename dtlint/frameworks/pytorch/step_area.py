"""Finds the functions whose statements act between a backward pass and the optimizer's step around one place."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.callers import callers
from dtlint.languages.python.names import attribute_bindings, lookup, qualified
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Definition, Program, definition, of_file, sites
from dtlint.languages.python.tree import Module, Scope, Site
from dtlint.record import NamedTuple

_MAX_FUNCTIONS = 300


class Area(NamedTuple):
    """Functions of a program, each with its module; modules stand for their top level."""

    program: Program
    functions: tuple[Definition, ...]

    def places(self) -> Iterator[Place]:
        """Every call, operation, assignment and return in these functions, comprehensions and lambdas included."""
        for module, scope in self.functions:
            for site in _sites_in(scope):
                yield place_of(self.program, module, site)


def area_around(program: Program, place: Place) -> Area:
    """The functions that lead to `place` by calls or as hooks, and all that these call."""
    found: dict[int, Definition] = {}
    waiting = [Definition(place.module, _function_of(place.scope))]
    while waiting and len(found) < _MAX_FUNCTIONS:
        function = waiting.pop()
        if id(function.scope) not in found:
            found[id(function.scope)] = function
            waiting.extend(_leading_to(program, function))
    waiting = list(found.values())
    while waiting and len(found) < _MAX_FUNCTIONS:
        new = [item for item in _called_in(program, waiting.pop()) if id(item.scope) not in found]
        found.update((id(item.scope), item) for item in new)
        waiting.extend(new)
    return Area(program, tuple(found.values()))


def _leading_to(program: Program, function: Definition) -> Iterator[Definition]:
    """The functions that call a function or hand it over as a hook, and the other methods of its class.

    A wrapper class often exchanges in one method and divides in another, which a training loop calls in its turn.
    """
    if function.scope.parent is None:
        return
    for scope in _methods_beside(function.scope):
        yield Definition(function.module, scope)
    for module, site in callers(program, function):
        yield Definition(module, _function_of(site.scope))
    for site in handed_over(program, function):
        yield Definition(function.module, _function_of(site.scope))


def handed_over(program: Program, function: Definition) -> list[Site]:
    """The calls in its file that a function is handed to: by name, as a lambda, or as what its maker returns."""
    given = of_file(program, "what calls are given", function.module.top, partial(_given_in, function.module))
    words = function.scope.name.split(".")
    found: dict[int, Site] = {}
    for key in (words[-1], f"{words[-2]}()" if len(words) > 1 else "", function.scope.node):
        found.update(given.get(key, {}))
    return [found[number] for number in sorted(found)]


def _given_in(module: Module) -> Mapping[str | ast.AST, dict[int, Site]]:
    """The calls of a file by what they are given: last words of names, makers, expressions; numbered in their order."""
    found: dict[str | ast.AST, dict[int, Site]] = {}
    for number, site in enumerate(sites(module)):
        for item in site.node.args if isinstance(site.node, ast.Call) else ():
            for key in _keys(item):
                if key:
                    found.setdefault(key, {})[number] = site
    return found


def _keys(argument: ast.expr) -> tuple[str | ast.AST, ...]:
    if isinstance(argument, ast.Call):
        return (f"{dotted(argument.func).rpartition('.')[2]}()",)
    return (argument, dotted(argument).rpartition(".")[2])


def _methods_beside(scope: Scope) -> Iterator[Scope]:
    """The methods of the class that a function belongs to, if it belongs to one."""
    owner: Scope | None = scope
    while owner is not None and not isinstance(owner.node, ast.ClassDef):
        owner = owner.parent
    inner = owner.inner if owner is not None else []
    yield from (method for method in inner if isinstance(method.node, ast.FunctionDef | ast.AsyncFunctionDef))


def _called_in(program: Program, function: Definition) -> list[Definition]:
    """The functions that a function calls or hands over: a closure of the optimizer, a hook."""
    found: list[Definition | None] = []
    for site in _sites_in(function.scope):
        place = place_of(program, function.module, site)
        found.append(called_function(place))
        found.extend(functions_given(place))
    return [item for item in found if item is not None]


def functions_given(place: Place) -> list[Definition]:
    """The functions of the program that a call is given by their names: a hook, the handler of a server."""
    node = place.node
    given = [*node.args, *(keyword.value for keyword in node.keywords)] if isinstance(node, ast.Call) else []
    named = (item for item in given if isinstance(item, ast.Name | ast.Attribute))
    found = (_first_function(place, qualified(place.module, item, place.scope)) for item in named)
    return [item for item in found if item is not None]


def called_function(place: Place) -> Definition | None:
    """The function of the program that a call calls: by name, or as a method of an object that is built in sight."""
    node = place.node
    if not isinstance(node, ast.Call):
        return None
    return _first_function(place, [*qualified(place.module, node.func, place.scope), *_methods(place, node.func)])


def _first_function(place: Place, names: Iterable[str]) -> Definition | None:
    for name in names:
        found = definition(place.program, place.module, name)
        if found is not None and isinstance(found.scope.node, ast.FunctionDef | ast.AsyncFunctionDef):
            return found
    return None


def _methods(place: Place, function: ast.expr) -> Iterator[str]:
    """`optimizer.step` as `Class.step`, where optimizer is `Class(...)`."""
    if isinstance(function, ast.Attribute):
        for scope, value in values_of(place, function.value):
            if isinstance(value, ast.Call):
                for name in qualified(place.module, value.func, scope):
                    yield f"{name}.{function.attr}"


def values_of(place: Place, node: ast.AST) -> list[tuple[Scope, ast.AST]]:
    """The expressions that a name or an attribute of the object is bound to, each with the scope around it."""
    name = dotted(node)
    holder, bindings = lookup(place.scope, name) if name else (None, [])
    found = [(holder, item) for item in bindings] if holder is not None else []
    owned = found or attribute_bindings(place.module, place.scope, name)
    return [(scope, item.node) for scope, item in owned if item.kind == "value" and item.node is not None]


def _function_of(scope: Scope) -> Scope:
    """The function (or module) that a comprehension, lambda or class body belongs to."""
    while scope.parent is not None and not isinstance(scope.node, ast.FunctionDef | ast.AsyncFunctionDef):
        scope = scope.parent
    return scope


def _sites_in(function: Scope) -> Iterator[Site]:
    waiting = [function]
    while waiting:
        scope = waiting.pop()
        yield from scope.sites
        functions = (ast.FunctionDef, ast.AsyncFunctionDef)
        waiting.extend(inner for inner in scope.inner if not isinstance(inner.node, functions))
