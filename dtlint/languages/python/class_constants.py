"""Constants in the body of a class, read off the class itself: `class Config: SHARD = False`, `if Config.SHARD:`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.following import ways
from dtlint.languages.python.names import qualified
from dtlint.languages.python.places import Place, Way
from dtlint.languages.python.program import Definition, all_modules, definition, of_file
from dtlint.languages.python.tree import Module
from dtlint.record import NamedTuple
from dtlint.value import Step


class _Uses(NamedTuple):
    """What a file does with names: attributes that it sets, and names that it does more with than read off them."""

    set_: frozenset[str]
    handed: frozenset[str]


def constant_ways(place: Place, node: ast.Attribute) -> Iterator[Way]:
    """What a class's body gives to an attribute that nothing in the program sets, of a class that is only read."""
    owner = holding_class(place, node)
    bindings = owner.scope.bindings.get(node.attr, []) if owner is not None else []
    given = bindings[0].node if len(bindings) == 1 and not bindings[0].guards else None
    if owner is None or not isinstance(given, ast.expr) or _may_change(place, owner, node.attr):
        return
    step = Step(place.module.span(place.node), node.attr)
    yield from ways(
        place._replace(
            module=owner.module,
            scope=owner.scope,
            node=given,
            guards=(),
            frames=(),
            chain=(*place.chain, step),
            depth=place.depth + 1,
        )
    )


def holding_class(place: Place, node: ast.Attribute) -> Definition | None:
    """The class of the program, built on none, that an attribute is read off."""
    names = qualified(place.module, node.value, place.scope) if dotted(node.value) else ()
    found = definition(place.program, place.module, names[0]) if len(names) == 1 else None
    plain = found is not None and isinstance(found.scope.node, ast.ClassDef) and not found.scope.node.bases
    return found if plain and node.attr in (found.scope.bindings if found else ()) else None


def _may_change(place: Place, owner: Definition, attribute: str) -> bool:
    """Whether the program sets an attribute of that name, or hands the class on, to whom nothing is known of."""
    name = owner.scope.name.rpartition(".")[2]
    found = (_uses(place, module) for module in all_modules(place.program).values())
    return any(attribute in uses.set_ or name in uses.handed for uses in found)


def _uses(place: Place, module: Module) -> _Uses:
    return of_file(place.program, "uses of names", module.top, lambda: _uses_in(module.top.node))


def _uses_in(tree: ast.AST) -> _Uses:
    nodes = list(ast.walk(tree))
    read_off = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    attributes = [node for node in nodes if isinstance(node, ast.Attribute)]
    set_ = frozenset(node.attr for node in attributes if not isinstance(node.ctx, ast.Load))
    handed = {node.id for node in nodes if isinstance(node, ast.Name) and id(node) not in read_off}
    return _Uses(set_, frozenset(handed | {node.attr for node in attributes if id(node) not in read_off}))
