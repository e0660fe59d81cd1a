"""Finds losses that are divided by the number of ranks where the wrapper averages anyway: `code.averaged_losses`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dtlint.frameworks import Member
from dtlint.frameworks.code.loss_factors import (
    AVERAGING,
    Factor,
    counts_ranks,
    factors,
    is_averaged,
    loss_of,
    may_count_ranks,
    terms,
    without,
)
from dtlint.frameworks.code.passes import without_gradients
from dtlint.frameworks.code.reduced_statistics import reduced_statistics
from dtlint.frameworks.code.scaled_gradients import scales_gradients
from dtlint.frameworks.pytorch.exchange import ALL_REDUCE
from dtlint.frameworks.pytorch.tensor_kinds import is_gradient, kind_of
from dtlint.languages.python.calls import calls
from dtlint.languages.python.places import Budget, Place, place_of
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import enclosing_function, stands
from dtlint.source import Span
from dtlint.value import written

_DIVIDES_SEVERAL = "_foreach_div_"
"""The function of torch that divides the tensors of a list."""
_OWN_AVERAGE = (
    "register_comm_hook",
    "gradient_divide_factor",
    "reduce_scatter_divide_factor",
    "gradient_predivide",
    "distributed.nn",
)
"""Words of programs that set the divisor of the exchange, or gather with gradients: nothing is said of them."""
_CUTS = frozenset({"detach", "item", "data", "tolist", "numpy"})
"""Attributes of a tensor that no gradient flows through."""
_EXCHANGES = re.compile(r"all_gather|all_reduce|reduce_scatter")


def averaged_losses(program: Program) -> tuple[Member, ...]:
    """Losses divided by the number of ranks, or by a count summed over ranks, in a program whose wrapper averages and
    that does not scale the gradients by hand, as to take that division back.
    """
    if any(word in module.source.text for module in program.modules.values() for word in _OWN_AVERAGE):
        return ()
    found: dict[tuple[str, int], Member] = {}
    for module in program.modules.values():
        for site in module.called.get("backward", ()):
            place = place_of(program, module, site)
            for member in _of_loss(place) if stands(place) is not False else ():
                found.setdefault((member.place.path, member.place.start), member)
    divided = tuple(_divided_gradients(program))
    if scales_gradients(program):
        return divided
    return (*found.values(), *divided) or tuple(reduced_statistics(program))


def _of_loss(backward: Place) -> Iterator[Member]:
    """The loss that goes backward, where it is divided by the ranks as a whole; else the terms of it that are."""
    loss = loss_of(backward)
    whole = list(factors(loss)) if loss is not None else []
    member = _member(backward, whole)
    if member is not None:
        yield member
    elif loss is not None and not _gathers_with_gradients(backward.program):
        for term in terms(loss._replace(budget=Budget())):
            found = list(factors(term))
            cut = any(_is_cut(part, backward) for part in (term, *(factor.whole for factor in found)))
            member = _member(backward, [*whole, *found], term) if not cut else None
            yield from (member,) if member is not None else ()


def _is_detached(divided: ast.AST) -> bool:
    """Whether what is divided is a number of a tensor, or a copy without gradients: `shown.item() / world` of a loss
    for the log that has the same name goes backward nowhere.
    """
    node = divided.left if isinstance(divided, ast.BinOp) else divided
    while isinstance(node, ast.Call | ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Attribute) and node.attr in _CUTS:
            return True
        node = node.func if isinstance(node, ast.Call) else node.value
    return False


def _gathers_with_gradients(program: Program) -> bool:
    """Whether a program has an exchange of its own that carries gradients: what comes of one may be a sum of ranks."""
    texts = (module.source.text for module in program.modules.values())
    return any("autograd.Function" in text and _EXCHANGES.search(text) for text in texts)


def _is_cut(part: Place, backward: Place) -> bool:
    """Whether no gradient may flow through a part of a loss, or through the function that it comes from."""
    function = enclosing_function(part.scope)
    around = part.node if function is None or function is enclosing_function(backward.scope) else function.node
    cuts = any(isinstance(node, ast.Attribute) and node.attr in _CUTS for node in ast.walk(around))
    return cuts or without_gradients(part)


def _divided_gradients(program: Program) -> Iterator[Member]:
    """Gradients divided by the number of ranks by hand, in a program that neither exchanges them by hand nor
    multiplies a loss by that number.
    """
    if any(True for _ in calls(program, ALL_REDUCE)) or not any(True for _ in calls(program, AVERAGING)):
        return
    spoken = [module for module in program.modules.values() if ".grad" in module.source.text]
    for module in spoken if spoken and not _multiplies_loss(program) else ():
        for scope in module.scopes:
            for site in scope.sites:
                place = place_of(program, module, site)
                divisor = _gradient_divisor(place)
                if divisor is None or counts_ranks(divisor) is not True or not is_averaged(program, place):
                    continue
                if stands(place) is not False:
                    yield _divided(place, divisor)


def _multiplies_loss(program: Program) -> bool:
    """Whether a loss goes backward that may be multiplied by the number of ranks."""
    sites = [(module, site) for module in program.modules.values() for site in module.called.get("backward", ())]
    losses = [loss_of(place_of(program, module, site)) for module, site in sites]
    found = [factor.place for loss in losses if loss is not None for factor in factors(loss) if not factor.divides]
    return any(counts_ranks(place) is True or may_count_ranks(place) for place in found)


def _gradient_divisor(place: Place) -> Place | None:
    """What `p.grad /= n`, `p.grad.div_(n)` and `torch._foreach_div_(grads, n)` divide by."""
    node = place.node
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div):
        return place.at(node.value) if _is_gradient(place.at(node.target)) else None
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
        return None
    if node.func.attr == "div_":
        return place.at(node.args[0]) if _is_gradient(place.at(node.func.value)) else None
    several = node.func.attr == _DIVIDES_SEVERAL and len(node.args) == 2
    return place.at(node.args[1]) if several and _is_gradient(place.at(node.args[0])) else None


def _is_gradient(place: Place) -> bool:
    return ".grad" in place.module.text(place.node) or is_gradient(kind_of(place))


def _divided(place: Place, divisor: Place) -> Member:
    span = place.module.span(place.node)
    fields = {
        "divisor": written(place.module.text(divisor.node, 40), span),
        "what": written("gradients are", span),
        "reduced": written(False, span),
        "exchanged": written(False, span),
        "factor": written("1/world_size", span),
    }
    return Member(span, fields)


def _member(backward: Place, found: list[Factor], term: Place | None = None) -> Member | None:
    """The loss, or a term of it, whose factors divide by the ranks once more often than they multiply."""
    by_ranks = [(factor, reduced) for factor in found if (reduced := counts_ranks(factor.place)) is not None]
    divisors = [(factor, reduced) for factor, reduced in by_ranks if factor.divides]
    if len(divisors) != 1 or len(by_ranks) != 1:
        return None
    if any(may_count_ranks(factor.place) for factor in found if not factor.divides):
        return None
    factor, reduced = divisors[0]
    if _is_detached(factor.whole.node) or not is_averaged(backward.program, backward, factor.whole):
        return None
    module = factor.whole.module
    span = module.span(factor.whole.node)
    related: list[tuple[Span, str]] = [(reduced, "summed over all ranks")] if isinstance(reduced, Span) else []
    related.append((backward.module.span(backward.node), "goes backward here"))
    what = "loss" if term is None else f"term `{term.module.text(term.node, 40)}` of the loss"
    fields = {
        "what": written(f"{what} is", span),
        "divisor": written(factor.place.module.text(factor.place.node, 40), span),
        "reduced": written(isinstance(reduced, Span), span),
        "exchanged": written(False, span),
        "factor": written("1/world_size", span),
    }
    return Member(span, fields, tuple(related), {"drop": () if reduced is not True else without(factor)})
