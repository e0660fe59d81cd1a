"""Finds statistics of a loss that are averaged over the ranks by a division and an all_reduce without gradients, in a
program whose wrapper averages anyway: members of `code.averaged_losses`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtlint.frameworks import Member
from dtlint.frameworks.code.carriers import Carried, carries, given_to, grown
from dtlint.frameworks.code.loss_factors import counts_ranks, is_averaged, sums_over_ranks
from dtlint.frameworks.code.objects import is_prepared, kinds
from dtlint.frameworks.code.passes import around, is_trained, without_gradients
from dtlint.frameworks.pytorch.exchange import ALL_REDUCE
from dtlint.frameworks.pytorch.step_area import called_function
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.calls import Call, calls
from dtlint.languages.python.instances import instances, with_bases
from dtlint.languages.python.places import Budget, Place, place_of
from dtlint.languages.python.program import Definition, Program
from dtlint.languages.python.reach import enclosing_function, stands
from dtlint.languages.python.tree import Module, Site
from dtlint.value import written

_WRAPPED = frozenset({"ddp", "fsdp1", "deepspeed"})
_DIVIDES = frozenset({"div", "div_", "true_divide"})


def reduced_statistics(program: Program) -> Iterator[Member]:
    """Tensors with gradients, `c` of a cross-correlation, that are divided by the number of ranks and summed in place:
    each rank sends back the share of its own samples alone, of which the wrapper takes the mean once more.
    """
    for call in calls(program, ALL_REDUCE):
        name, division = _averaged(call)
        used = _goes_backward(call.place, name) if division is not None else None
        if division is not None and used is not None and not _is_multiplied(used):
            yield _member(call, name, division, used)


def _averaged(call: Call) -> tuple[str, Place | None]:
    """The tensor that a call sums over the ranks, and the only division of it by their number."""
    place, node = call.place, call.place.node
    name = dotted(node.args[0]) if isinstance(node, ast.Call) and node.args else ""
    if not name or "." in name or not sums_over_ranks(call) or without_gradients(place) or stands(place) is False:
        return name, None
    function = enclosing_function(place.scope)
    nodes = list(ast.walk(function.node)) if function is not None else []
    scaled = [part for part in nodes if _multiplies(place._replace(budget=Budget()), part)]
    found = [part for part in nodes if _divides(place._replace(budget=Budget()), part, name)]
    return name, place.at(found[0]) if len(found) == 1 and not scaled else None


def _divides(place: Place, node: ast.AST, name: str) -> bool:
    """`c / world`, `c /= world`, `c.div_(world)` and `c = a @ b / world`."""
    if isinstance(node, ast.AugAssign):
        is_division = isinstance(node.op, ast.Div) and dotted(node.target) == name
        return is_division and counts_ranks(place.at(node.value)) is True
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and len(node.args) == 1:
        is_division = node.func.attr in _DIVIDES and dotted(node.func.value) == name
        return is_division and counts_ranks(place.at(node.args[0])) is True
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp) and isinstance(node.value.op, ast.Div):
        whole = dotted(node.targets[0]) == name or dotted(node.value.left) == name
        return whole and counts_ranks(place.at(node.value.right)) is True
    return False


def _multiplies(place: Place, node: ast.AST) -> bool:
    if isinstance(node, ast.AugAssign):
        return isinstance(node.op, ast.Mult) and counts_ranks(place.at(node.value)) is True
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult) or _is_divisor(place, node):
        return False
    return any(counts_ranks(place.at(side)) is True for side in (node.left, node.right))


def _is_multiplied(used: Place) -> bool:
    """Whether a factor that counts the ranks stands where the loss is taken: `barlow(a, b) * world`."""
    function = enclosing_function(used.scope)
    nodes = ast.walk(function.node if function is not None else used.scope.node)
    return any(_multiplies(used._replace(budget=Budget(), frames=()), part) for part in nodes)


def _is_divisor(place: Place, product: ast.BinOp) -> bool:
    """Whether something is divided by a product: `c / (n * world)`."""
    nodes = ast.walk(place.scope.node)
    return any(
        (isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Div) and _divisor(node) is product)
        or (isinstance(node, ast.Call) and product in node.args)
        for node in nodes
    )


def _divisor(node: ast.BinOp | ast.AugAssign) -> ast.expr:
    return node.right if isinstance(node, ast.BinOp) else node.value


def _goes_backward(sum_: Place, name: str) -> Place | None:
    """The backward pass, or the call that leads to the loss of one, where a summed tensor certainly has gradients of
    the wrapped model and the loss is made of it.
    """
    function = enclosing_function(sum_.scope)
    if function is None:
        return None
    for module in sum_.program.modules.values():
        for site in module.called.get("backward", ()):
            for place, entered in _sites_around(sum_.program, module, site):
                helper = _runs(place)
                if helper is not None and helper.scope is function and is_trained(place, entered):
                    backward = place_of(sum_.program, module, site)
                    given = given_to(place, place.node, helper, _of_model(place, around(place, entered)))
                    averaged = is_averaged(sum_.program, backward)
                    if given and averaged and _is_made_of(sum_, helper, name, Carried(given)):
                        return place
    return None


def _sites_around(program: Program, module: Module, backward: Site) -> Iterator[tuple[Place, Site]]:
    for site in backward.scope.sites:
        if isinstance(site.node, ast.Call):
            yield place_of(program, module, site), site


def _runs(place: Place) -> Definition | None:
    """The function of the program that a call runs: by its name, or the forward pass of a criterion."""
    helper = called_function(place)
    if helper is not None or not isinstance(place.node, ast.Call):
        return helper
    for owner in instances(place.at(place.node.func))[:1]:
        for each in with_bases(place, owner.definition):
            forward = each.module.definitions.get(f"{each.scope.name}.forward")
            if forward is not None:
                return Definition(each.module, forward)
    return None


def _of_model(place: Place, whole: ast.AST) -> Carried:
    """What a loop or a function computes from passes through the wrapped model, with its gradients."""
    nodes = [node for node in ast.walk(whole) if isinstance(node, ast.Call)]
    passes = [node for node in nodes if _is_pass(place.at(node), node)]
    return grown(place, whole, Carried(frozenset(), frozenset(map(id, passes))))


def _is_pass(place: Place, node: ast.Call) -> bool:
    if not dotted(node.func) or without_gradients(place):
        return False
    model = place._replace(node=node.func, budget=Budget())
    return bool(kinds(model) & _WRAPPED) or is_prepared(model._replace(budget=Budget()))


def _is_made_of(sum_: Place, helper: Definition, name: str, given: Carried) -> bool:
    """Whether a function computes a tensor from what it is given with gradients, and all that it returns from that."""
    function = helper.scope.node
    if name not in grown(sum_, function, given).names:
        return False
    behind = grown(sum_, function, Carried(frozenset({name})))
    returns = [site.node.value for site in helper.scope.sites if isinstance(site.node, ast.Return)]
    return bool(returns) and all(value is not None and carries(sum_, value, behind) for value in returns)


def _member(call: Call, name: str, division: Place, used: Place) -> Member:
    span = division.module.span(division.node)
    node = division.node
    divisor = node.args[0] if isinstance(node, ast.Call) else _divisor_of(node)
    fields = {
        "what": written(f"`{name}`", span),
        "divisor": written(division.module.text(divisor, 40), span),
        "reduced": written(False, span),
        "exchanged": written(True, span),
        "factor": written("1/world_size", span),
    }
    related = ((call.head, "summed here without gradients"), (used.module.span(used.node), "the loss is made here"))
    return Member(span, fields, related)


def _divisor_of(node: ast.AST) -> ast.AST:
    whole = node.value if isinstance(node, ast.Assign) else node
    return _divisor(whole) if isinstance(whole, ast.BinOp | ast.AugAssign) else whole
