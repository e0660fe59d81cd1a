"""The factors of a loss on its way to the backward pass, and which of them count the ranks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dtlint.frameworks.code.objects import kinds
from dtlint.frameworks.pytorch.device_mesh import AXES, DATA_AXES
from dtlint.frameworks.pytorch.exchange import ALL_REDUCE
from dtlint.frameworks.pytorch.mesh_slices import mesh_names
from dtlint.frameworks.pytorch.names import DDP, FSDP1, FSDP2
from dtlint.languages.python.bindings import dotted, last_word
from dtlint.languages.python.calls import Call, calls
from dtlint.languages.python.choices import options
from dtlint.languages.python.editing import dropped, standing, without_factor
from dtlint.languages.python.entered import passed_on_entry
from dtlint.languages.python.excluding import kept_apart
from dtlint.languages.python.names import lookup, qualified
from dtlint.languages.python.places import Frame, Place, place_of
from dtlint.languages.python.program import Program, definition
from dtlint.languages.python.reach import enclosing_function, stands
from dtlint.languages.python.reaching import reaching
from dtlint.languages.python.tree import Binding
from dtlint.record import NamedTuple
from dtlint.source import Edit, Span
from dtlint.value import Value

_MAX_DEPTH = 12
_BEFORE_GROUP = 2
"""Arguments of an all_reduce before its group: the tensor and the operation."""
AVERAGING = (*DDP, *FSDP1, *FSDP2, "deepspeed.initialize")
"""What wraps a model so that its gradients are averaged."""
_WORLD = re.compile(
    r"_*(get_)?(global_|dist_|ddp_)?world(_?size)?|_*(get_)?(dp|data_parallel)_(world_|group_)?size|num_processes|world_n",
    re.IGNORECASE,
)
_PERHAPS_WORLD = re.compile(r"degree|replica|gpus?\b|n?procs?\b|ranks?\b|workers?\b|parallel", re.IGNORECASE)
"""Words in names of numbers that may count the ranks."""
_SAME = frozenset(
    {"float", "to", "cuda", "mean", "sum", "clone", "squeeze", "double", "view", "reshape", "contiguous", "div", "mul"}
)
_KEEPS = _SAME | {"int", "max", "min", "abs", "round", "tensor", "as_tensor", "Tensor", "full_like", "item", "prod"}
"""Functions that hand on what they are given, or the larger of two."""
_ENGINES = frozenset({"deepspeed", "accelerator", "fabric"})
_TAKES_LOSS = ("engine", "accelerator", "fabric", "autograd", "model")


class Factor(NamedTuple):
    """One factor of a loss on its way to the backward pass: its place, and whether it divides."""

    place: Place
    divides: bool
    whole: Place


def without(factor: Factor) -> tuple[Edit, ...]:
    """The edit that takes a factor out of the loss, where nothing but it is multiplied or divided with."""
    module, whole = factor.whole.module, factor.whole.node
    edit = None
    if isinstance(whole, ast.BinOp) and isinstance(factor.place.node, ast.expr):
        edit = without_factor(module, whole, factor.place.node)
    elif isinstance(whole, ast.AugAssign) and (found := standing(module, whole)) is not None:
        edit = dropped(module, found)
    return (edit,) if edit is not None else ()


def loss_of(place: Place) -> Place | None:
    """The loss that a backward call sends backward; None for other calls and for a pass that is given a factor."""
    node = place.node
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    receiver = node.func.value
    if dotted(receiver).rpartition(".")[2].lower().endswith(_TAKES_LOSS):
        return place.at(node.args[0]) if len(node.args) == 1 else None
    if len(node.args) == 1 and kinds(place.at(receiver)) <= _ENGINES:
        return place.at(node.args[0])
    if node.args or any(keyword.arg == "gradient" for keyword in node.keywords):
        return None
    if isinstance(receiver, ast.Call) and isinstance(receiver.func, ast.Attribute) and receiver.func.attr == "scale":
        return place.at(receiver.args[0]) if receiver.args else None
    return place.at(receiver)


def is_averaged(program: Program, place: Place, whole: Place | None = None) -> bool:
    """Whether a wrapper of the program averages gradients, or what the loss is handed to does for all that it has
    prepared (Accelerate's Accelerator, Lightning's Fabric), or the function is given a model of a wrapped class.

    Not by a wrapper that is of other runs than the backward pass, or than the scaling of the loss (`whole`).
    """
    if is_handed_over(place):
        return True
    parts = (place,) if whole is None else (place, whole)
    wraps = (call.place for call in calls(program, AVERAGING) if stands(call.place) is not False)
    if any(not any(kept_apart(part, wrap) for part in parts) for wrap in wraps):
        return True
    function = enclosing_function(place.scope)
    node = function.node if function is not None else None
    parameters = [*node.args.args, *node.args.kwonlyargs] if isinstance(node, ast.FunctionDef) else []
    names = (
        ast.copy_location(ast.Name(id=item.arg, ctx=ast.Load()), place.node) for item in parameters if item.annotation
    )
    return any(kinds(place.at(name)) & {"ddp", "fsdp1"} for name in names)


def is_handed_over(place: Place) -> bool:
    """Whether a backward call is a method of an Accelerator or a Fabric, which wraps the models of its program."""
    function = place.node.func if isinstance(place.node, ast.Call) else None
    return isinstance(function, ast.Attribute) and kinds(place.at(function.value)) <= {"accelerator", "fabric"}


def counts_ranks(place: Place) -> Span | bool | None:
    """True for the number of ranks, the all_reduce of a count that is summed over them; None for anything else."""
    return _counts_ranks(place, frozenset())


def _counts_ranks(place: Place, before: frozenset[tuple[int, str]]) -> Span | bool | None:
    """The same; `before`: the names that have been followed on the way to this place."""
    waiting: list[Place] = [place]
    seen = set(before)
    while waiting and place.budget.spend():
        here = waiting.pop()
        for node in _counted(here, frozenset(seen)):
            name = dotted(node)
            last = (
                node.func.attr
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
                else name.rpartition(".")[2]
            )
            if (last and _WORLD.fullmatch(last)) or _is_size_of_mesh(here, node):
                return True
            waiting.extend(_of_helper(here, node))
            if not name or (id(here.scope), name) in seen:
                continue
            seen.add((id(here.scope), name))
            summed = _summed(here, name)
            if summed is not None:
                return summed
            waiting.extend(
                inner
                for inner, binding in bound(here, name)
                if binding.kind == "value" and isinstance(binding.node, ast.expr)
            )
    return None


def _is_size_of_mesh(place: Place, node: ast.AST) -> bool:
    """Whether a call asks a mesh for its size whose dimensions are all of data parallelism: `mesh["dp"].size()`."""
    asks = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "size"
    if not asks or not isinstance(node, ast.Call) or node.args or not isinstance(node.func, ast.Attribute):
        return False
    found = mesh_names(place.at(node.func.value)) or []
    words = [option.value for names in found for option in options(names)]
    return bool(words) and all(isinstance(word, Value) and _are_of_data(word.value) for word in words)


def _are_of_data(names: object) -> bool:
    return all(AXES.get(str(name)) in DATA_AXES for name in (names if isinstance(names, tuple) else (names,)))


def _of_helper(place: Place, node: ast.AST) -> Iterator[Place]:
    """What a function of the program returns that an expression calls, where that is one thing."""
    if isinstance(node, ast.Call):
        found = _handed_on(place, node) if last_word(node.func) not in _SAME else ()
        yield from (inner for inner in found if not isinstance(inner.node, ast.Tuple | ast.List | ast.Dict))


def may_count_ranks(place: Place) -> bool:
    """Whether a factor may be the number of ranks by another name (`self.dp_degree / tokens`)."""
    return any(_PERHAPS_WORLD.search(dotted(node)) for node in _counted(place, frozenset()))


def _counted(place: Place, seen: frozenset[tuple[int, str]]) -> Iterator[ast.AST]:
    """The parts of an expression with which it grows: `global_batch // world` is no count of ranks, but a share, also
    where the batch is a multiple of their number.
    """
    waiting = [place.node]
    while waiting:
        node = waiting.pop()
        yield node
        if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.FloorDiv | ast.Mod)):
            waiting.extend(_growing(node))
        elif isinstance(node.op, ast.Mod) or _counts_ranks(place.at(node.right), seen) is not True:
            waiting.append(node.left)


def _growing(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a node that its value grows with: not a condition, nor what a function makes another number of."""
    if isinstance(node, ast.IfExp):
        yield from (node.body, node.orelse)
    elif isinstance(node, ast.Call):
        yield node.func
        yield from node.args if dotted(node.func).rpartition(".")[2] in _KEEPS else ()
    elif not isinstance(node, ast.Compare):
        yield from ast.iter_child_nodes(node)


