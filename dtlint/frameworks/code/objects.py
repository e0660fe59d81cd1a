"""Tells what the objects of a training script are: a DDP or FSDP model, a DeepSpeed engine, an Accelerator."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from dtlint.frameworks.pytorch.names import DATA_PARALLEL, DDP, FSDP1
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.called import argument_node
from dtlint.languages.python.callers import callers
from dtlint.languages.python.calls import call_at, called, passed
from dtlint.languages.python.instances import bases_from_outside, instances, with_bases
from dtlint.languages.python.names import attribute_bindings, lookup, qualified
from dtlint.languages.python.places import Budget, Place, place_of
from dtlint.languages.python.program import Definition, definition
from dtlint.languages.python.reach import stands
from dtlint.languages.python.reaching import reaching
from dtlint.languages.python.tree import Binding, Scope
from dtlint.record import NamedTuple

_MAX_DEPTH = 10
_MAX_CALLERS = 6
SAME_OBJECT = frozenset({"to", "cuda", "cpu", "train", "eval", "half", "bfloat16", "float", "requires_grad_"})
"""Methods of a module that return the module itself."""
_HANDED_ON = frozenset({"torch.compile", "torch.nn.SyncBatchNorm.convert_sync_batchnorm"})
"""Functions that return what they are given, as far as the exchange of gradients goes."""

PREPARERS = frozenset({"accelerator", "fabric"})
PREPARING = frozenset({"prepare", "prepare_model", "setup", "setup_module"})
"""Methods of those that wrap models themselves, and return the wrapped one."""
UNKNOWN, OTHER = "unknown", "other"
WRAPPERS = frozenset({"ddp", "fsdp1", "deepspeed"})
"""Kinds of what a script wraps its models in itself."""
INITIALIZE = ("deepspeed.initialize", "deepspeed.runtime.engine.initialize")
_WITH_TRAINERS = frozenset({
    "transformers", "trl", "sentence_transformers", "optimum", "adapters", "swift", "llamafactory", "axolotl",
    "unsloth",
})  # fmt: skip
"""Packages whose Trainers are Transformers'; what a Trainer from elsewhere does is not known."""
_BUILT_UPON = frozenset({"trainer", "lightning"})
"""Kinds that a class of the program has from the class that it is built on."""
_CLASSES: Mapping[str, str] = {
    **dict.fromkeys(DDP, "ddp"),
    **dict.fromkeys(FSDP1, "fsdp1"),
    "accelerate.Accelerator": "accelerator",
    "accelerate.accelerator.Accelerator": "accelerator",
    "lightning.Fabric": "fabric",
    "lightning.fabric.Fabric": "fabric",
    "lightning_fabric.Fabric": "fabric",
    "lightning.Trainer": "lightning",
    "lightning.pytorch.Trainer": "lightning",
    "lightning.pytorch.trainer.Trainer": "lightning",
    "pytorch_lightning.Trainer": "lightning",
    "pytorch_lightning.trainer.Trainer": "lightning",
}


class Maker(NamedTuple):
    """The call that makes an object, and which part of what the call returns the object is. No call: not known."""

    call: Place | None
    path: tuple[int, ...] = ()
    kind: str = UNKNOWN


def kinds(place: Place) -> frozenset[str]:
    """What the object at `place` can be: "ddp", "fsdp1", "deepspeed", "accelerator", "fabric", "lightning",
    "trainer", "other" or "unknown"; several where branches differ.
    """
    return frozenset(maker.kind for maker in makers(place)) or frozenset((UNKNOWN,))


def wrapped_kinds(place: Place) -> frozenset[str]:
    """What the object at `place` is in the runs that wrap it: of `if ddp: model = DDP(model)` the bare model does not
    count, nor does one of DataParallel, which is for runs of one process, nor a wrapper that is certainly not reached.
    """
    made = [maker for maker in makers(place) if maker.kind not in WRAPPERS or _is_reached(maker)]
    wraps = [maker.call for maker in made if maker.call is not None and maker.kind in WRAPPERS]
    inside = {_identity(inner) for call in wraps for inner in wrapped_by(call)} if len(made) > 1 else set()
    left = [maker for maker in made if maker.kind in WRAPPERS or not (_identity(maker) in inside or _is_lone(maker))]
    return frozenset(maker.kind for maker in (left if wraps else made)) or frozenset((UNKNOWN,))


