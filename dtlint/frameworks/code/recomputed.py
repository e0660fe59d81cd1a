"""Tells whether a call of torch's reentrant checkpoint runs a backward pass within that of the trained model."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from dtlint.frameworks.code.objects import PREPARERS, PREPARING, kinds, makers
from dtlint.frameworks.pytorch.names import CHECKPOINTS, DDP
from dtlint.languages.python.bindings import dotted, enclosing_class
from dtlint.languages.python.calls import Call, called, calls, passed
from dtlint.languages.python.instances import with_bases
from dtlint.languages.python.names import lookup, qualified
from dtlint.languages.python.places import Budget, Place, place_of
from dtlint.languages.python.program import Definition, Program, definition
from dtlint.languages.python.reach import enclosing_function
from dtlint.languages.python.reaching import reaching
from dtlint.languages.python.tree import Scope
from dtlint.languages.python.uncalled import is_named

_MAX_PARTS = 400
"""Classes and functions that a model is followed into."""
_ASKS_GRADIENTS = re.compile(r"requires_grad_\((?!\s*False)|\.requires_grad\s*=\s*True|enable_input_require_grads")
_FIRST = {"torch.utils.checkpoint.checkpoint": 1, "torch.utils.checkpoint.checkpoint_sequential": 2}
"""Arguments of checkpoint in front of those that the recomputed part is given."""


class Models:
    """The models of a program that are wrapped for the ranks, and what they are made of, each looked at once."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._built = list(_built(program))
        self._parts = _parts_of(program, self._built) if self._built and None not in self._built else None

    def recompute(self, call: Call) -> bool:
        """Whether the recomputed part may be one of a model that is trained, and its inputs need gradients: of inputs
        that need none its outputs have none (CheckpointFunction of torch/utils/checkpoint.py), and nothing is run anew.
        """
        owner = enclosing_class(call.place.scope)
        if owner is None:
            return True
        if self._parts is not None and not _includes(self._parts, owner):
            return False
        if not is_named(self.program, owner) and not _is_decorated(owner):
            return False
        return not (self._is_outermost(owner, call.place.scope) and _is_given_data(call))

    def _is_outermost(self, owner: Scope, scope: Scope) -> bool:
        """Whether a method is the forward pass of what is wrapped itself."""
        function = enclosing_function(scope)
        alone = all(found is not None and found.scope is owner for found in self._built)
        return bool(self._built) and alone and function is not None and function.name.endswith(".forward")


def _includes(parts: Sequence[Scope], owner: Scope) -> bool:
    return any(part is owner for part in parts)


def _is_decorated(owner: Scope) -> bool:
    return isinstance(owner.node, ast.ClassDef) and bool(owner.node.decorator_list)


def _built(program: Program) -> Iterator[Definition | None]:
    """The classes of the models that are wrapped, None for one that is not of the program."""
    for place in _wrapped(program):
        for maker in makers(place):
            name = called(maker.call) if maker.call is not None else ""
            found = definition(program, place.module, name) if name else None
            yield found if found is not None and isinstance(found.scope.node, ast.ClassDef) else None


def _wrapped(program: Program) -> Iterator[Place]:
    for call in calls(program, DDP):
        yield from (item.place for item in passed(call, "module", 0))
    for module in program.modules.values():
        for site in (site for word in sorted(PREPARING) for site in module.called.get(word, ())):
            place = place_of(program, module, site)
            if isinstance(place.node, ast.Call) and isinstance(place.node.func, ast.Attribute):
                by_dealer = kinds(place.at(place.node.func.value)) <= PREPARERS
                yield from (place.at(given) for given in place.node.args if by_dealer and _is_a_model(place.at(given)))


def _is_a_model(given: Place) -> bool:
    """Whether what an Accelerator is given is made by a class of the program that has a forward pass."""
    made = [maker.call for maker in makers(given)]
    found = [definition(call.program, call.module, called(call)) for call in made if call is not None and called(call)]
    return any(item is not None and f"{item.scope.name}.forward" in item.module.definitions for item in found)


def _parts_of(program: Program, built: Sequence[Definition | None]) -> list[Scope] | None:
    """The classes and functions that those name which models are made of; None for too many of them."""
    waiting = [found for found in built if found is not None]
    seen: list[Scope] = []
    while waiting:
        found = waiting.pop()
        if _includes(seen, found.scope):
            continue
        seen.append(found.scope)
        if len(seen) > _MAX_PARTS:
            return None
        waiting += _named_in(program, found)
    return seen


def _named_in(program: Program, found: Definition) -> Iterator[Definition]:
    """What a class or function of the program names of the program, with the classes that it is built on."""
    place = Place(program, found.module, found.scope, found.scope.node, budget=Budget())
    yield from (base for base in with_bases(place, found) if base.scope is not found.scope)
    for node in ast.walk(found.scope.node):
        if isinstance(node, ast.Name | ast.Attribute):
            named = (definition(program, found.module, name) for name in qualified(found.module, node, found.scope))
            yield from (each for each in named if each is not None)


def _is_given_data(call: Call) -> bool:
    """Whether a recomputed part is given what the forward pass is given, and no more than torch's functions make of it:
    a batch has no gradients.
    """
    node = call.place.node
    if not isinstance(node, ast.Call) or any(isinstance(each, ast.Starred) for each in node.args):
        return False
    modules = call.place.program.modules.values()
    if any(_ASKS_GRADIENTS.search(module.source.text) for module in modules):
        return False
    given = node.args[_FIRST.get(call.name, 1) :]
    return bool(given) and all(_is_data(call.place.at(each), set()) for each in given)


def _is_data(place: Place, seen: set[int]) -> bool:
    """Whether nothing that an expression is made of has parameters of the model in it."""
    node = place.node
    if id(node) in seen:
        return True
    seen.add(id(node))
    if isinstance(node, ast.Name):
        return node.id != "self" and _is_bound_to_data(place, node.id, seen)
    if isinstance(node, ast.Call):
        return _makes_data(place, node, seen)
    return all(_is_data(place.at(each), seen) for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr))


def _is_bound_to_data(place: Place, name: str, seen: set[int]) -> bool:
    holder, bindings = lookup(place.scope, name)
    function = enclosing_function(place.scope)
    if holder is None or holder is not function:
        return False
    reached = (binding for binding, _ in reaching(place, holder, bindings))
    rest = (binding for binding in reached if binding.kind != "parameter")
    return all(
        binding.kind == "value" and isinstance(binding.node, ast.expr) and _is_data(place.at(binding.node), seen)
        for binding in rest
    )


def _makes_data(place: Place, node: ast.Call, seen: set[int]) -> bool:
    """Whether a call makes data of data: a function of torch, a method of a tensor, and a recomputed part of those."""
    name = called(place)
    given = [*node.args, *(keyword.value for keyword in node.keywords)]
    if name in CHECKPOINTS:
        given = node.args[_FIRST.get(name, 1) :]
    elif isinstance(node.func, ast.Attribute) and not name.startswith("torch."):
        given.append(node.func.value)
    elif not name.startswith("torch.") or name.startswith("torch.nn.Parameter"):
        return False
    return dotted(node.func).partition(".")[0] != "self" and all(_is_data(place.at(each), seen) for each in given)
