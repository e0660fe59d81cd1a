"""Finds sharded models whose optimizer holds the old parameters, or whose gradients are clipped shard by shard."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtlint.frameworks import Member
from dtlint.frameworks.code.objects import kinds
from dtlint.frameworks.pytorch.names import FSDP1, FSDP2
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.calls import Call, argument, called, calls, passed
from dtlint.languages.python.editing import as_method
from dtlint.languages.python.excluding import kept_apart
from dtlint.languages.python.names import qualified
from dtlint.languages.python.places import Place
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import stands
from dtlint.languages.python.tree import Scope
from dtlint.source import Edit
from dtlint.value import Value, written

_OPTIMIZERS = (
    "torch.optim.",
    "bitsandbytes.optim.",
    "apex.optimizers.",
    "transformers.AdamW",
    "transformers.Adafactor",
    "transformers.optimization.A",
)
"""Packages and classes of optimizers, by how their names begin."""
_OWN = "configure_optimizers"
"""The method by which a model builds its optimizer, as in minGPT and nanoGPT."""
_PARAMETERS = frozenset({"parameters", "named_parameters"})
_MAX_NAMES = 3
_CLIPS = ("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad.clip_grad_norm_")


def early_optimizers(program: Program) -> tuple[Member, ...]:
    """Optimizers built from a model's parameters before FSDP replaces these."""
    found = []
    for call in (*calls(program, FSDP1), *calls(program, FSDP2)):
        if stands(call.place) is False or _keeps_parameters(call) or call.loops:
            continue
        model = passed(call, "module", 0)
        name = dotted(model[0].place.node) if model else ""
        optimizer = _optimizer_before(call, name) if name else None
        if optimizer is not None:
            span = call.place.module.span(optimizer)
            fields = {"model": written(name, span)}
            found.append(Member(span, fields, ((call.head, "the parameters are replaced here"),)))
    return tuple(found)


def _keeps_parameters(call: Call) -> bool:
    """Whether FSDP1 keeps the parameter objects, or may."""
    if call.name not in FSDP1:
        return bool(call.open)
    value = argument(call, "use_orig_params")
    return bool(call.open) or (value is not None and not (isinstance(value, Value) and value.value is False))


def _optimizer_before(call: Call, model: str) -> ast.Call | None:
    """The optimizer that is built from this model's parameters in the same block before the call, and used."""
    early, names = None, set[str]()
    for site in call.place.scope.sites:
        node = site.node.value if isinstance(site.node, ast.Assign) else None
        if not isinstance(node, ast.Call) or not isinstance(site.node, ast.Assign) or site.guards != call.place.guards:
            continue
        if not _optimises(call.place.at(node), node, model):
            continue
        before = node.lineno < getattr(call.place.node, "lineno", 0)
        target = dotted(site.node.targets[0])
        if not before and target in names:
            return None
        if before and not _rebound_between(call.place.scope, model, node, call.place.node):
            early, names = node, {*names, target}
    return early


def _optimises(place: Place, node: ast.Call, model: str) -> bool:
    """Whether a call builds an optimizer of a model's parameters: a class of optimizers that is given them, or the
    model's own `configure_optimizers`.
    """
    if isinstance(node.func, ast.Attribute) and node.func.attr == _OWN:
        return dotted(node.func.value) == model
    first = node.args[0] if node.args else next((item.value for item in node.keywords if item.arg == "params"), None)
    if first is None or not called(place).startswith(_OPTIMIZERS):
        return False
    owners = set(_owners(place.at(first), 0))
    return bool(owners) and all(owner == model or owner.startswith(f"{model}.") for owner in owners)


def _owners(place: Place, depth: int) -> Iterator[str]:
    """The models whose parameters an expression holds, also by way of names: `[p for p in model.parameters() ...]`."""
    for node in ast.walk(place.node):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _PARAMETERS:
            yield dotted(node.func.value)
        elif isinstance(node, ast.Name) and depth < _MAX_NAMES:
            for binding in place.scope.bindings.get(node.id, ()):
                if binding.kind == "value" and binding.node is not None:
                    yield from _owners(place.at(binding.node), depth + 1)


def _rebound_between(scope: Scope, name: str, start: ast.AST, end: ast.AST) -> bool:
    """Whether a name is bound anew between two statements, so that it means another model."""
    lines = [getattr(binding.place, "lineno", 0) for binding in scope.bindings.get(name, [])]
    first, last = getattr(start, "lineno", 0), getattr(end, "lineno", 0)
    return any(first < line < last for line in lines)


def shard_clips(program: Program) -> tuple[Member, ...]:
    """torch's clip_grad_norm_ on the parameters of a model that is certainly FSDP1 there."""
    found = []
    wraps = [item for item in calls(program, FSDP1) if stands(item.place) is not False]
    for call in calls(program, _CLIPS):
        given = passed(call, "parameters", 0)
        node = given[0].place.node if given else None
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "parameters":
            continue
        model = given[0].place.at(node.func.value)
        certain = kinds(model) == {"fsdp1"} or _knows_better(call, dotted(node.func.value))
        if not certain or _asks_for_class(call) or _is_whole(program) or stands(call.place) is False:
            continue
        if wraps and all(kept_apart(call.place, item.place) for item in wraps):
            continue
        model_name = dotted(node.func.value)
        edits = {"call_method": _by_method(call, model_name) if kinds(model) == {"fsdp1"} else ()}
        fields = {"model": written(model_name, call.head)}
        wrap = wraps[0].head if wraps else call.head
        found.append(Member(call.head, fields, ((wrap, "the parameters are sharded here"),), edits))
    return tuple(found)


def _by_method(call: Call, model: str) -> tuple[Edit, ...]:
    """`clip_grad_norm_(model.parameters(), x)` as `model.clip_grad_norm_(x)`, which takes the norm, and its kind."""
    node = call.place.node
    if not isinstance(node, ast.Call) or call.open or not call.keywords.keys() <= {"max_norm", "norm_type"}:
        return ()
    edit = as_method(call.place.module, node, f"{model}.clip_grad_norm_")
    return (edit,) if edit is not None else ()


def _knows_better(call: Call, model: str) -> bool:
    """Whether the same function clips by the method where the model is FSDP's, so that it may be here as well."""
    for site in call.place.module.called.get("clip_grad_norm_", ()):
        if site.scope is not call.place.scope or not isinstance(site.node, ast.Call):
            continue
        by_method = dotted(site.node.func) == f"{model}.clip_grad_norm_"
        if by_method and any(_is_class_test(call.place, guard.test, model) for guard in site.guards if guard.holds):
            return True
    return False


def _is_class_test(place: Place, test: ast.expr | None, model: str) -> bool:
    """`isinstance(model, FullyShardedDataParallel)`"""
    if not isinstance(test, ast.Call) or dotted(test.func) != "isinstance" or len(test.args) != 2:
        return False
    names = qualified(place.module, test.args[1], place.scope)
    return dotted(test.args[0]) == model and len(names) == 1 and names[0] in FSDP1


def _asks_for_class(call: Call) -> bool:
    words = ("isinstance", "fsdp", "hasattr", "shard")
    texts = [call.place.module.text(guard.test, 200).lower() for guard in call.place.guards if guard.test is not None]
    return any(word in text for text in texts for word in words)


def _is_whole(program: Program) -> bool:
    """Whether FSDP may keep the parameters whole (NO_SHARD)."""
    return any("NO_SHARD" in module.source.text for module in program.modules.values())