def is_prepared(place: Place, by: frozenset[str] = PREPARERS) -> bool:
    """Whether an Accelerator or Fabric has wrapped a model: `model, loader = accelerator.prepare(model, loader)`."""
    made = [maker.call for maker in makers(place) if maker.kind != OTHER or maker.call is None]
    return bool(made) and all(call is not None and _prepares(call, by) for call in made)


def _prepares(call: Place, by: frozenset[str]) -> bool:
    function = call.node.func if isinstance(call.node, ast.Call) else None
    by_name = isinstance(function, ast.Attribute) and function.attr in PREPARING
    return by_name and isinstance(function, ast.Attribute) and kinds(call.at(function.value)) <= by


def _is_reached(maker: Maker) -> bool:
    return maker.call is None or stands(maker.call) is not False


def _identity(maker: Maker) -> ast.AST | None:
    return maker.call.node if maker.call is not None else None


def _is_lone(maker: Maker) -> bool:
    return maker.call is not None and called(maker.call) in DATA_PARALLEL


def wrapped_by(wrap: Place) -> Iterator[Maker]:
    """What makes the model that a wrapper is given."""
    name = called(wrap)
    given = ("model", 1) if name in INITIALIZE else ("module", 0)
    for item in passed(call_at(wrap, name), *given):
        yield from makers(item.place._replace(budget=Budget()))


def makers(place: Place, path: tuple[int, ...] = ()) -> Iterator[Maker]:
    """The calls that can make the object at `place`; names, helper functions and parameters are followed."""
    if place.depth > _MAX_DEPTH or not place.budget.spend():
        yield Maker(None)
        return
    node = place.node
    if isinstance(node, ast.IfExp):
        yield from makers(place.inner(node.body), path)
        yield from makers(place.inner(node.orelse), path)
    elif isinstance(node, ast.Call):
        yield from _of_call(place, node, path)
    elif isinstance(node, ast.Tuple | ast.List) and path and 0 <= path[0] < len(node.elts):
        yield from makers(place.inner(node.elts[path[0]]), path[1:])
    elif dotted(node):
        yield from _of_name(place, dotted(node), path)
    else:
        yield Maker(None)


def _of_call(place: Place, node: ast.Call, path: tuple[int, ...]) -> Iterator[Maker]:
    function = node.func
    if isinstance(function, ast.Attribute) and function.attr in SAME_OBJECT:
        yield from makers(place.inner(function.value), path)
        return
    name = called(place)
    if name in _HANDED_ON and node.args:
        yield from makers(place.inner(node.args[0]), path)
        return
    helper = definition(place.program, place.module, name) if name else None
    returned = list(_returns(place, helper)) if helper is not None else []
    for value in returned:
        yield from makers(value, path)
    if not returned:
        yield Maker(place, path, _kind(name, path) if helper is None else _kind_of_own(place, helper))


def _returns(place: Place, helper: Definition) -> Iterator[Place]:
    if not isinstance(helper.scope.node, ast.FunctionDef):
        return
    for site in helper.scope.sites:
        if isinstance(site.node, ast.Return) and site.node.value is not None:
            yield place._replace(
                module=helper.module,
                scope=helper.scope,
                node=site.node.value,
                guards=site.guards,
                depth=place.depth + 1,
            )


def _kind(name: str, path: tuple[int, ...] = ()) -> str:
    """The kind that a name from outside the program makes when it is called; "other" for any other class."""
    if name in _CLASSES:
        return _CLASSES[name]
    if name in INITIALIZE:
        return "deepspeed" if path == (0,) else OTHER
    last = name.rpartition(".")[2]
    if last.endswith("Trainer") and last[:1].isupper() and name.partition(".")[0] in _WITH_TRAINERS:
        return "trainer"
    is_class = last[:1].isupper() or name.startswith("torch.nn.")
    return OTHER if is_class or last == "from_pretrained" else UNKNOWN


