"""Tells whether a loss certainly is a mean over this rank's samples, but for factors that count the ranks."""

from __future__ import annotations

import ast
import re

from dtlint.frameworks.code.loss_factors import bound, counts_ranks, may_count_ranks
from dtlint.frameworks.code.objects import WRAPPERS, makers, wrapped_by
from dtlint.frameworks.pytorch.step_area import called_function, values_of
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.called import argument_node
from dtlint.languages.python.callers import callers
from dtlint.languages.python.calls import called
from dtlint.languages.python.choices import options
from dtlint.languages.python.constants import evaluate
from dtlint.languages.python.entered import passed_on_entry
from dtlint.languages.python.following import ways
from dtlint.languages.python.names import lookup, qualified
from dtlint.languages.python.places import Budget, Frame, Place, place_of
from dtlint.languages.python.program import Definition, definition
from dtlint.languages.python.reach import enclosing_function
from dtlint.languages.python.tree import Module, Scope, Site
from dtlint.value import Value

_MAX_DEPTH = 16
_MEANS = frozenset(
    f"torch.nn.functional.{name}"
    for name in (
        "binary_cross_entropy",
        "binary_cross_entropy_with_logits",
        "cross_entropy",
        "huber_loss",
        "kl_div",
        "l1_loss",
        "mse_loss",
        "nll_loss",
        "smooth_l1_loss",
    )
)
"""Losses of torch that are means unless another reduction is written."""
_CRITERIA = re.compile(r"torch\.nn\.(BCE|BCEWithLogits|CrossEntropy|Huber|KLDiv|L1|MSE|NLL|SmoothL1)Loss")
_REDUCTIONS = ("mean", "batchmean")
_KEEPS = frozenset({"float", "to", "cuda", "clone", "squeeze", "double", "contiguous"})
"""Methods of a loss whose result is the same loss."""
_WEIGHTS = re.compile(
    r"(?<![a-z])(weights?|coefs?|coeff(icient)?s?|alpha|beta|gamma|lam(bd|bda)?|temp(erature)?|tau|hard(ness)?|ratio)(?![a-z])",
    re.IGNORECASE,
)
"""Words of settings by which the parts of a loss are weighed."""
_ACCUMULATION = re.compile(r"accum", re.IGNORECASE)
_Path = tuple[int, ...]
_Part = tuple[Place, _Path]
"""An expression, and the way to the item of it that is meant."""


def is_mean(place: Place, path: _Path = (), depth: int = 0) -> bool:
    """Whether an expression certainly is a mean over samples, or means that are weighed and added, but for factors that
    count the ranks. `path` leads into what is unpacked.
    """
    node = place.node
    if depth > _MAX_DEPTH or not place.budget.spend():
        return False
    if isinstance(node, ast.Tuple) and path:
        return 0 <= path[0] < len(node.elts) and is_mean(place.at(node.elts[path[0]]), path[1:], depth + 1)
    if isinstance(node, ast.Call):
        return _is_mean_call(place, node, path, depth)
    if _is_loss_of_transformers(place):
        return not path
    if dotted(node):
        parts = _bound_to(place, dotted(node), path)
        return bool(parts) and all(is_mean(part, inner, depth + 1) for part, inner in parts)
    return not path and _is_mean_operation(place, depth)


def _is_loss_of_transformers(place: Place) -> bool:
    """Whether an expression is the loss that a model of Transformers returns (`model(**batch).loss`), which is a mean
    over this rank's labels unless the call says how many there are (loss/loss_utils.py, fixed_cross_entropy).
    """
    node = place.node
    if not (isinstance(node, ast.Attribute) and node.attr == "loss" and isinstance(node.value, ast.Name | ast.Call)):
        return False
    ends = [way.end for way in ways(place.at(node.value))]
    called_as = [end.at(end.node.func) for end in ends if isinstance(end, Place) and isinstance(end.node, ast.Call)]
    return len(called_as) == len(ends) and all(map(_is_of_transformers, called_as))


