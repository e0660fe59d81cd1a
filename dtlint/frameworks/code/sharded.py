"""Finds sharded models whose gradients are clipped shard by shard."""

from __future__ import annotations

import ast

from dtlint.frameworks import Member
from dtlint.frameworks.code.objects import kinds
from dtlint.frameworks.pytorch.names import FSDP1
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.calls import Call, calls, passed
from dtlint.languages.python.editing import as_method
from dtlint.languages.python.excluding import kept_apart
from dtlint.languages.python.names import qualified
from dtlint.languages.python.places import Place
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import stands
from dtlint.source import Edit
from dtlint.value import written

_CLIPS = ("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad.clip_grad_norm_")


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
