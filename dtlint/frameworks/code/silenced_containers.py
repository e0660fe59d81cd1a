"""Finds calls of no_sync on each of several DDP models that a dict or a list holds, as the function sees them that
enters the context around.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtlint.frameworks.code.microsteps import SILENCERS
from dtlint.frameworks.pytorch.names import DDP
from dtlint.languages.python.bindings import dotted, enclosing_class, last_word
from dtlint.languages.python.callers import callers
from dtlint.languages.python.names import attribute_bindings, lookup, qualified
from dtlint.languages.python.places import Frame, Place, place_of
from dtlint.languages.python.program import Definition, Program
from dtlint.languages.python.reach import enclosing_function
from dtlint.languages.python.tree import Scope, Site

_PARTS = frozenset({"values", "items", "children", "list", "tuple", "reversed"})
"""Functions and methods that give what a container holds."""
ITEM = "[*]"
"""What stands behind the name of a container where one of its models is meant."""


def silenced_containers(program: Program) -> Iterator[tuple[Place, str]]:
    """The calls of no_sync on each model of a container, with the model's name (`self.modules[*]`): in a function of
    the program's own that is a context, through each call of it; anywhere else as they stand.
    """
    for module in program.modules.values():
        for site in (site for word in SILENCERS[:1] for site in module.called.get(word, ())):
            place = place_of(program, module, site)
            container = _container(place)
            if container and _holds_ddp(place, container):
                yield from ((each, f"{container}{ITEM}") for each in _entered(place, site))


def runs(function: ast.AST, model: str) -> bool:
    """Whether what is called is a model, or one that a container holds (`self.modules["encoder"]`,
    `self.modules.encoder`).
    """
    if not model.endswith(ITEM):
        return dotted(function) == model
    held = isinstance(function, ast.Subscript) or (isinstance(function, ast.Attribute) and function.attr not in _PARTS)
    inner = function.value if isinstance(function, ast.Subscript | ast.Attribute) else function
    return held and f"{dotted(inner)}{ITEM}" == model


def _entered(place: Place, site: Site) -> Iterator[Place]:
    function = enclosing_function(site.scope)
    if function is None or not _is_context(function):
        yield place
        return
    for module, call in callers(place.program, Definition(place.module, function)):
        yield place._replace(frames=(Frame(function, place_of(place.program, module, call)),))


def _is_context(function: Scope) -> bool:
    """Whether a function is a context of its own: `@contextmanager`."""
    node = function.node
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    return any(last_word(item) == "contextmanager" for item in decorators)


def _container(place: Place) -> str:
    """The name of what the loop or comprehension around goes through whose item a no_sync silences; "" for none."""
    function = place.node.func if isinstance(place.node, ast.Call) else None
    name = dotted(function.value) if isinstance(function, ast.Attribute) else ""
    holder, bindings = lookup(place.scope, name) if name else (None, [])
    sources = {_source(binding.node) for binding in bindings if binding.kind == "loop" and binding.node is not None}
    return sources.pop() if holder is not None and len(sources) == 1 and len(bindings) == 1 else ""


def _source(node: ast.AST) -> str:
    """The name of a container: `models`, of `models.values()`, of `list(models)`."""
    while isinstance(node, ast.Call) and last_word(node.func) in _PARTS:
        node = node.func.value if isinstance(node.func, ast.Attribute) else node.args[0] if node.args else node.func
    return dotted(node)


def _holds_ddp(place: Place, container: str) -> bool:
    """Whether DDP wraps what a container holds: where it is made, or where an item is set."""
    owner = enclosing_class(place.scope) if "." in container else None
    function = enclosing_function(place.scope)
    around = owner or function or place.module.top
    made = [node for node in ast.walk(around.node) if _sets(node, container)]
    values = [node.value for node in made if isinstance(node, ast.Assign)]
    holder, bindings = lookup(place.scope, container)
    bound = (
        bindings
        if holder is not None
        else [item for _, item in attribute_bindings(place.module, place.scope, container)]
    )
    values += [item.node for item in bound if isinstance(item.node, ast.expr)]
    calls = (part for value in values for part in ast.walk(value) if isinstance(part, ast.Call))
    return any(set(qualified(place.module, call.func, around)) & set(DDP) for call in calls)


def _sets(node: ast.AST, container: str) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else []
    return any(isinstance(item, ast.Subscript) and dotted(item.value) == container for item in targets)