def _is_of_transformers(model: Place) -> bool:
    """Whether a model is one of Transformers, wrapped or not."""
    made = list(makers(model._replace(budget=Budget())))
    inner = [wrapped_by(maker.call) if maker.kind in WRAPPERS and maker.call is not None else [maker] for maker in made]
    parts = [each.call for found in inner for each in found]
    return bool(parts) and all(call is not None and called(call).startswith("transformers.") for call in parts)


def _is_mean_operation(place: Place, depth: int) -> bool:
    """A mean times weights or the number of ranks, means that are added, one divided by the accumulated batches."""
    node = place.node
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub | ast.UAdd) and is_mean(place.at(node.operand), (), depth + 1)
    if isinstance(node, ast.IfExp):
        return _are_means([place.at(node.body), place.at(node.orelse)], depth)
    if not isinstance(node, ast.BinOp):
        return False
    left, right = place.at(node.left), place.at(node.right)
    if isinstance(node.op, ast.Mult):
        return _are_means([side for side in (left, right) if not _is_factor(side)], depth)
    if isinstance(node.op, ast.Add | ast.Sub):
        return _are_means([left, right], depth)
    return isinstance(node.op, ast.Div) and is_accumulation(right) and is_mean(left, (), depth + 1)


def is_accumulation(place: Place) -> bool:
    """Whether a divisor is the number of accumulated batches, by its name."""
    return bool(_ACCUMULATION.search(dotted(place.node).rpartition(".")[2]))


def _are_means(places: list[Place], depth: int) -> bool:
    return bool(places) and all(is_mean(place, (), depth + 1) for place in places)


def _is_factor(place: Place) -> bool:
    return counts_ranks(place) is True or _is_weight(place, 0)


def _is_weight(place: Place, depth: int) -> bool:
    """Whether a factor is a number or a setting by its name, which weighs a part of the loss, and not the ranks."""
    node = place.node
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float)
    if isinstance(node, ast.BinOp) and depth < _MAX_DEPTH:
        return all(_is_weight(place.at(side), depth + 1) for side in (node.left, node.right))
    if isinstance(node, ast.Subscript):
        key = node.slice
        return isinstance(key, ast.Constant) and bool(_WEIGHTS.search(str(key.value)))
    if not dotted(node) or may_count_ranks(place) or counts_ranks(place) is True:
        return False
    ends = [way.end for way in ways(place)]
    known = [end for end in ends if isinstance(end, Place) and dotted(end.node) != dotted(node)]
    if known and len(known) == len(ends):
        return depth < _MAX_DEPTH and all(_is_weight(end, depth + 1) for end in known)
    if _WEIGHTS.search(dotted(node).rpartition(".")[2]):
        return True
    return all(isinstance(item.value, Value) and _is_number(item.value) for item in options(evaluate(place)))


def _is_number(value: Value) -> bool:
    return isinstance(value.value, int | float)


def _bound_to(place: Place, name: str, path: _Path) -> list[_Part]:
    """What a name is bound to; of `loss *= world` what the loss was before, of `loss += other` both; what is passed for
    a parameter.
    """
    found: list[_Part] = []
    for inner, binding in bound(place, name):
        if isinstance(binding.node, ast.AugAssign):
            found += _updated(inner, binding.node, name, path)
        else:
            found.append((inner, (*binding.path, *path)))
    outside = None if found else passed_on_entry(place, name)
    return found if outside is None else [(outside, path)]


def _updated(place: Place, node: ast.AugAssign, name: str, path: _Path) -> list[_Part]:
    """What a name was before a statement that changes it, and what is added; the statement where that is not told."""
    before = place.inner(ast.copy_location(ast.Name(id=name, ctx=ast.Load()), node))
    if isinstance(node.op, ast.Add | ast.Sub):
        return [(before, path), (place.at(node.value), ())]
    scaled = _is_factor if isinstance(node.op, ast.Mult) else is_accumulation
    return [(before if scaled(place.at(node.value)) else place, path)]