def _summed(place: Place, name: str) -> Span | None:
    """The all_reduce that sums a tensor of this name in place, before the use, in the same function."""
    words = {reduction.rpartition(".")[2] for reduction in ALL_REDUCE}
    for site in (site for word in sorted(words) for site in place.module.called.get(word, ())):
        if site.scope is not place.scope or not isinstance(site.node, ast.Call) or not site.node.args:
            continue
        if dotted(site.node.args[0]) != name:
            continue
        found = qualified(place.module, site.node.func, place.scope)
        if len(found) != 1 or found[0] not in ALL_REDUCE or site.node.lineno > getattr(place.node, "lineno", 0):
            continue
        call = Call(found[0], place_of(place.program, place.module, site), (), {}, "")
        return place.module.span(site.node) if sums_over_ranks(call) else None
    return None


def sums_over_ranks(call: Call) -> bool:
    """Whether an all_reduce sums, and over all ranks."""
    node = call.place.node
    if isinstance(node, ast.Call) and len(node.args) > _BEFORE_GROUP and not _is_none(node.args[_BEFORE_GROUP]):
        return False
    given = [*node.args[1:], *(item.value for item in node.keywords)] if isinstance(node, ast.Call) else []
    words = [call.place.module.text(item) for item in given]
    return not any(word in text for text in words for word in ("AVG", "MAX", "MIN", "group"))


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def bound(place: Place, name: str) -> Iterator[tuple[Place, Binding]]:
    """The bindings that reach a name, each with the place of what is bound."""
    holder, bindings = lookup(place.scope, name)
    if holder is None:
        return
    for binding, _ in reaching(place, holder, bindings):
        if binding.node is not None:
            yield place._replace(scope=holder, node=binding.node, guards=binding.guards, depth=place.depth + 1), binding


