"""Tells whether a program divides gradients or learning rate by the number of ranks on the way to a step."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Literal

from dtlint.frameworks.pytorch.rank_count import counts_steps, names_ranks
from dtlint.frameworks.pytorch.step_area import Area, called_function
from dtlint.frameworks.pytorch.tensor_kinds import kind_of, may_be_gradient
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.constants import evaluate
from dtlint.languages.python.following import ways
from dtlint.languages.python.names import qualified
from dtlint.languages.python.places import Place
from dtlint.record import NamedTuple
from dtlint.source import Span
from dtlint.value import Unknown, Value

Verdict = Literal["yes", "no", "unknown"]

_GRADIENT_NAMES = re.compile(r"grad|flat|bucket|coalesced|reduced|buf", re.IGNORECASE)
_OPTIMIZER_WORDS = re.compile(
    r"\blr\b|_lr\b|learning_rate|momentum|decay|\bbeta|clip|max_norm|\bmu\b|\bstep_size\b", re.IGNORECASE
)
"""Factors of optimizers and of clipping, which scale a gradient whatever the number of ranks."""
_AVERAGING_NAMES = re.compile(r"scale_|rescale|average|avg|mean|divide|normali[sz]e|unscale", re.IGNORECASE)
_RATE_NAMES = re.compile(r"\blr\b|learning_rate|_lr\b|\blr_", re.IGNORECASE)
_SCALING_METHODS = frozenset(
    {"div_", "div", "mul_", "mul", "true_divide", "true_divide_", "divide", "divide_", "multiply", "multiply_"}
)
_SCALING_FUNCTIONS = frozenset(
    {
        "torch.div",
        "torch.mul",
        "torch.true_divide",
        "torch._foreach_div_",
        "torch._foreach_mul_",
        "torch._foreach_div",
        "torch._foreach_mul",
    }
)
_KNOWN_OPTIMIZERS = (
    "torch",
    "apex",
    "bitsandbytes",
    "transformers",
    "timm",
    "torch_optimizer",
    "lion_pytorch",
    "prodigyopt",
)
"""Packages whose optimizers leave the scale of a gradient alone."""


class Scaling(NamedTuple):
    """One multiplication or division: what is scaled, and by what."""

    operand: Place
    factor: Place


class Division(NamedTuple):
    """Whether gradients are divided by the number of ranks, and the place that decides it."""

    verdict: Verdict
    place: Span | None = None


def divided(area: Area) -> Division:
    """Whether a gradient is divided by the number of ranks; "unknown" if something else, or out of sight, scales it."""
    open_at: Span | None = None
    for place in area.places():
        found = _scaling(place)
        verdict = _judged(found) if found is not None else _hidden(place)
        if verdict == "yes":
            return Division("yes", place.module.span(place.node))
        if verdict == "unknown":
            open_at = open_at or place.module.span(place.node)
    return Division("unknown", open_at) if open_at is not None else Division("no")


def _scaling(place: Place) -> Scaling | None:
    node = place.node
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div | ast.Mult):
        return Scaling(place.at(node.target), place.at(node.value))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.Mult):
        return Scaling(place.at(node.left), place.at(node.right))
    if not isinstance(node, ast.Call):
        return None
    if isinstance(node.func, ast.Attribute) and node.func.attr in _SCALING_METHODS and len(node.args) == 1:
        return Scaling(place.at(node.func.value), place.at(node.args[0]))
    name = next(iter(qualified(place.module, node.func, place.scope)), "")
    if name in _SCALING_FUNCTIONS and len(node.args) == 2:
        return Scaling(place.at(node.args[0]), place.at(node.args[1]))
    return None


def _judged(scaling: Scaling) -> Verdict:
    """What one scaling says: "yes" of a gradient by the number of ranks, "unknown" by a factor that is not certain."""
    of_operand, of_factor = _touches_gradient(scaling.operand), _touches_gradient(scaling.factor)
    if scaling.operand.budget.left < 0:
        return "unknown"
    if of_operand == of_factor:
        return "no"
    factor = scaling.factor if of_operand else scaling.operand
    if names_ranks(factor):
        return "yes"
    harmless = counts_steps(factor) or _OPTIMIZER_WORDS.search(factor.module.text(factor.node)) or _is_one(factor)
    return "no" if harmless else "unknown"


def _is_one(place: Place) -> bool:
    value = evaluate(place) if isinstance(place.node, ast.Constant | ast.UnaryOp) else None
    return isinstance(value, Value) and value.value in (1, -1)


def _touches_gradient(place: Place) -> bool:
    name = dotted(place.node).rpartition(".")[2]
    if ".grad" in place.module.text(place.node) or (name and _GRADIENT_NAMES.search(name)):
        return True
    return may_be_gradient(kind_of(place))


def _hidden(place: Place) -> Verdict:
    """Whether a call may scale gradients out of sight: by its name, or an optimizer of a file that was not read."""
    node = place.node
    if not isinstance(node, ast.Call) or called_function(place) is not None:
        return "no"
    name = next(iter(qualified(place.module, node.func, place.scope)), "")
    spelled = node.func.attr if isinstance(node.func, ast.Attribute) else dotted(node.func)
    if spelled == "step" and isinstance(node.func, ast.Attribute):
        return "unknown" if _is_foreign_optimizer(place, node) else "no"
    hides = _AVERAGING_NAMES.search(spelled) and not name.startswith("torch.") and _gets_model(node)
    return "unknown" if hides else "no"


def _is_foreign_optimizer(place: Place, node: ast.Call) -> bool:
    """A step that is told the number of ranks, or of a class that no known package has."""
    if any(names_ranks(place.at(item)) for item in _arguments(node)):
        return True
    receiver = node.func.value if isinstance(node.func, ast.Attribute) else node.func
    ends = [way.end for way in ways(place.at(receiver))]
    return any(_is_foreign(end) for end in ends if not isinstance(end, Unknown) and isinstance(end.node, ast.Call))


def _is_foreign(built: Place) -> bool:
    function = built.node.func if isinstance(built.node, ast.Call) else built.node
    names = qualified(built.module, function, built.scope)
    roots = {name.partition(".")[0] for name in names}
    return bool(roots) and "optim" in names[0].lower() and roots.isdisjoint(_KNOWN_OPTIMIZERS)


def _gets_model(node: ast.Call) -> bool:
    words = " ".join(dotted(item) for item in _arguments(node)).lower()
    return any(word in words for word in ("model", "grad", "param", "net", "optim"))


def _arguments(node: ast.Call) -> list[ast.expr]:
    return [*node.args, *(keyword.value for keyword in node.keywords)]


def rate_scaled(area: Area) -> Span | None:
    """Where the learning rate is computed from the number of ranks, if it is."""
    for place in area.places():
        rate = next((rate for rate in _rates(place) if names_ranks(rate)), None)
        if rate is not None:
            return rate.module.span(rate.node)
    return None


def _rates(place: Place) -> Iterator[Place]:
    """The expressions that a call or assignment makes a learning rate."""
    node = place.node
    if isinstance(node, ast.Call):
        yield from (place.at(item.value) for item in node.keywords if item.arg and _RATE_NAMES.search(item.arg))
    elif isinstance(node, ast.Assign):
        if any(_RATE_NAMES.search(place.module.text(target)) for target in node.targets):
            yield place.at(node.value)
    elif isinstance(node, ast.AugAssign) and _RATE_NAMES.search(place.module.text(node.target)):
        yield place.at(node.value)