def _is_mean_call(place: Place, node: ast.Call, path: _Path, depth: int) -> bool:
    function = node.func
    if isinstance(function, ast.Attribute) and function.attr == "mean" and not node.args:
        return not path
    if isinstance(function, ast.Attribute) and function.attr in _KEEPS:
        return is_mean(place.at(function.value), path, depth + 1)
    if not path and (called(place) in _MEANS or _is_mean_criterion(place.at(function), depth)):
        return all(_is_reduced(keyword) for keyword in node.keywords)
    helpers = _helpers(place, node)
    return bool(helpers) and all(_returns_means(place, helper, path, depth) for helper in helpers)


def _is_reduced(keyword: ast.keyword) -> bool:
    """Whether an argument leaves a loss a mean."""
    if keyword.arg in ("size_average", "reduce", None):
        return False
    return keyword.arg != "reduction" or getattr(keyword.value, "value", None) in _REDUCTIONS


def _helpers(place: Place, node: ast.Call) -> list[Definition]:
    """The functions of the program that a call may run: by name, or the forward pass of a criterion of its own."""
    helper = called_function(place)
    if helper is not None:
        return [helper]
    ends = [way.end for way in ways(place.at(node.func))]
    found = [_forward_of(end) if isinstance(end, Place) else None for end in ends]
    known = [item for item in found if item is not None]
    return known if len(known) == len(found) else []


def _forward_of(built: Place) -> Definition | None:
    """The forward pass of a module that is built in sight and no wrapper of the model."""
    call = built.node
    while isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in ("cuda", "to"):
        call = call.func.value
    names = qualified(built.module, call.func, built.scope) if isinstance(call, ast.Call) else ()
    found = [definition(built.program, built.module, f"{name}.forward") for name in names]
    return found[0] if len(found) == 1 else None


def _returns_means(place: Place, helper: Definition, path: _Path, depth: int) -> bool:
    """Whether a function returns a mean on every way."""
    frames = (*place.frames, Frame(helper.scope, place))
    found = []
    for site in helper.scope.sites:
        if isinstance(site.node, ast.Return):
            value = site.node.value
            inner = place._replace(module=helper.module, scope=helper.scope, guards=site.guards, frames=frames)
            found.append(value is not None and is_mean(inner.at(value), path, depth + 1))
    return bool(found) and all(found)


def _is_mean_criterion(place: Place, depth: int) -> bool:
    """Whether what is called is a mean of torch's wherever it comes from: built in sight, kept as an attribute, or
    handed over by every call of the function that it is a parameter of.
    """
    if depth > _MAX_DEPTH or not place.budget.spend():
        return False
    if isinstance(place.node, ast.Call):
        return _is_criterion(place, place.node)
    if not dotted(place.node):
        return False
    if set(qualified(place.module, place.node, place.scope)) & _MEANS:
        return True
    bound_to = [place._replace(scope=scope, node=value) for scope, value in values_of(place, place.node)]
    sources = [source for source in bound_to if not _is_none(source.node)] + _given(place, dotted(place.node))
    return bool(sources) and all(source is not None and _is_mean_criterion(source, depth + 1) for source in sources)


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _given(place: Place, name: str) -> list[Place | None]:
    """What each call of the function that a name is a parameter of passes for it; None where that is not written, or
    no call is in sight."""
    function, (holder, bindings) = enclosing_function(place.scope), lookup(place.scope, name)
    if function is None or holder is not function or all(binding.kind != "parameter" for binding in bindings):
        return []
    calling = callers(place.program, Definition(place.module, function))
    return [_argument(place, function, name, module, site) for module, site in calling] or [None]


def _argument(place: Place, function: Scope, name: str, module: Module, site: Site) -> Place | None:
    node = argument_node(function, name, site.node)
    here = place_of(place.program, module, site)
    return here._replace(node=node, budget=place.budget) if node is not None else None


def _is_criterion(place: Place, built: ast.Call) -> bool:
    while isinstance(built.func, ast.Attribute) and built.func.attr in ("cuda", "to"):
        if not isinstance(built.func.value, ast.Call):
            return False
        built = built.func.value
    names = qualified(place.module, built.func, place.scope)
    is_known = len(names) == 1 and bool(_CRITERIA.fullmatch(names[0]))
    return is_known and all(_is_reduced(keyword) for keyword in built.keywords)
