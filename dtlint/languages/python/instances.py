"""Objects of the program's classes: of which class an expression is, and what its attributes and methods are."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtlint.languages.python.bindings import dotted, receiver
from dtlint.languages.python.following import bound, returned, ways
from dtlint.languages.python.names import attribute_bindings, lookup, qualified
from dtlint.languages.python.places import Frame, Place, Way
from dtlint.languages.python.program import Definition, definition, subclasses
from dtlint.languages.python.reaching import set_by_methods
from dtlint.languages.python.tree import Binding, Scope
from dtlint.record import NamedTuple
from dtlint.value import Step, Unknown

_MAX_BASES = 4
_FIELDS = ("field", "Field")


class Instance(NamedTuple):
    """An object of a class of the program; `built` is the call that makes it, None where only its class is known."""

    definition: Definition
    built: Place | None = None


def instances(place: Place) -> list[Instance]:
    """The objects that an expression can be; [] where one of them is of no class of the program."""
    owner = _receiver_class(place)
    if owner is not None:
        return [Instance(owner)]
    ends = [way.end for way in ways(place)]
    found = [_built(end) if isinstance(end, Place) else None for end in ends if not _is_nothing(end)]
    known = [item for item in found if item is not None]
    if known and len(known) == len(found):
        return known
    annotated = annotated_class(place)
    return [Instance(annotated)] if annotated is not None else []


def _is_nothing(end: Place | Unknown) -> bool:
    """Whether a way ends in None, whose attributes nothing reads."""
    return isinstance(end, Place) and isinstance(end.node, ast.Constant) and end.node.value is None


def is_built_here(place: Place) -> bool:
    """Whether an expression is an object that the program builds itself, and not what a command fills."""
    owners = instances(place)
    return bool(owners) and all(owner.built is not None for owner in owners)


def _receiver_class(place: Place) -> Definition | None:
    """The class of `self`."""
    holder = lookup(place.scope, place.node.id)[0] if isinstance(place.node, ast.Name) else None
    if holder is None or holder.parent is None or receiver(holder) != getattr(place.node, "id", ""):
        return None
    return Definition(place.module, holder.parent)


def _built(place: Place) -> Instance | None:
    node = place.node
    found = _class_named(place, node.func) if isinstance(node, ast.Call) else None
    return Instance(found, place) if found is not None else None


def _class_named(place: Place, node: ast.AST) -> Definition | None:
    """The class of the program that a name means, also inside `Optional[...]`, `... | None` and quotes."""
    if isinstance(node, ast.Subscript) and dotted(node.value).rpartition(".")[2] in ("Optional", "Annotated"):
        first = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) else node.slice
        return _class_named(place, first)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _class_named(place, node.left) or _class_named(place, node.right)
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
        node = ast.copy_location(ast.Name(node.value, ast.Load()), node)
    names = qualified(place.module, node, place.scope)
    found = definition(place.program, place.module, names[0]) if len(names) == 1 else None
    return found if found is not None and isinstance(found.scope.node, ast.ClassDef) else None


def annotated_class(place: Place) -> Definition | None:
    """The class that an annotation gives to a parameter, a variable, or an attribute."""
    node = place.node
    if place.depth > _MAX_BASES * _MAX_BASES or not place.budget.spend():
        return None
    if isinstance(node, ast.Name):
        holder, bindings = lookup(place.scope, node.id)
        return _annotated(place, holder, bindings) if holder is not None else None
    if not isinstance(node, ast.Attribute):
        return None
    for scope, binding in attribute_bindings(place.module, place.scope, dotted(node)):
        found = _annotated(place, scope, [binding])
        if found is not None:
            return found
    owners = instances(place.inner(node.value))
    declared = (_declared_class(place, owner.definition, node.attr) for owner in owners)
    return next((found for found in declared if found is not None), None)


def _annotated(place: Place, holder: Scope, bindings: list[Binding]) -> Definition | None:
    """The class of what is bound by its annotation, or by that of the parameter that it is bound to."""
    if len(bindings) != 1:
        return None
    binding = bindings[0]
    inside = place._replace(scope=holder, depth=place.depth + 1)
    if isinstance(binding.place, ast.arg):
        outer = inside._replace(scope=holder.parent or holder)
        return _class_named(outer, binding.place.annotation) if binding.place.annotation is not None else None
    if binding.kind == "value" and isinstance(binding.node, ast.Name | ast.Attribute) and not binding.path:
        return annotated_class(inside.at(binding.node))
    return None


def _declared_class(place: Place, owner: Definition, attribute: str) -> Definition | None:
    """The class of an attribute by the annotation in the class's body (`parallelism: Parallelism = ...`)."""
    for found in with_bases(place, owner):
        node = found.scope.node
        for item in node.body if isinstance(node, ast.ClassDef) else []:
            if isinstance(item, ast.AnnAssign) and dotted(item.target) == attribute:
                return _class_named(place._replace(module=found.module, scope=found.scope), item.annotation)
        assigned = found.scope.bindings.get(f"self.{attribute}", [])
        inside = place._replace(module=found.module, frames=(), guards=(), depth=place.depth + 1)
        named = [_annotated(inside, binding.method or found.scope, [binding]) for binding in assigned]
        if any(named):
            return next(item for item in named if item is not None)
    return None


