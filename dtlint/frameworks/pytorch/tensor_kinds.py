"""Tells what a tensor expression in a training script is: a parameter, its gradient, or collections of them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Literal

from dtlint.frameworks.pytorch.step_area import handed_over
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.called import argument_node
from dtlint.languages.python.callers import callers
from dtlint.languages.python.names import attribute_bindings, lookup, qualified
from dtlint.languages.python.places import Place
from dtlint.languages.python.program import Definition
from dtlint.languages.python.tree import Binding, Scope
from dtlint.record import NamedTuple

Word = Literal["parameter", "gradient", "perhaps", "other", "many", "tuple", "itself"]
_MAX_DEPTH = 14


class Kind(NamedTuple):
    """What an expression is. "perhaps": a gradient, but of what, or whether of every rank's same tensor, is not
    certain.

    A "many" has the kind of its elements as its only part, a "tuple" one part for each element.
    """

    word: Word
    parts: tuple[Kind, ...] = ()


PARAMETER, GRADIENT, PERHAPS, OTHER = Kind("parameter"), Kind("gradient"), Kind("perhaps"), Kind("other")
ITSELF = Kind("itself")
"""What a name is in its own binding (`x = x.view(-1)`): nothing that its other bindings do not say."""

_SAME = frozenset(
    {"data", "detach", "view", "view_as", "contiguous", "flatten", "reshape", "coalesce", "cuda", "requires_grad_"}
)
_COPIES = frozenset(
    {"clone", "float", "half", "bfloat16", "to", "cpu", "double", "abs", "norm", "pow", "square", "sum"}
)
_SEQUENCES = frozenset({"list", "tuple", "reversed", "sorted", "set", "iter", "itertools.chain"})
_FLATTEN = frozenset(
    {
        "torch.cat",
        "torch.concat",
        "torch.stack",
        "torch._utils._flatten_dense_tensors",
        "torch.nn.utils.parameters_to_vector",
        "torch.nn.utils.convert_parameters.parameters_to_vector",
        "torch._C._nn.flatten_dense_tensors",
    }
)
_UNFLATTEN = frozenset({"torch._utils._unflatten_dense_tensors", "torch._C._nn.unflatten_dense_tensors"})
_HOOKS = frozenset({"register_hook", "register_post_accumulate_grad_hook"})


def many(kind: Kind) -> Kind:
    """A collection of things of one kind."""
    return Kind("many", (kind,))


def merged(kinds: Iterable[Kind]) -> Kind:
    """The kind of something that can be any of these."""
    found = [kind for kind in dict.fromkeys(kinds) if kind != ITSELF]
    if not found:
        return OTHER
    if len(found) == 1:
        return found[0]
    if all(kind.word == "many" for kind in found):
        return many(merged(kind.parts[0] for kind in found))
    return PERHAPS if any(_holds_gradient(kind) for kind in found) else OTHER


def _holds_gradient(kind: Kind) -> bool:
    return kind.word in ("gradient", "perhaps") or any(_holds_gradient(part) for part in kind.parts)


def is_gradient(kind: Kind) -> bool:
    """Certainly the gradients of a model's parameters, one or a collection."""
    return kind.word == "gradient" or (kind.word == "many" and is_gradient(kind.parts[0]))


def may_be_gradient(kind: Kind) -> bool:
    """Possibly a gradient."""
    return _holds_gradient(kind)


def kind_of(place: Place) -> Kind:
    """What the expression at `place` is."""
    node = place.node
    if place.depth > _MAX_DEPTH or not place.budget.spend():
        return OTHER
    if isinstance(node, ast.Attribute):
        return _attribute(place, node)
    if isinstance(node, ast.Name):
        return _name(place, node.id)
    if isinstance(node, ast.Call):
        return _call(place, node)
    if isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp):
        return many(kind_of(_inside(place, node, node.elt)))
    if isinstance(node, ast.List | ast.Tuple):
        return _display(place, node)
    if isinstance(node, ast.Subscript):
        return _subscript(place, node)
    if isinstance(node, ast.IfExp):
        return merged((kind_of(place.inner(node.body)), kind_of(place.inner(node.orelse))))
    if isinstance(node, ast.BinOp):
        return merged((kind_of(place.inner(node.left)), kind_of(place.inner(node.left))))
    return OTHER


def _inside(place: Place, holder: ast.AST, node: ast.AST) -> Place:
    """A part of a comprehension or lambda, in the scope that it opens."""
    scope = next((scope for scope in place.module.scopes if scope.node is holder), place.scope)
    return place.inner(node)._replace(scope=scope)


def _attribute(place: Place, node: ast.Attribute) -> Kind:
    if node.attr in ("grad", "main_grad"):
        return GRADIENT if kind_of(place.inner(node.value)) == PARAMETER else PERHAPS
    if node.attr in _SAME:
        return kind_of(place.inner(node.value))
    return _name(place, dotted(node)) if dotted(node) else OTHER


def _display(place: Place, node: ast.List | ast.Tuple) -> Kind:
    kinds = []
    for item in node.elts:
        inner = kind_of(place.inner(item.value if isinstance(item, ast.Starred) else item))
        kinds.append(inner.parts[0] if isinstance(item, ast.Starred) and inner.word == "many" else inner)
    return (
        many(merged(kinds))
        if isinstance(node, ast.List) or any(isinstance(i, ast.Starred) for i in node.elts)
        else Kind("tuple", tuple(kinds))
    )


def _subscript(place: Place, node: ast.Subscript) -> Kind:
    """`group["params"]` of an optimizer's groups; an item of a collection."""
    holder = kind_of(place.inner(node.value))
    if isinstance(node.slice, ast.Constant) and node.slice.value == "params":
        return many(PARAMETER)
    if holder.word == "many":
        return holder if isinstance(node.slice, ast.Slice) else holder.parts[0]
    return OTHER