def factors(place: Place, depth: int = 0) -> Iterator[Factor]:
    """The factors of a loss: those of the expression, of the names in it, of functions of the program."""
    node = place.node
    if depth > _MAX_DEPTH or not place.budget.spend():
        return
    if isinstance(node, ast.BinOp):
        yield from _of_operation(place, node, depth)
    elif isinstance(node, ast.Call):
        yield from _of_call(place, node, depth)
    elif isinstance(node, ast.Subscript | ast.UnaryOp):
        yield from factors(place.at(node.value if isinstance(node, ast.Subscript) else node.operand), depth + 1)
    elif dotted(node):
        yield from _of_name(place, dotted(node), depth)


def terms(place: Place, depth: int = 0) -> Iterator[Place]:
    """The terms that are added to the first one of a loss: those of the expression, of the names in it, of functions of
    the program.
    """
    node = place.node
    if depth > _MAX_DEPTH or not place.budget.spend():
        return
    if isinstance(node, ast.BinOp):
        added = isinstance(node.op, ast.Add | ast.Sub)
        if added:
            yield place.at(node.right)
        for side in (node.left, node.right) if added or isinstance(node.op, ast.Mult) else (node.left,):
            yield from terms(place.at(side), depth + 1)
    elif isinstance(node, ast.Call):
        summed = node.args[0] if dotted(node.func) == "sum" and len(node.args) == 1 else None
        yield from map(place.at, summed.elts if isinstance(summed, ast.List | ast.Tuple) else ())
        for inner in _handed_on(place, node):
            yield from terms(inner, depth + 1)
    elif dotted(node):
        yield from _terms_of_name(place, dotted(node), depth)