def _kind_of_own(place: Place, helper: Definition) -> str:
    """The kind of what a class of the program makes: a trainer is one by what it is built on, whatever it is called."""
    outside = map(_kind, bases_from_outside(place, helper))
    return next((kind for kind in outside if kind in _BUILT_UPON), OTHER)


def _of_name(place: Place, name: str, path: tuple[int, ...]) -> Iterator[Maker]:
    holder, bindings = lookup(place.scope, name)
    if holder is not None:
        for binding, _ in reaching(place, holder, bindings):
            yield from _of_binding(place, holder, name, binding, path)
        return
    owned = attribute_bindings(place.module, place.scope, name)
    if not owned:
        yield from _of_attribute(place, path)
    last = max((index for index, (_, binding) in enumerate(owned) if not binding.guards), default=0)
    for method, binding in owned[last:]:
        yield from _of_binding(place, method, name, binding, path)


def _of_attribute(place: Place, path: tuple[int, ...]) -> Iterator[Maker]:
    """An attribute of an object of the program's classes (`trainer.engine`) is what their methods make it."""
    node = place.node
    owners = instances(place.at(node.value)) if isinstance(node, ast.Attribute) else []
    classes = {owner.definition.scope: owner.definition for owner in owners}
    held = [list(set_in(place, found, node)) for found in classes.values()]
    if not held or not all(held):
        yield Maker(None)
    for found, binding in (item for each in held for item in each):
        inside = place._replace(module=found.module, depth=place.depth + 1)
        yield from _of_binding(inside, binding.method or found.scope, dotted(node), binding, path)


def kinds_set_in(place: Place, owner: Definition, node: ast.Attribute) -> frozenset[str]:
    """What an attribute is that the methods of a class, or of the nearest one that it inherits from, set: from the last
    one on that sets it without a condition.
    """
    held = list(set_in(place, owner, node))
    last = max((index for index, (_, binding) in enumerate(held) if not binding.guards), default=0)
    return frozenset(
        maker.kind
        for found, binding in held[last:]
        for maker in _of_binding(
            place._replace(module=found.module, frames=(), depth=place.depth + 1),
            binding.method or found.scope,
            dotted(node),
            binding,
            (),
        )
    )


def set_in(place: Place, owner: Definition, node: ast.AST) -> Iterator[tuple[Definition, Binding]]:
    """What the methods of a class, or of the nearest one that it inherits from, set an attribute to."""
    name = f"self.{node.attr}" if isinstance(node, ast.Attribute) else ""
    holder = next((found for found in with_bases(place, owner) if name in found.scope.bindings), None)
    if holder is not None:
        yield from ((holder, binding) for binding in holder.scope.bindings[name])


def _of_binding(place: Place, holder: Scope, name: str, binding: Binding, path: tuple[int, ...]) -> Iterator[Maker]:
    inside = place._replace(scope=holder, guards=binding.guards, depth=place.depth + 1)
    if binding.kind == "value" and isinstance(binding.node, ast.expr):
        yield from makers(inside.at(binding.node), (*binding.path, *path))
    elif binding.kind == "parameter":
        yield from _of_parameter(inside, holder, name, binding, path)
    else:
        yield Maker(None)


def _of_parameter(place: Place, function: Scope, name: str, binding: Binding, path: tuple[int, ...]) -> Iterator[Maker]:
    """A parameter is what its callers pass; without callers in sight, what its annotation says."""
    found = 0
    for module, site in callers(place.program, Definition(place.module, function)):
        passed = argument_node(function, name, site.node)
        found += 1
        if passed is None or found > _MAX_CALLERS:
            yield Maker(None)
            return
        outside = place_of(place.program, module, site)
        yield from makers(outside._replace(node=passed, depth=place.depth + 1, budget=place.budget), path)
    if not found:
        annotation = binding.place.annotation if isinstance(binding.place, ast.arg) else None
        names = qualified(place.module, annotation, function.parent or function) if annotation is not None else ()
        yield Maker(None, path, _CLASSES.get(names[0], UNKNOWN) if len(names) == 1 else UNKNOWN)