def _call(place: Place, node: ast.Call) -> Kind:
    if isinstance(node.func, ast.Attribute):
        method = node.func.attr
        if method == "parameters":
            return many(PARAMETER)
        if method == "named_parameters":
            return many(Kind("tuple", (OTHER, PARAMETER)))
        if method in _SAME:
            return kind_of(place.inner(node.func.value))
        if method in _COPIES:
            return PERHAPS if may_be_gradient(kind_of(place.inner(node.func.value))) else OTHER
        if method == "items":
            return many(Kind("tuple", (OTHER, _element(kind_of(place.inner(node.func.value))))))
        if method == "values":
            return kind_of(place.inner(node.func.value))
    return _function_call(place, node)


def _function_call(place: Place, node: ast.Call) -> Kind:
    names = qualified(place.module, node.func, place.scope)
    name = names[0] if names else ""
    inner = [kind_of(place.inner(item)) for item in node.args if not isinstance(item, ast.Starred)]
    if name in _SEQUENCES and inner:
        return merged(inner)
    if name == "filter" and len(inner) == 2:
        return inner[1]
    if name == "enumerate" and inner:
        return many(Kind("tuple", (OTHER, _element(inner[0]))))
    if name == "zip":
        return many(Kind("tuple", tuple(_element(kind) for kind in inner)))
    if name in _FLATTEN and inner:
        return GRADIENT if is_gradient(inner[0]) else PERHAPS if may_be_gradient(inner[0]) else OTHER
    if name in _UNFLATTEN and inner:
        return many(inner[0])
    return OTHER


def _element(kind: Kind) -> Kind:
    return kind.parts[0] if kind.word == "many" else OTHER


def _name(place: Place, name: str) -> Kind:
    """What a name can be by all its bindings in the scope that owns it, and what is appended to it there.

    `p -= x` leaves a tensor what it is.
    """
    holder, bindings = lookup(place.scope, name)
    owned = [(holder, item) for item in bindings] if holder is not None else []
    owned = owned or attribute_bindings(place.module, place.scope, name)
    key = ("kind", id(owned[0][1]) if owned else 0, name)
    known = place.budget.memo.get(key)
    if isinstance(known, Kind):
        return known
    place.budget.memo[key] = ITSELF
    kind = _of_bindings(place, name, owned)
    place.budget.memo[key] = kind
    return kind


def _of_bindings(place: Place, name: str, owned: list[tuple[Scope, Binding]]) -> Kind:
    new = [(scope, binding) for scope, binding in owned if not isinstance(binding.node, ast.AugAssign)]
    kinds = [_bound(place._replace(scope=scope), binding, name) for scope, binding in new]
    if not any(_is_empty(binding.node) for _, binding in new):
        return merged(kinds)
    filled = [many(kind) for kind in _appended(place, new[0][0], name)]
    written = [kind for kind in kinds if kind != many(OTHER)]
    return merged([*written, *filled] if filled else kinds)


def _bound(place: Place, binding: Binding, name: str) -> Kind:
    if binding.kind == "parameter":
        return _parameter(place, name)
    if binding.node is None or binding.kind not in ("value", "loop") or not place.budget.spend():
        return OTHER
    kind = kind_of(place.inner(binding.node))
    if binding.kind == "loop":
        kind = _element(kind)
    for index in binding.path:
        kind = kind.parts[index] if kind.word == "tuple" and 0 <= index < len(kind.parts) else OTHER
    return kind


def _is_empty(node: ast.AST | None) -> bool:
    """A collection that starts empty: `[]`, `{}`, `list()`, `defaultdict(list)`."""
    if isinstance(node, ast.List):
        return not node.elts
    return isinstance(node, ast.Dict) or (
        isinstance(node, ast.Call) and dotted(node.func).endswith(("list", "dict", "Dict"))
    )


def _appended(place: Place, holder: Scope, name: str) -> Iterator[Kind]:
    """What `name.append(x)` and `name[key].append(x)` put into a collection."""
    for scope in place.module.scopes:
        if scope is not holder and not _within(scope, holder):
            continue
        for site in scope.sites:
            node = site.node
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in ("append", "add")
                and node.args
            ):
                target = node.func.value.value if isinstance(node.func.value, ast.Subscript) else node.func.value
                if dotted(target) == name:
                    yield kind_of(place.inner(node.args[0])._replace(scope=scope))


def _within(scope: Scope, holder: Scope) -> bool:
    parent = scope.parent
    while parent is not None:
        if parent is holder:
            return True
        parent = parent.parent
    return False


def _parameter(place: Place, name: str) -> Kind:
    """A parameter is what every call passes, and what a hook gets that is registered on parameters."""
    function = place.scope
    hooked = list(_hook_arguments(place, function))
    if hooked:
        return merged(hooked)
    kinds = []
    for module, site in callers(place.program, Definition(place.module, function)):
        passed = argument_node(function, name, site.node)
        if passed is None or not place.budget.spend():
            return OTHER
        kinds.append(kind_of(place.inner(passed)._replace(module=module, scope=site.scope)))
    return merged(kinds)


def _hook_arguments(place: Place, function: Scope) -> Iterator[Kind]:
    """What a function gets as a hook: of `register_hook` the gradient of the tensor, of the other kind the tensor."""
    for site in handed_over(place.program, Definition(place.module, function)):
        called = site.node.func if isinstance(site.node, ast.Call) else site.node
        if isinstance(called, ast.Attribute) and called.attr in _HOOKS:
            tensor = kind_of(place.inner(called.value)._replace(scope=site.scope))
            of_gradient = GRADIENT if tensor == PARAMETER else PERHAPS
            yield of_gradient if called.attr == "register_hook" else tensor
