"""Tells whether the loss that is sent backward is divided by the number of ranks, or is a sum instead of a mean."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dtlint.frameworks.pytorch.gradient_scaling import Verdict
from dtlint.frameworks.pytorch.rank_count import counts_steps, names_ranks
from dtlint.frameworks.pytorch.step_area import Area, values_of
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.constants import evaluate
from dtlint.languages.python.names import attribute_bindings, lookup, qualified
from dtlint.languages.python.places import Place
from dtlint.languages.python.program import Definition, definition
from dtlint.languages.python.reaching import reaching
from dtlint.languages.python.tree import HERE, Binding, Scope
from dtlint.record import NamedTuple
from dtlint.source import Span
from dtlint.value import Value

SCALED = "scaled"
"""Said of a loss that the number of ranks scales; any other text says why that is not certain, "" that it is not so."""

_MAX_DEPTH = 10
_SAME = frozenset(
    {"detach", "item", "mean", "float", "to", "cuda", "view", "squeeze", "scale", "loss", "get", "update"}
)
_WEIGHTS = re.compile(r"weight|coef|lambda|alpha|beta|gamma|_w\b|\bw_|ratio|temperature|mask", re.IGNORECASE)
"""Factors that weigh one part of a loss against another."""
_ENGINES = ("engine", "accelerator", "fabric", "model", "self", "optimizer")


class Loss(NamedTuple):
    """What the backward passes of an area say: the verdict, why it is unknown, and where the first loss stands."""

    verdict: Verdict
    reason: str
    place: Span | None


def loss_scaling(area: Area) -> Loss:
    """Whether any loss is scaled by the number of ranks; "unknown" without a backward pass in sight or for a sum."""
    losses = [loss for place in area.places() if (loss := _backward_loss(place)) is not None]
    if not losses:
        return Loss("unknown", "no backward pass is in the files read", None)
    found = [(place.module.span(place.node), said or _scale(place, 0)) for place, said in losses]
    scaled = next((span for span, said in found if said == SCALED), None)
    if scaled is not None:
        return Loss("yes", "", scaled)
    reason = next((said for _, said in found if said), "")
    return Loss("unknown" if reason else "no", reason, found[0][0])


def _backward_loss(place: Place) -> tuple[Place, str] | None:
    """The loss of `loss.backward()`, `scaler.scale(loss).backward()`, `engine.backward(loss)`.

    With it comes why its scale is not certain, where the pass itself is given a factor (`loss.backward(1 / world)`).
    """
    node = place.node
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "backward":
        return None
    receiver = node.func.value
    function = qualified(place.module, node.func, place.scope)
    takes_loss = function == ("torch.autograd.backward",) or dotted(receiver).rpartition(".")[2].lower().endswith(
        _ENGINES
    )
    if takes_loss and node.args:
        return place.at(node.args[0]), ""
    weighted = bool(node.args) or any(keyword.arg == "gradient" for keyword in node.keywords)
    return place.at(receiver), "the backward pass is given a factor" if weighted else ""


def _scale(place: Place, depth: int) -> str:
    """What is known of the scale of an expression that is a loss or a part of one."""
    if depth > _MAX_DEPTH or not place.budget.spend():
        return "the loss is computed in too many steps"
    node = place.node
    if isinstance(node, ast.BinOp):
        return _of_operation(place, node, depth)
    if dotted(node):
        return _of_name(place, dotted(node), depth)
    if isinstance(node, ast.Call):
        return _of_call(place, node, depth)
    return _worst(_scale(place.at(part), depth + 1) for part in _parts(node))


def _parts(node: ast.AST) -> list[ast.expr]:
    """The parts of an expression that the loss can come from."""
    if isinstance(node, ast.Attribute | ast.Subscript | ast.Starred | ast.NamedExpr):
        return [node.value]
    if isinstance(node, ast.UnaryOp):
        return [node.operand]
    if isinstance(node, ast.IfExp):
        return [node.body, node.orelse]
    return list(node.elts) if isinstance(node, ast.Tuple | ast.List) else []


def _worst(said: Iterator[str]) -> str:
    found = [text for text in said if text]
    return SCALED if SCALED in found else next(iter(found), "")


def _of_operation(place: Place, node: ast.BinOp, depth: int) -> str:
    left, right = place.at(node.left), place.at(node.right)
    scales = isinstance(node.op, ast.Div | ast.Mult)
    if scales and (names_ranks(right) or names_ranks(left)):
        return SCALED
    inner = _worst(_scale(side, depth + 1) for side in (left, right))
    if inner or not scales:
        return inner
    if isinstance(node.op, ast.Div):
        return _divisor(right)
    return _factor(left if isinstance(node.left, ast.Constant) else right)


def _divisor(place: Place) -> str:
    """Why a division leaves the scale of the loss open; "" for a number of steps."""
    value = evaluate(place)
    if isinstance(value, Value) and value.origin.kind == "written" and value.value in (1, 2):
        return ""
    return "" if counts_steps(place) else f"the loss is divided by {place.module.text(place.node, 40)}"


def _factor(place: Place) -> str:
    """Why a factor leaves the scale of the loss open; "" for a weight between its parts (no small power of two)."""
    value = evaluate(place)
    if isinstance(value, Value) and isinstance(value.value, int | float):
        halves = value.value and (1 / value.value) in (4, 8, 16, 32, 64)
        return f"the loss is multiplied by {value.value}" if halves else ""
    text = place.module.text(place.node, 40)
    return "" if counts_steps(place) or _WEIGHTS.search(text) else f"the loss is multiplied by {text}"


def _of_name(place: Place, name: str, depth: int) -> str:
    """The bindings that reach a name, `loss /= world` among them; what nothing in sight binds is taken as it is."""
    holder, bindings = lookup(place.scope, name)
    if holder is None:
        holder, bindings = lookup(place.scope, name.partition(".")[0])
    if holder is not None:
        inside = place._replace(scope=holder)
        return _worst(_of_binding(inside, binding, depth) for binding, _ in reaching(place, holder, bindings))
    owned = attribute_bindings(place.module, place.scope, name)
    return _worst(_of_binding(place._replace(scope=method), binding, depth) for method, binding in owned)


def _of_binding(place: Place, binding: Binding, depth: int) -> str:
    node, inside = binding.node, place._replace(guards=binding.guards)
    if isinstance(node, ast.AugAssign):
        return _of_operation(inside, ast.BinOp(left=node.target, op=node.op, right=node.value), depth + 1)
    if binding.kind == "value" and isinstance(node, ast.expr):
        return _scale(inside.at(node), depth + 1)
    return "the loss is passed in" if binding.kind == "parameter" else ""


def _of_call(place: Place, node: ast.Call, depth: int) -> str:
    if _is_sum(place, node):
        return "the loss is a sum over samples"
    names = qualified(place.module, node.func, place.scope)
    found = definition(place.program, place.module, names[0]) if len(names) == 1 else None
    function = _forward(found) if found is not None else None
    if function is not None:
        return _returned(place, function, depth)
    if isinstance(node.func, ast.Attribute) and node.func.attr in _SAME:
        return _worst(_scale(place.at(part), depth + 1) for part in [node.func.value, *node.args])
    return _of_unread(place, node, names[0] if len(names) == 1 else "", depth)


def _is_sum(place: Place, node: ast.Call) -> bool:
    if isinstance(node.func, ast.Attribute) and node.func.attr == "sum":
        return True
    reductions = (keyword.value for keyword in node.keywords if keyword.arg in ("reduction", "size_average", "reduce"))
    return any(not _is_mean(place.at(reduction)) for reduction in reductions)


def _is_mean(place: Place) -> bool:
    value = evaluate(place)
    return isinstance(value, Value) and value.value in ("mean", True)


def _forward(found: Definition) -> Definition | None:
    """The function itself, or the forward method of a class."""
    if not isinstance(found.scope.node, ast.ClassDef):
        return found
    names = (f"{found.scope.name}.forward", f"{found.scope.name}.__call__")
    scopes = (found.module.definitions.get(name) for name in names)
    scope = next((scope for scope in scopes if scope is not None), None)
    return Definition(found.module, scope) if scope is not None else None


def _returned(place: Place, function: Definition, depth: int) -> str:
    inside = place._replace(module=function.module, scope=function.scope)
    returns = (site.node for site in function.scope.sites if isinstance(site.node, ast.Return))
    return _worst(_scale(inside.at(node.value), depth + 1) for node in returns if node.value is not None)


def _of_unread(place: Place, node: ast.Call, name: str, depth: int) -> str:
    """A call that leads out of the files read: a model or criterion gives a mean, other functions may do anything."""
    if any(names_ranks(place.at(item)) for item in [*node.args, *(keyword.value for keyword in node.keywords)]):
        return "the loss is computed from the number of ranks elsewhere"
    if name.startswith("torch.distributed.") or name.endswith(".apply"):
        return f"the loss goes through {name.rpartition('.')[2]}"
    built = [(scope, value) for scope, value in values_of(place, node.func) if isinstance(value, ast.Call)]
    if built:
        return _of_instance(place, *built[-1], depth)
    if not name or name.startswith(("torch.", HERE)) or name.rpartition(".")[2][:1].isupper():
        return ""
    return f"the loss comes from {name.rpartition('.')[2]}, which is not among the files read"


def _of_instance(place: Place, scope: Scope, built: ast.Call, depth: int) -> str:
    """`criterion(...)`, where criterion is built in sight."""
    return _scale(place._replace(scope=scope, node=built), depth + 1)
