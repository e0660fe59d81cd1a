"""Tells whether a model is a part of a LightningModule, which the Trainer hands to DeepSpeed as a whole.

Lightning 015e167 (2.5) pytorch/strategies/deepspeed.py: `deepspeed.initialize(model=<the LightningModule>)`, for
validation and test too where the weights are sharded; nothing there tells Transformers of it.
"""

from __future__ import annotations

import ast

from dtlint.frameworks.code.objects import Maker, makers
from dtlint.languages.python.bindings import dotted, enclosing_class, receiver
from dtlint.languages.python.callers import called_by_name
from dtlint.languages.python.calls import called
from dtlint.languages.python.instances import bases_from_outside, foreign_classes
from dtlint.languages.python.names import lookup
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Definition, definition
from dtlint.languages.python.reach import enclosing_function
from dtlint.languages.python.tree import Scope

_GENERATING = frozenset({"transformers", "peft"})
"""Packages whose models have Transformers' generate."""
_LEVELS = 3
"""Modules within modules that a LightningModule is looked for around."""


def is_held_by_lightning(place: Place) -> bool:
    """Whether an expression is a model of Transformers, or of a class built on one, that a LightningModule keeps as an
    attribute, or a module of the program inside it does.
    """
    kept = _kept(place)
    owner = enclosing_class(kept.scope) if kept is not None else None
    if kept is None or owner is None or not _is_in_lightning(kept, Definition(kept.module, owner), _LEVELS):
        return False
    made = list(makers(kept))
    return bool(made) and all(map(_has_their_generate, made))


def _kept(place: Place) -> Place | None:
    """`self.model`, also of a name that stands for it."""
    bound = lookup(place.scope, place.node.id)[1] if isinstance(place.node, ast.Name) else []
    stands_for = bound[0].node if len(bound) == 1 and bound[0].kind == "value" and not bound[0].path else None
    node = stands_for or place.node
    function = enclosing_function(place.scope)
    is_own = isinstance(node, ast.Attribute) and function is not None and dotted(node.value) == receiver(function)
    return place.at(node) if is_own else None


def _is_in_lightning(place: Place, owner: Definition, levels: int) -> bool:
    """Whether a class is a LightningModule, or one keeps what is built of it."""
    if any(name.endswith(".LightningModule") for name in bases_from_outside(place, owner)):
        return True
    name = owner.scope.name.rpartition(".")[2]
    built = (place_of(place.program, module, site) for module, site in called_by_name(place.program, name))
    own = (each for each in built if levels and definition(place.program, each.module, called(each)) == owner)
    return any(_is_kept_in_lightning(each, levels - 1) for each in own)


def _is_kept_in_lightning(call: Place, levels: int) -> bool:
    """Whether a class that is in a LightningModule keeps what a call in one of its methods builds."""
    owner = enclosing_class(call.scope)
    if owner is None or not _keeps(owner, call.node):
        return False
    return _is_in_lightning(call, Definition(call.module, owner), levels)


def _keeps(owner: Scope, node: ast.AST) -> bool:
    kept = (binding for name, bound in owner.bindings.items() if name.startswith("self.") for binding in bound)
    return any(binding.node is node for binding in kept)


def _has_their_generate(maker: Maker) -> bool:
    """Whether what makes a model gives it Transformers' generate, and no class of the program its own."""
    call = maker.call
    if call is None or not isinstance(call.node, ast.Call):
        return False
    function, name = call.node.func, called(call)
    loads = isinstance(function, ast.Attribute) and function.attr.startswith("from_")
    made = function.value if isinstance(function, ast.Attribute) and loads else function
    packages = {each.partition(".")[0] for each in foreign_classes(call.at(made))}
    own = name.rpartition(".")[0] if loads else name
    return bool(packages & _GENERATING) and definition(call.program, call.module, f"{own}.generate") is None
