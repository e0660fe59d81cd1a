"""Follows gradients through expressions: what certainly carries those of something, and what is computed from it."""

from __future__ import annotations

import ast

from dtlint.frameworks.pytorch.step_area import called_function
from dtlint.languages.python.bindings import dotted, last_word
from dtlint.languages.python.called import argument_node
from dtlint.languages.python.places import Place
from dtlint.languages.python.program import Definition
from dtlint.record import NamedTuple

_DIFFERENTIABLE = frozenset({
    "abs", "add", "bmm", "cat", "chunk", "clone", "concat", "contiguous", "corrcoef", "cov", "cross_entropy",
    "diag", "diagonal", "div", "dot", "double", "einsum", "exp", "expand", "flatten", "float", "kl_div",
    "l1_loss", "layer_norm", "log", "log_softmax", "logsumexp", "matmul", "mean", "mm", "mse_loss", "mul", "norm",
    "normalize", "outer", "permute", "pow", "relu", "reshape", "sigmoid", "smooth_l1_loss", "softmax", "split",
    "sqrt", "square", "squeeze", "stack", "std", "sub", "sum", "t", "tensordot", "to", "transpose", "triu",
    "type_as", "unsqueeze", "var", "view",
})  # fmt: skip
"""Functions and methods of torch whose result carries the gradients of the first tensors that they are given."""
_NO_TENSORS = frozenset({"data", "device", "dtype", "grad", "grad_fn", "ndim", "requires_grad", "shape"})
"""Attributes of a tensor that carry no gradient."""
_OPERATIONS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.MatMult, ast.Pow)
_LEVELS = 2
"""Functions within functions through which gradients are followed."""
_TURNS = 4


class Carried(NamedTuple):
    """What has gradients: names, and calls by their identity."""

    names: frozenset[str] = frozenset()
    calls: frozenset[int] = frozenset()


def grown(place: Place, whole: ast.AST, carried: Carried, levels: int = _LEVELS) -> Carried:
    """The names, too, that a function or a loop binds to what carries gradients."""
    for _ in range(_TURNS):
        bound = {
            name
            for node in ast.walk(whole)
            if isinstance(node, ast.Assign | ast.AugAssign) and carries(place, node.value, carried, levels)
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
            for name in _names(target)
        }
        if bound <= carried.names:
            return carried
        carried = carried._replace(names=carried.names | bound)
    return carried


def _names(target: ast.expr) -> list[str]:
    items = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
    return [dotted(item) for item in items if dotted(item)]


def carries(place: Place, node: ast.AST, carried: Carried, levels: int = _LEVELS) -> bool:
    """Whether an expression certainly carries gradients of what has them."""
    if id(node) in carried.calls or dotted(node) in carried.names:
        return True
    if isinstance(node, ast.Call):
        return _call_carries(place, node, carried, levels)
    if isinstance(node, ast.Attribute):
        return node.attr not in _NO_TENSORS and carries(place, node.value, carried, levels)
    if isinstance(node, ast.Subscript):
        return carries(place, node.value, carried, levels)
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub) and carries(place, node.operand, carried, levels)
    if isinstance(node, ast.List | ast.Tuple):
        return bool(node.elts) and all(carries(place, item, carried, levels) for item in node.elts)
    sides = (node.left, node.right) if isinstance(node, ast.BinOp) and isinstance(node.op, _OPERATIONS) else ()
    return any(carries(place, side, carried, levels) for side in sides)


def given_to(
    place: Place, call: ast.AST, helper: Definition, carried: Carried, levels: int = _LEVELS
) -> frozenset[str]:
    """The parameters of a function for which a call passes something with gradients."""
    names = [name for name, bound in helper.scope.bindings.items() if any(b.kind == "parameter" for b in bound)]
    passed = {name: argument_node(helper.scope, name, call) for name in names}
    return frozenset(
        name for name, item in passed.items() if item is not None and carries(place, item, carried, levels)
    )


def _call_carries(place: Place, node: ast.Call, carried: Carried, levels: int) -> bool:
    """`torch.mm(x, y)`, `x.pow(2)`, `scaled(x)` of a function of the program that returns what it computes from x."""
    helper = called_function(place.at(node)) if levels else None
    if helper is not None:
        given = given_to(place, node, helper, carried, levels)
        inside = place._replace(module=helper.module, scope=helper.scope, guards=())
        known = grown(inside, helper.scope.node, Carried(given), levels - 1)
        returns = [site.node.value for site in helper.scope.sites if isinstance(site.node, ast.Return)]
        made = (value is not None and carries(inside, value, known, levels - 1) for value in returns)
        return bool(given and returns) and all(made)
    if last_word(node.func) not in _DIFFERENTIABLE:
        return False
    receiver = [node.func.value] if isinstance(node.func, ast.Attribute) else []
    return any(carries(place, item, carried, levels) for item in (*receiver, *node.args[:3]))