def with_bases(place: Place, owner: Definition) -> Iterator[Definition]:
    """A class and those that it inherits from, nearest first."""
    waiting, seen = [owner], 0
    while waiting and seen < _MAX_BASES:
        found, seen = waiting.pop(0), seen + 1
        yield found
        node = found.scope.node
        inside = place._replace(module=found.module, scope=found.scope.parent or found.scope)
        bases = [_class_named(inside, base) for base in node.bases] if isinstance(node, ast.ClassDef) else []
        waiting.extend(base for base in bases if base is not None)


def foreign_bases(place: Place) -> list[str]:
    """The qualified names of the classes outside the program that the class of an object inherits from."""
    return [name for owner in instances(place) for name in bases_from_outside(place, owner.definition)]


def foreign_classes(place: Place) -> list[str]:
    """The qualified names of the classes outside the program that a class is, by its name, or inherits from."""
    own = _class_named(place, place.node)
    return bases_from_outside(place, own) if own is not None else list(qualified(place.module, place.node, place.scope))


def bases_from_outside(place: Place, owner: Definition) -> list[str]:
    """The qualified names of the classes outside the program that a class inherits from, nearest first."""
    found: list[str] = []
    for each in with_bases(place, owner):
        node, outer = each.scope.node, each.scope.parent or each.scope
        for base in node.bases if isinstance(node, ast.ClassDef) else []:
            names = qualified(each.module, base, outer)
            found.extend(name for name in names if definition(place.program, each.module, name) is None)
    return found


def method(place: Place, node: ast.Attribute) -> Definition | None:
    """The method of this name of the one class that an object is of."""
    owners = instances(place.inner(node.value))
    if len({id(owner.definition.scope) for owner in owners}) != 1:
        return None
    for found in with_bases(place, owners[0].definition):
        inner = found.module.definitions.get(f"{found.scope.name}.{node.attr}")
        if inner is not None:
            return Definition(found.module, inner)
    return None


def property_of(place: Place, node: ast.Attribute) -> Definition | None:
    """The property that an attribute of an object is read through."""
    found = method(place, node)
    return found if found is not None and _is_property(found.scope) else None


def members(place: Place, node: ast.Attribute) -> list[Way]:
    """The expressions that an attribute of an object can stand for; [] if its class is not known or says nothing."""
    return list(_of_class(place, instances(place.inner(node.value)), node.attr))


def _of_class(place: Place, owners: list[Instance], attribute: str) -> Iterator[Way]:
    for owner in owners:
        if owner.built is None and _is_overridden(place, owner.definition, attribute):
            continue
        passed = _passed(owner, attribute)
        classes = list(with_bases(place, owner.definition))
        assigned = [item for found in classes for item in found.scope.bindings.get(f"self.{attribute}", [])]
        if passed is not None and all(binding.guards for binding in assigned):
            yield from ways(passed)
        if passed is not None and not assigned:
            continue
        sources = (list(_held(place, owner, found, attribute, passed is None)) for found in classes)
        yield from next((held for held in sources if held), [])


def _is_overridden(place: Place, owner: Definition, attribute: str) -> bool:
    """Whether a class that builds on another one gives an attribute a value of its own in its body."""
    others = subclasses(place.program, owner.scope.name.rpartition(".")[2])
    return any(attribute in scope.bindings and scope is not owner.scope for scope in others)


