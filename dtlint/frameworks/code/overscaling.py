"""Finds mean losses that are multiplied by the number of ranks where the wrapper averages: `code.overscaled_losses`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dtlint.frameworks import Member
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.code.loss_factors import bound, counts_ranks, factors, is_averaged, loss_of, without
from dtlint.frameworks.code.mentions import mentions
from dtlint.frameworks.pytorch.step_area import values_of
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.called import argument_node
from dtlint.languages.python.callers import callers
from dtlint.languages.python.calls import called
from dtlint.languages.python.names import lookup, qualified
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Definition, Program
from dtlint.languages.python.reach import enclosing_function, stands
from dtlint.languages.python.tree import Module, Scope, Site

_MAX_DEPTH = 8
_REASONS = re.compile(
    r"gather|all_reduce|reduction\s*=|size_average|comm_hook|divide_factor|predivide|tensor_parallel|context_parallel"
    r"|sequence_parallel|init_device_mesh|(\blr|learning_rate)\b[^\n]{0,200}world|world_size\s*\*\s*\w{0,60}batch"
    r"|batch\w{0,60}\s*\*\s*\w{0,60}\.?(get_)?world|nbs\b|autograd\.Function"
)
"""Words of programs that may have a reason: features gathered from all ranks without gradients, sums, global counts,
another learning rate, partial gradients.
"""
_MEANS = frozenset(
    f"torch.nn.functional.{name}"
    for name in (
        "binary_cross_entropy",
        "binary_cross_entropy_with_logits",
        "cross_entropy",
        "huber_loss",
        "l1_loss",
        "mse_loss",
        "nll_loss",
        "smooth_l1_loss",
    )
)
"""Losses of torch that are means unless a reduction is written."""
_CRITERIA = re.compile(r"torch\.nn\.(BCE|BCEWithLogits|CrossEntropy|Huber|L1|MSE|NLL|SmoothL1)Loss")


def overscaled_losses(program: Program) -> tuple[Member, ...]:
    """The collection `code.overscaled_losses`: `factor`, the number of ranks as the program writes it, that a loss
    which certainly is a mean over this rank's samples is multiplied by, and by nothing else. Edit: `drop`.
    """
    if mentions(program, _REASONS):
        return ()
    found: dict[tuple[str, int], Member] = {}
    for module in program.modules.values():
        for site in module.called.get("backward", ()):
            place = place_of(program, module, site)
            member = _member(place)
            if member is not None and stands(place) is not False:
                found.setdefault((member.place.path, member.place.start), member)
    return tuple(found.values())


def _member(backward: Place) -> Member | None:
    loss = loss_of(backward)
    parts = list(factors(loss)) if loss is not None else []
    ranks = [part for part in parts if counts_ranks(part.place) is True]
    if loss is None or len(ranks) != 1 or any(part.divides for part in parts) or not _is_mean(loss, 0):
        return None
    whole = ranks[0].whole
    if not is_averaged(backward.program, backward, whole):
        return None
    span = whole.module.span(whole.node)
    factor = ranks[0].place.module.text(ranks[0].place.node, 40)
    related = ((backward.module.span(backward.node), "goes backward here"),)
    return Member(span, texts(span, factor=factor), related, {"drop": without(ranks[0])})


def _is_mean(place: Place, depth: int) -> bool:
    """Whether an expression is certainly a mean over samples, but for factors that count the ranks."""
    node = place.node
    if depth > _MAX_DEPTH or not place.budget.spend():
        return False
    if isinstance(node, ast.BinOp):
        sides = [place.at(side) for side in (node.left, node.right)]
        return isinstance(node.op, ast.Mult) and _all_means(
            [side for side in sides if counts_ranks(side) is not True], depth
        )
    if isinstance(node, ast.Call):
        return _is_mean_call(place, node, depth)
    return bool(dotted(node)) and _all_means(list(_bound_to(place, dotted(node))), depth)


def _all_means(places: list[Place], depth: int) -> bool:
    return bool(places) and all(_is_mean(place, depth + 1) for place in places)


def _bound_to(place: Place, name: str) -> Iterator[Place]:
    """What a name is bound to; of `loss *= world` what the loss was before."""
    for inner, binding in bound(place, name):
        if isinstance(binding.node, ast.AugAssign) and isinstance(binding.node.op, ast.Mult):
            before = ast.copy_location(ast.Name(id=name, ctx=ast.Load()), binding.node)
            yield inner.inner(before)
        else:
            yield inner


def _is_mean_call(place: Place, node: ast.Call, depth: int) -> bool:
    if isinstance(node.func, ast.Attribute) and node.func.attr == "mean" and not node.args:
        return True
    if called(place) in _MEANS:
        return True
    return _is_mean_criterion(place.at(node.func), depth)


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
    return len(names) == 1 and bool(_CRITERIA.fullmatch(names[0]))