def _terms_of_name(place: Place, name: str, depth: int) -> Iterator[Place]:
    for inner, binding in bound(place, name):
        update = binding.node
        if isinstance(update, ast.AugAssign):
            if isinstance(update.op, ast.Add | ast.Sub):
                yield inner.at(update.value)
            yield from terms(inner.at(_before(update)), depth + 2)
        elif binding.kind == "value" and isinstance(update, ast.expr) and not binding.path:
            yield from terms(inner, depth + 1)


def _of_operation(place: Place, node: ast.BinOp, depth: int) -> Iterator[Factor]:
    left, right = place.at(node.left), place.at(node.right)
    if isinstance(node.op, ast.Div):
        yield Factor(right, True, place)
        yield from factors(left, depth + 1)
    elif isinstance(node.op, ast.Mult):
        yield Factor(right, False, place)
        yield Factor(left, False, place)
        for side in (left, right):
            yield from factors(side, depth + 1)
    else:
        yield from factors(left, depth + 1)


def _of_call(place: Place, node: ast.Call, depth: int) -> Iterator[Factor]:
    if isinstance(node.func, ast.Attribute) and node.func.attr in ("div", "mul") and len(node.args) == 1:
        yield Factor(place.at(node.args[0]), node.func.attr == "div", place)
    for inner in _handed_on(place, node):
        yield from factors(inner, depth + 1)


def _handed_on(place: Place, node: ast.Call) -> Iterator[Place]:
    """What a call hands on: the tensor whose method it is, what a function of the program returns."""
    if isinstance(node.func, ast.Attribute) and node.func.attr in _SAME:
        yield place.at(node.func.value)
        return
    names = qualified(place.module, node.func, place.scope)
    helper = definition(place.program, place.module, names[0]) if len(names) == 1 else None
    if helper is None or not isinstance(helper.scope.node, ast.FunctionDef):
        return
    frames = (*place.frames, Frame(helper.scope, place))
    for site in helper.scope.sites:
        if isinstance(site.node, ast.Return) and site.node.value is not None:
            inner = place._replace(module=helper.module, scope=helper.scope, guards=site.guards, frames=frames)
            yield inner.at(site.node.value)


def _of_name(place: Place, name: str, depth: int) -> Iterator[Factor]:
    for inner, binding in bound(place, name):
        if isinstance(binding.node, ast.AugAssign):
            yield from _of_update(inner, binding.node, depth)
        elif binding.kind == "value" and isinstance(binding.node, ast.expr) and not binding.path:
            yield from factors(inner, depth + 1)
    yield from _of_parameter(place, name, depth)


def _of_update(place: Place, node: ast.AugAssign, depth: int) -> Iterator[Factor]:
    """`loss /= world`, and what the loss was before."""
    if isinstance(node.op, ast.Div | ast.Mult):
        yield Factor(place.at(node.value), isinstance(node.op, ast.Div), place)
    yield from factors(place.at(_before(node)), depth + 2)


def _before(node: ast.AugAssign) -> ast.Name:
    """What `loss += x` adds to."""
    return ast.copy_location(ast.Name(id=dotted(node.target), ctx=ast.Load()), node)


def _of_parameter(place: Place, name: str, depth: int) -> Iterator[Factor]:
    passed = passed_on_entry(place, name)
    if passed is not None:
        yield from factors(passed, depth + 1)
