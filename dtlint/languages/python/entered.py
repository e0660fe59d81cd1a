"""How functions are entered: the calls of one, the one that a call runs, and parameters that the command line fills."""

from __future__ import annotations

import ast

from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.called import annotated_word, argument_node
from dtlint.languages.python.callers import callers, namesakes
from dtlint.languages.python.handed_over import handed_over_calls
from dtlint.languages.python.names import qualified
from dtlint.languages.python.places import MAX_DEPTH, Place
from dtlint.languages.python.program import Definition, declared_argument, definition
from dtlint.languages.python.tree import Argument, Binding, Scope


def command_argument(place: Place, function: Scope, name: str) -> Argument | None:
    """The command-line argument that fills a parameter of a function, or an item of its `**options`."""
    declared = declared_argument(place.program, name)
    node = function.node
    if declared is None or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    if declared.place.source is not place.module.source:
        return None
    heads = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.kwarg]
    filled = any(item is not None and place.module.span(item) == declared.place for item in heads)
    return declared if filled else None


def takes_config(function: Scope, binding: Binding) -> bool:
    """Whether a parameter is the config that Hydra composes for the function that `@hydra.main(...)` marks, or a
    decorator of the program's own that is told of a config as that is.
    """
    node = function.node
    if not isinstance(node, ast.FunctionDef) or not node.args.args or binding.place is not node.args.args[0]:
        return False
    return any(isinstance(head, ast.Call) and _names_config(head) for head in node.decorator_list)


def _names_config(head: ast.Call) -> bool:
    return dotted(head.func) == "hydra.main" or any(word.arg == "config_name" for word in head.keywords)


def parameter_name(binding: Binding, name: str) -> ast.Name:
    """A parameter as an expression, at the place where it is declared."""
    return ast.copy_location(ast.Name(name, ast.Load()), binding.place)


def called_at(call: Place) -> str:
    """How the reports word a call of several."""
    span = call.module.span(call.node)
    return f"called at {span.source.path}:{span.line}"


def entry(place: Place, function: Scope) -> Place | None:
    """The call through which a function was entered on the way to a place, the last of several."""
    return next((frame.call for frame in reversed(place.frames) if frame.scope is function), None)


def passed_on_entry(place: Place, name: str) -> Place | None:
    """What the call through which the function of a place was entered passes for its parameter."""
    call = entry(place, place.scope)
    node = argument_node(place.scope, name, call.node) if call is not None else None
    return call._replace(node=node, budget=place.budget) if call is not None and node is not None else None


def calls_of(place: Place, function: Scope) -> list[Place]:
    """The calls of a function: that through which it was entered, else all of the program."""
    call = entry(place, function)
    if call is not None:
        return [call]
    if not place.budget.spend():
        return []
    wanted = Definition(place.module, function)
    return [
        place._replace(
            module=module, scope=site.scope, node=site.node, guards=site.guards, frames=(), depth=place.depth + 1
        )
        for module, site in callers(place.program, wanted) or handed_over_calls(place.program, wanted)
    ]


def may_be_passed(place: Place, function: Scope, name: str) -> bool:
    """Whether a call that may be one of a method, on an object of unknown class, passes a parameter by its name."""
    calls = (site.node for _, site in namesakes(place.program, Definition(place.module, function)))
    return any(word.arg == name for call in calls if isinstance(call, ast.Call) for word in call.keywords)


def called_function(place: Place, node: ast.Call) -> Definition | None:
    """The function, method or class of the program that a call runs."""
    names = qualified(place.module, node.func, place.scope)
    candidates = (definition(place.program, place.module, name) for name in names)
    return next((item for item in candidates if item is not None), None) or _method(place, node)


def is_closed(place: Place, node: ast.FunctionDef) -> bool:
    """Whether the question asked is not to be followed into a function."""
    return bool(place.budget.closed) and annotated_word(node.returns) == place.budget.closed


def _method(place: Place, node: ast.Call) -> Definition | None:
    """The method that a call on an object of a class of the program runs."""
    from dtlint.languages.python.instances import method

    if not isinstance(node.func, ast.Attribute) or place.depth > MAX_DEPTH or not place.budget.spend():
        return None
    return method(place, node.func)
