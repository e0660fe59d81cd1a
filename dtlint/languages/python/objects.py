"""Values of attributes: of the parsed command line, of config objects, of annotated parameters."""

from __future__ import annotations

import ast
from collections.abc import Callable

from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.entered import command_argument
from dtlint.languages.python.following import ways
from dtlint.languages.python.instances import instances
from dtlint.languages.python.names import lookup, qualified
from dtlint.languages.python.places import Place
from dtlint.languages.python.program import declared_argument, definition, given_argument
from dtlint.languages.python.tree import Argument
from dtlint.source import Span
from dtlint.value import Setting, Step, Unknown, Value

Evaluate = Callable[[Place], Setting]

_ARGUMENT_NAMES = ("args", "opt", "opts", "cfg", "config", "hparams")
"""Names under which a function is usually passed the parsed command line; `training_args` and the like are too."""


def command_line_argument(place: Place, node: ast.AST) -> Setting | None:
    """`args.lr`: what the launch passes for the script's argument, else the default that it declares."""
    if not isinstance(node, ast.Attribute):
        return None
    declared = declared_argument(place.program, node.attr)
    if declared is None or not _holds_arguments(place, node, declared) or _may_stand_in_file(place, node):
        return None
    return _told(place, node.attr, declared)


def entry_argument(place: Place, node: ast.AST) -> Setting | None:
    """A parameter of the function that the command line is passed to: as the launch passes it, else its default."""
    if not isinstance(node, ast.Name):
        return None
    holder, bindings = lookup(place.scope, node.id)
    if holder is None or not bindings or bindings[0].kind != "parameter":
        return None
    declared = command_argument(place, holder, node.id)
    return _told(place, node.id, declared) if declared is not None else None


def rest_argument(place: Place, holder: ast.AST, name: str) -> Setting | None:
    """`options["size"]` of a function that takes the command line as `**options`."""
    scope = lookup(place.scope, holder.id)[0] if isinstance(holder, ast.Name) else None
    declared = command_argument(place, scope, name) if scope is not None else None
    return _told(place, name, declared) if declared is not None else None


def _told(place: Place, name: str, declared: Argument) -> Setting:
    step = Step(place.module.span(place.node), declared.flags[0] if declared.flags else name)
    given, certain = given_argument(place.program, name)
    if given is not None:
        return _chained(given, place, step)
    value = _chained(declared.default, place, step)
    if (not certain or name in _OF_LAUNCHERS) and isinstance(value, Value):
        return value._replace(
            origin=value.origin._replace(
                kind="assumed", note="the command may pass another value", how=f"pass {step.label} in the launch"
            )
        )
    return value


_OF_LAUNCHERS = frozenset(("local_rank",))
"""Arguments that DeepSpeed's launcher and torch's old one hand to each process, whatever the command says."""


def _chained(value: Setting, place: Place, step: Step) -> Setting:
    if isinstance(value, Value):
        return value._replace(origin=value.origin._replace(chain=(*place.chain, step, *value.origin.chain)))
    return value


def _holds_arguments(place: Place, node: ast.Attribute, declared: Argument) -> bool:
    """Whether an attribute is one of the parsed command line: of what a parse call returns, or of what is passed in
    under a usual name and is of no class that the program tells.
    """
    holder = place.inner(node.value)
    ends = [way.end for way in ways(holder)]
    built = [end for end in ends if not isinstance(end, Unknown) and isinstance(end.node, ast.Call)]
    if built:
        return any(_parses(end.node) for end in built)
    if _is_part_of_parsed(holder):
        return True
    last = dotted(node.value).rpartition(".")[2]
    return (last in _ARGUMENT_NAMES or last.endswith("_args")) and not _is_of_other_class(holder, declared.place)


def _is_part_of_parsed(holder: Place) -> bool:
    """Whether a name is one of several that a parse call is taken apart into: `margs, targs = parser.parse_...()`."""
    if not isinstance(holder.node, ast.Name):
        return False
    bindings = lookup(holder.scope, holder.node.id)[1]
    return bool(bindings) and all(each.path and each.node is not None and _parses(each.node) for each in bindings)


def _parses(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and _last_word(node).startswith(("parse", "cli", "CLI"))


def _may_stand_in_file(place: Place, node: ast.Attribute) -> bool:
    """Whether the arguments may be read from a file (`parse_json_file(sys.argv[1])`), and the launch does not pass this
    one: its default says nothing then.
    """
    bindings = lookup(place.scope, dotted(node.value).partition(".")[0])[1]
    of_file = any(
        isinstance(each.node, ast.Call) and _last_word(each.node) in place.program.file_parsers for each in bindings
    )
    if not of_file:
        return False
    given, certain = given_argument(place.program, node.attr)
    return given is None and not certain


def _is_of_other_class(holder: Place, declared: Span) -> bool:
    """Whether an object's class is known and is not the one that declares the argument."""
    owners = instances(holder)
    spans = (owner.definition.module.span(owner.definition.scope.node) for owner in owners)
    return bool(owners) and not any(
        span.source is declared.source and span.start <= declared.start < span.end for span in spans
    )


def _last_word(node: ast.AST) -> str:
    """The word that a call's function ends in, also of a method of another call (`ArgumentParser().parse_args()`)."""
    function = node.func if isinstance(node, ast.Call) else node
    return function.attr if isinstance(function, ast.Attribute) else dotted(function)


def attribute_value(place: Place, node: ast.AST, evaluate: Evaluate) -> Setting | None:
    """`config.size` of a class: its default, or the keyword of the call that builds the object."""
    if not isinstance(node, ast.Attribute):
        return None
    of_class = _class_default(place, place, node.value, node.attr, evaluate)
    if of_class is not None:
        return of_class
    for way in ways(place.inner(node.value)):
        if not isinstance(way.end, Unknown) and isinstance(way.end.node, ast.Call):
            for keyword in way.end.node.keywords:
                if keyword.arg == node.attr:
                    return evaluate(way.end.inner(keyword.value))
    return None


def _class_default(
    place: Place, seen_from: Place, built: ast.AST, attribute: str, evaluate: Evaluate
) -> Setting | None:
    """The default of a class attribute; assumed, since the object may be changed after it is built."""
    names = qualified(seen_from.module, built, seen_from.scope)
    found = definition(place.program, seen_from.module, names[0]) if len(names) == 1 else None
    bindings = found.scope.bindings.get(attribute, []) if found is not None else []
    if found is None or len(bindings) != 1 or not isinstance(bindings[0].node, ast.expr):
        return None
    step = Step(place.module.span(place.node), attribute)
    inner = place._replace(
        module=found.module, scope=found.scope, node=bindings[0].node, guards=(), frames=(), depth=place.depth + 1
    )
    value = evaluate(inner._replace(chain=(*place.chain, step)))
    if not isinstance(value, Value):
        return value
    return value._replace(
        origin=value.origin._replace(kind="assumed", note=f"the default of {found.scope.name}.{attribute}")
    )
