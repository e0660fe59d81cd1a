"""Functions whose parameters are the command line: those that fire, typer, tyro, jsonargparse or click calls."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.constants import evaluate
from dtlint.languages.python.names import qualified
from dtlint.languages.python.places import Budget, Place
from dtlint.languages.python.program import Program
from dtlint.languages.python.tree import HERE, Argument, Module, Scope
from dtlint.source import Span
from dtlint.value import Origin, Setting, Unknown, Value

_STARTERS = frozenset(
    ("fire.Fire", "typer.run", "tyro.cli", "jsonargparse.CLI", "jsonargparse.auto_cli", "defopt.run", "clize.run")
)
"""Functions that call the function that they are given with what the command passes."""
_OPTIONS = frozenset(("click.option", "click.argument"))
_FLAGS = ("bool", "Optional[bool]", "bool|None")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def entry_arguments(program: Program, module: Module) -> Iterator[tuple[str, Argument]]:
    """The command-line arguments of the functions that a library starts with them, by the parameter's name."""
    for scope in module.scopes:
        if isinstance(scope.node, Function) and _may_be_decorated(scope.node):
            yield from _of_options(program, module, scope, scope.node)
    for name in _started(module):
        scope_ = module.definitions.get(name)
        if scope_ is not None and isinstance(scope_.node, Function):
            yield from _of_parameters(program, module, scope_, scope_.node)


def _started(module: Module) -> Iterator[str]:
    """The names of the functions that the module hands to a library that calls them, or marks as commands of one."""
    for starter in _STARTERS:
        for site in module.called.get(starter.rpartition(".")[2], ()):
            node = site.node
            given = node.args[0] if isinstance(node, ast.Call) and node.args else None
            if isinstance(node, ast.Call) and given is not None and _means(module, node.func, site.scope) in _STARTERS:
                yield _means(module, given, site.scope).removeprefix(f"{HERE}.")
    for scope in module.scopes:
        heads = scope.node.decorator_list if isinstance(scope.node, Function) else []
        if any(_is_typer_command(module, head, scope.parent or scope) for head in heads):
            yield scope.name


def _is_typer_command(module: Module, head: ast.expr, scope: Scope) -> bool:
    """`@app.command()` of `app = typer.Typer()`."""
    function = head.func if isinstance(head, ast.Call) else head
    if not isinstance(function, ast.Attribute) or function.attr != "command":
        return False
    bindings = scope.bindings.get(dotted(function.value), ())
    built = [binding.node.func for binding in bindings if isinstance(binding.node, ast.Call)]
    return any(_means(module, node, scope) == "typer.Typer" for node in built)


def _means(module: Module, node: ast.AST, scope: Scope) -> str:
    names = qualified(module, node, scope)
    return names[0] if len(names) == 1 else ""


def _of_parameters(program: Program, module: Module, scope: Scope, node: Function) -> Iterator[tuple[str, Argument]]:
    for name, bindings in scope.bindings.items():
        argument = bindings[0].place
        if bindings[0].kind != "parameter" or not isinstance(argument, ast.arg):
            continue
        place = Place(program, module, scope.parent or scope, node, budget=Budget(200))
        fallback = bindings[0].node
        kind = module.text(argument.annotation, 60) if argument.annotation is not None else ""
        action = "flag" if kind.replace(" ", "") in _FLAGS else "store"
        default = _default(place, fallback) if isinstance(fallback, ast.expr) else _required(module, argument)
        yield name, Argument(_flags(name), default, module.span(argument), action, kind)


def _default(place: Place, node: ast.expr) -> Setting:
    """A parameter's default; that of `typer.Option(8, ...)` is 8."""
    if isinstance(node, ast.Call) and dotted(node.func).rpartition(".")[2] in ("Option", "Argument"):
        named = next((keyword.value for keyword in node.keywords if keyword.arg == "default"), None)
        first = node.args[0] if node.args else named
        return evaluate(place.at(first)) if first is not None else _required(place.module, node)
    return evaluate(place.at(node))


def _required(module: Module, node: ast.AST) -> Unknown:
    return Unknown("the command must pass it", "", Origin("written", module.span(node)))


def _flags(name: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys((f"--{name}", f"--{name.replace('_', '-')}")))


def _may_be_decorated(node: Function) -> bool:
    return any(isinstance(head, ast.Call) for head in node.decorator_list)


def _of_options(program: Program, module: Module, scope: Scope, node: Function) -> Iterator[tuple[str, Argument]]:
    """`@click.option("--size", default=8)`: the option is the parameter of its name, or one of `**options`."""
    outer = scope.parent or scope
    for head in node.decorator_list:
        if not isinstance(head, ast.Call) or _means(module, head.func, outer) not in _OPTIONS:
            continue
        words = [item.value for item in head.args if isinstance(item, ast.Constant) and isinstance(item.value, str)]
        name = _parameter(words)
        holder = next((item for item in _parameters(node) if item.arg == name), node.args.kwarg)
        if name and holder is not None:
            place = Place(program, module, outer, head, budget=Budget(200))
            yield name, _option(place, head, words, module.span(holder))


def _parameter(words: list[str]) -> str:
    """The parameter that an option fills: a plain name among its words, else its first long flag."""
    plain = [word for word in words if not word.startswith("-")]
    long = [word.partition("/")[0].lstrip("-") for word in words if word.startswith("--")]
    short = [word.lstrip("-") for word in words]
    return next(iter((*plain, *long, *short)), "").replace("-", "_").lower()


def _parameters(node: Function) -> list[ast.arg]:
    return [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]


def _option(place: Place, head: ast.Call, words: list[str], span: Span) -> Argument:
    told = {keyword.arg: keyword.value for keyword in head.keywords if keyword.arg}
    flags = tuple(part for word in words for part in word.split("/") if part.startswith("-"))
    is_flag = isinstance(told.get("is_flag"), ast.Constant) or any("/--" in word for word in words)
    kind = dotted(told["type"]).rpartition(".")[2].lower() if "type" in told else ""
    default: Setting = Value(False if is_flag else None, Origin("written", place.module.span(head)))
    if "default" in told:
        default = evaluate(place.at(told["default"]))
    elif "required" in told:
        default = _required(place.module, head)
    return Argument(flags, default, span, "flag" if is_flag else "store", kind)