def declared_ways(place: Place, name: str) -> Iterator[Way]:
    """What the body of the class gives to `self.x`, as seen from one of its methods."""
    owner = _receiver_class(place.at(ast.Name(name.partition(".")[0], ast.Load())))
    if owner is not None:
        yield from _body_default(place, owner, name.partition(".")[2])


def _passed(owner: Instance, attribute: str) -> Place | None:
    """What the call that builds an object passes for a field of its class's body."""
    if owner.built is None or attribute not in owner.definition.scope.bindings | _fields(owner.definition):
        return None
    node = owner.built.node
    keywords = node.keywords if isinstance(node, ast.Call) else []
    return next((owner.built.inner(keyword.value) for keyword in keywords if keyword.arg == attribute), None)


def _fields(owner: Definition) -> dict[str, list[Binding]]:
    """The fields that a class's body annotates, without a default too."""
    node = owner.scope.node
    body = node.body if isinstance(node, ast.ClassDef) else []
    return {dotted(item.target): [] for item in body if isinstance(item, ast.AnnAssign)}


def _held(place: Place, owner: Instance, found: Definition, attribute: str, defaulted: bool) -> Iterator[Way]:
    """What a class itself gives to an attribute: its methods, a property, or a default in its body, unless it is
    `defaulted` no more because the call that builds the object passes it.
    """
    step = Step(place.module.span(place.node), attribute)
    inner = place._replace(
        module=found.module, scope=found.scope, guards=(), frames=(), chain=(*place.chain, step), depth=place.depth + 1
    )
    assigned = found.scope.bindings.get(f"self.{attribute}", [])
    if assigned:
        if defaulted and all(binding.guards for binding in assigned):
            yield from _body_default(place, found, attribute)
        yield from _assigned(inner, owner, assigned)
        return
    property_ = found.module.definitions.get(f"{found.scope.name}.{attribute}")
    if property_ is not None:
        yield from returned(place, Definition(found.module, property_)) if _is_property(property_) else ()
        return
    yield from _body_default(place, found, attribute)


def _body_default(place: Place, found: Definition, attribute: str) -> Iterator[Way]:
    """The default that the body of a class gives to a field."""
    bindings = found.scope.bindings.get(attribute, [])
    if len(bindings) != 1 or not isinstance(bindings[0].node, ast.expr):
        return
    step = Step(place.module.span(place.node), attribute)
    inner = place._replace(
        module=found.module, scope=found.scope, guards=(), frames=(), chain=(*place.chain, step), depth=place.depth + 1
    )
    note = f"the default of {found.scope.name}.{attribute}"
    for way in ways(inner.at(_default(bindings[0].node))):
        yield way._replace(assumed=way.assumed or note)


def _is_property(scope: Scope) -> bool:
    node = scope.node
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    return any(dotted(item).rpartition(".")[2] in ("property", "cached_property") for item in decorators)


def _assigned(inner: Place, owner: Instance, bindings: list[Binding]) -> Iterator[Way]:
    owned = [(binding.method or inner.scope, binding) for binding in bindings]
    for method_, binding, conditions in set_by_methods(inner, owned):
        frames = (Frame(method_, owner.built),) if owner.built is not None and _is_init(method_) else ()
        at = inner._replace(scope=method_, node=binding.place, guards=binding.guards, frames=frames)
        entered = tuple(item._replace(place=item.place._replace(frames=frames)) for item in conditions)
        for way in bound(at, binding):
            yield way._replace(conditions=(*entered, *way.conditions))


def _is_init(scope: Scope) -> bool:
    return scope.name.rpartition(".")[2] == "__init__"


def _default(node: ast.expr) -> ast.expr:
    """A field's default; `field(default_factory=C)` is `C()`."""
    if not isinstance(node, ast.Call) or dotted(node.func).rpartition(".")[2] not in _FIELDS:
        return node
    words = {keyword.arg: keyword.value for keyword in node.keywords}
    if "default" in words:
        return words["default"]
    factory = words.get("default_factory")
    if isinstance(factory, ast.Lambda):
        return factory.body
    return ast.copy_location(ast.Call(factory, [], []), node) if factory is not None else node
