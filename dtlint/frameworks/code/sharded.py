"""Finds sharded models whose gradients are clipped shard by shard."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtlint.frameworks import Member
from dtlint.frameworks.code.heirs import kinds_in_heirs
from dtlint.frameworks.code.microsteps import is_inside
from dtlint.frameworks.code.objects import kinds
from dtlint.frameworks.code.ranks import is_alone
from dtlint.frameworks.pytorch.names import FSDP1
from dtlint.languages.python.bindings import dotted, last_word
from dtlint.languages.python.calls import Call, calls, passed
from dtlint.languages.python.editing import as_method
from dtlint.languages.python.excluding import kept_apart
from dtlint.languages.python.following import ways
from dtlint.languages.python.names import qualified
from dtlint.languages.python.places import Place
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import standing, stands
from dtlint.source import Edit
from dtlint.value import written

_CLIPS = ("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad.clip_grad_norm_")
_PARAMETERS = ("parameters", "named_parameters")
_INFINITE = frozenset({"math.inf", "torch.inf", "numpy.inf", "numpy.Inf", "numpy.infty", "torch.math.inf"})


def shard_clips(program: Program) -> tuple[Member, ...]:
    """torch's clip_grad_norm_ on the parameters of a model that is certainly FSDP1 there, or in the objects of a class
    that inherits the method.
    """
    wraps = standing(program, FSDP1)
    found = (_member(call, wraps) for call in calls(program, _CLIPS))
    return tuple(member for member in found if member is not None)


def _member(call: Call, wraps: list[Call]) -> Member | None:
    model = next((model for item in passed(call, "parameters", 0) for model in models_of(item.place)), None)
    if model is None or _asks_for_class(call) or _is_whole(call.place.program) or stands(call.place) is False:
        return None
    name, certain = dotted(model.node), kinds(model) == {"fsdp1"}
    if not certain and not _knows_better(call, name) and kinds_in_heirs(model) != {"fsdp1"}:
        return None
    if _is_harmless(call):
        return None
    if wraps and all(kept_apart(call.place, item.place) for item in wraps):
        return None
    edits = {"call_method": _by_method(call, name) if certain else ()}
    wrap = wraps[0].head if wraps else call.head
    return Member(call.head, {"model": written(name, call.head)}, ((wrap, "the parameters are sharded here"),), edits)


def models_of(place: Place) -> Iterator[Place]:
    """The models whose parameters an expression certainly is, or a part of them: `model.parameters()`, a list of them,
    those that are trained.
    """
    for way in ways(place):
        end = way.end
        inner = _parameters_in(end.node) if isinstance(end, Place) else None
        if not isinstance(end, Place) or inner is None:
            continue
        if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and inner.func.attr in _PARAMETERS:
            yield end.at(inner.func.value)
        elif end.budget.spend():
            yield from models_of(end.inner(inner))


def _parameters_in(node: ast.AST) -> ast.AST | None:
    """The parameters that an expression takes from: itself, what `list` or `filter` is given, what is picked from."""
    if isinstance(node, ast.ListComp | ast.GeneratorExp):
        first = node.generators[0]
        picks = len(node.generators) == 1 and _holds(first.target, node.elt) and not any(map(_asks, first.ifs))
        return first.iter if picks else None
    if not isinstance(node, ast.Call):
        return None
    if isinstance(node.func, ast.Attribute):
        return node if node.func.attr in _PARAMETERS else None
    return node.args[-1] if dotted(node.func) in ("list", "tuple", "filter", "iter") and node.args else None


def _holds(target: ast.expr, name: ast.expr) -> bool:
    """Whether what is picked is the parameter: `p`, the last of `name, p`."""
    last = target.elts[-1] if isinstance(target, ast.Tuple) and target.elts else target
    return isinstance(last, ast.Name) and dotted(last) == dotted(name)


def _asks(test: ast.expr) -> bool:
    """Whether a condition asks of what class a parameter is, or what it has."""
    named = (dotted(node.func) for node in ast.walk(test) if isinstance(node, ast.Call))
    return any(name.rpartition(".")[2] in ("isinstance", "hasattr", "type") for name in named)


def _is_harmless(call: Call) -> bool:
    """Whether each rank's own shards are all there is, or all that the call can reach, or nothing is clipped."""
    alone = any(is_alone(call.place, guard) for guard in call.place.guards)
    return alone or _clips_nothing(call) or _stands_in_for_method(call) or _is_gathered(call)


def _clips_nothing(call: Call) -> bool:
    """Whether the norm is only asked for: no gradient is beyond an infinite one (the factor is clamped to 1)."""
    ends = [way.end for item in passed(call, "max_norm", 1) for way in ways(item.place)]
    return bool(ends) and all(isinstance(end, Place) and _is_infinite(end) for end in ends)


def _is_infinite(place: Place) -> bool:
    """`math.inf`, `torch.inf`, `np.inf`, `float("inf")`"""
    node = place.node
    if isinstance(node, ast.Call):
        text = node.args[0] if dotted(node.func) == "float" and len(node.args) == 1 else None
        return isinstance(text, ast.Constant) and str(text.value).strip().lstrip("+").lower() in ("inf", "infinity")
    return bool(set(qualified(place.module, node, place.scope)) & _INFINITE)


def _stands_in_for_method(call: Call) -> bool:
    """Whether the call is made where the model has no method of its own: `except AttributeError:` behind that."""
    for node in ast.walk(call.place.scope.node):
        if isinstance(node, ast.Try) and any(is_inside(call.place.node, handler) for handler in node.handlers):
            tried = (each for step in node.body for each in ast.walk(step) if isinstance(each, ast.Call))
            return any(isinstance(each.func, ast.Attribute) and each.func.attr == "clip_grad_norm_" for each in tried)
    return False


def _is_gathered(call: Call) -> bool:
    """Whether FSDP has put the gradients together there: `with FSDP.summon_full_params(model, with_grads=True):`."""
    for node in ast.walk(call.place.scope.node):
        if isinstance(node, ast.With) and is_inside(call.place.node, node):
            for opened in (item.context_expr for item in node.items):
                words = {each.arg for each in opened.keywords} if isinstance(opened, ast.Call) else set()
                if isinstance(opened, ast.Call) and last_word(opened.func) == "summon_full_params":
                    return "with_grads" in words
    return False


def _by_method(call: Call, model: str) -> tuple[Edit, ...]:
    """`clip_grad_norm_(model.parameters(), x)` as `model.clip_grad_norm_(x)`, which takes the norm, and its kind."""
    node = call.place.node
    given = passed(call, "parameters", 0)[0].place.node
    if not isinstance(given, ast.Call) or dotted(given.func) != f"{model}.parameters":
        return ()
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
