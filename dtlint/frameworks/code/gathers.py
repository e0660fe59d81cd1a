"""Finds contrastive losses over features that were gathered without gradients, or with this rank's own gradient alone:
`code.local_losses`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from dtlint.frameworks import Member
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.code.mentions import mentions
from dtlint.frameworks.code.own_gradients import Gathered, base_name, gathered_by
from dtlint.frameworks.code.passes import FROZEN, without_gradients
from dtlint.frameworks.code.plain_gathers import GATHERS, TORCH, Plain, plain_gather, puts_back
from dtlint.frameworks.code.ranks import asks_for_ranks
from dtlint.frameworks.code.trained_together import are_trained_together
from dtlint.frameworks.code.with_blocks import with_blocks
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.calls import argument, call_at, called
from dtlint.languages.python.places import Budget, Place, place_of
from dtlint.languages.python.program import Program, sites
from dtlint.languages.python.reach import enclosing_function, stands
from dtlint.languages.python.tree import Module, Scope
from dtlint.source import Span
from dtlint.value import Setting, Value

_CARRIED = re.compile(r"distributed\.nn|autograd\.Function|GatherLayer|with_grad|queue|momentum_enc|memory_bank")
"""Words of programs that gather with gradients, or mean none to flow."""
_EVALUATES = re.compile(r"eval|test|metric|acc(uracy)?\b|recall|valid|infer|search|retriev", re.IGNORECASE)
_LOSSES = re.compile(r"cross_entropy|CrossEntropy|log_softmax|logsumexp|criterion|nll_loss")
_TARGETS = re.compile(r"label|target|mask|(^|_)(ids?|idx|index|y)$", re.IGNORECASE)
"""Words in names of what has no gradient to lose."""
_LAYERS = re.compile(r"autograd\.Function|autograd import Function|autograd\.function")
"""Words of programs that have a backward pass of their own."""
_PRODUCTS = frozenset({"matmul", "mm", "einsum", "linear", "cosine_similarity", "cdist"})
_STEPS = re.compile(r"(^|\.)training_step$")
_LOCAL, _GRADIENTS = "local_loss", "gather_with_grad"


def local_losses(program: Program) -> tuple[Member, ...]:
    """The collection `code.local_losses`: `how` ("options", "code", "back" or "own") and `name` of a loss between this
    rank's features and those of all ranks, which arrive without gradients, but for its own that it puts back, or with
    the own gradient alone by `layer`.
    """
    return (*_by_options(program), *_by_hand(program), *_by_function(program), *_by_layer(program))


def _by_options(program: Program) -> Iterator[Member]:
    """Calls with local_loss=True and gather_with_grad=False, the options of open_clip's loss and of its kin."""
    for module in program.modules.values():
        for site in sites(module) if _LOCAL in module.source.text else ():
            names = {keyword.arg for keyword in site.node.keywords} if isinstance(site.node, ast.Call) else set()
            if not {_LOCAL, _GRADIENTS} <= names:
                continue
            place = place_of(program, module, site)
            call = call_at(place, "")
            if _is(argument(call, _LOCAL), True) and _is(argument(call, _GRADIENTS), False) and stands(place):
                yield Member(call.head, texts(call.head, how="options", name=module.text(site.node, 40)))


def _is(value: Setting | None, wanted: bool) -> bool:
    return isinstance(value, Value) and value.value is wanted and value.origin.kind != "assumed"


def _by_hand(program: Program) -> Iterator[Member]:
    """Functions that gather features and set each rank's own against all: of two kinds, both ways, or of one model."""
    if mentions(program, _CARRIED) or not any(map(_trains, program.modules.values())):
        return
    for module in program.modules.values():
        for site in module.called.get("all_gather", ()):
            place = place_of(program, module, site)
            if called(place) in GATHERS and stands(place) is not False and _computes_loss(place):
                tensor = _gathered_tensor(place)
                own = _own_features(place, tensor) if tensor and tensor not in _frozen(place) else ""
                if own:
                    span = module.span(site.node)
                    told = _told(Plain((), place, _puts_back(place)))
                    yield Member(span, texts(span, how="back" if _puts_back(place) else "code", name=own, **told))


def _trains(module: Module) -> bool:
    """Whether a file goes backward, or leaves that to Lightning."""
    return "backward" in module.called or any(_STEPS.search(name) for name in module.definitions)


def _by_function(program: Program) -> Iterator[Member]:
    """Functions that set each rank's own features against all, which a function of the program gathers."""
    if mentions(program, _CARRIED) or not any(map(_trains, program.modules.values())):
        return
    found: dict[Span, Member] = {}
    for module in program.modules.values() if any(_gathers(each) for each in program.modules.values()) else ():
        for scope in module.scopes if _LOSSES.search(module.source.text) else ():
            for place, tensor, gather in _met(program, module, scope):
                at = gather.gather.module.span(gather.gather.node)
                fields = texts(at, how="back" if gather.back else "code", name=tensor, **_told(gather))
                related = ((module.span(place.node), "own features against those of all ranks"),)
                found.setdefault(at, Member(at, fields, related))
    yield from found.values()


def _told(gather: Plain) -> dict[str, str]:
    """Whose gather it is, and how it is called."""
    node = gather.gather.node
    spelled = dotted(node.func) if isinstance(node, ast.Call) and gather.by != TORCH else "dist.all_gather"
    return {"by": gather.by, "gather": spelled}


def _gathers(module: Module) -> bool:
    return any(name.rpartition(".")[2] in module.called for name in (*GATHERS, "gather"))


def _met(program: Program, module: Module, scope: Scope) -> Iterator[tuple[Place, str, Plain]]:
    """The products of a function between features and all ranks' of the other kind, where both are gathered."""
    named: dict[str, Plain] = {}
    for site in scope.sites if isinstance(scope.node, ast.FunctionDef) else ():
        place = place_of(program, module, site)
        if isinstance(site.node, ast.Assign) and _computes_loss(place) and stands(place) is not False:
            named |= dict(_named(place, site.node))
    gathered = {base_name(tensor) for each in named.values() for tensor in each.tensors} - named.keys() - {""}
    own = {name for name in gathered if not _TARGETS.search(name)}
    frozen = _frozen(Place(program, module, scope, scope.node)) if named else set()
    nodes = [node for each in _unless_alone(program, module, scope) for node in ast.walk(each)] if named else []
    for node in nodes if own.isdisjoint(frozen) else ():
        sides = [_base(side) for side in _sides(node)]
        gather = next((named[side] for side in sides if side in named), None)
        here = Place(program, module, scope, node)
        tensor = next((side for side in sides if side in own), "") or (
            _met_by(here, sides, gather, named) if gather else ""
        )
        if gather is not None and tensor and not without_gradients(here):
            yield here, tensor, gather


def _met_by(place: Place, sides: list[str], gather: Plain, named: Mapping[str, Plain]) -> str:
    """The features, themselves not gathered, that a product sets against what is gathered of others which are trained
    with them: a question against all passages.
    """
    others = {base_name(tensor) for tensor in gather.tensors}
    own = [side for side in sides if "." not in side and side not in named and not _TARGETS.search(side)]
    return next((side for side in own if len(others) == 1 and are_trained_together(place, side, *others)), "")


def _unless_alone(program: Program, module: Module, scope: Scope) -> Iterator[ast.AST]:
    """The assignments and results of a function that nothing but the number of ranks keeps it from."""
    for site in scope.sites:
        place = place_of(program, module, site)
        told = isinstance(site.node, ast.Assign | ast.Return)
        if told and all(asks_for_ranks(place, guard) for guard in site.guards) and stands(place) is not False:
            yield site.node


def _named(place: Place, node: ast.Assign) -> Iterator[tuple[str, Plain]]:
    """The names of what functions of the program gather: `every = gather(x)`, `xs, ys = gather(x, y)`."""
    for target, value in _pairs(node):
        gather = plain_gather(place.at(value)._replace(budget=Budget())) if isinstance(value, ast.Call) else None
        for name in target.elts if isinstance(target, ast.Tuple | ast.List) else [target]:
            if gather is not None and dotted(name):
                yield dotted(name), gather


def _by_layer(program: Program) -> Iterator[Member]:
    """Functions that set each rank's own features against all, which an autograd function gathers that sends back what
    this rank's own loss says of them.
    """
    found: dict[Span, Member] = {}
    for module in program.modules.values() if mentions(program, _LAYERS) else ():
        for scope in module.scopes if _LOSSES.search(module.source.text) else ():
            for site in scope.sites if isinstance(scope.node, ast.FunctionDef) else ():
                place = place_of(program, module, site)
                if not isinstance(site.node, ast.Return) or not _is_training(place) or stands(place) is False:
                    continue
                for gathered, product in _set_against_all(place):
                    name = module.text(product, 40)
                    fields = texts(gathered.taken, how="own", name=name, layer=gathered.layer)
                    related = ((module.span(product), "own features against those of all ranks"),)
                    found.setdefault(gathered.taken, Member(gathered.taken, fields, related))
    yield from found.values()


def _set_against_all(place: Place) -> Iterator[tuple[Gathered, ast.AST]]:
    """The products of a function between features and what is gathered of such, and what gathers."""
    function = enclosing_function(place.scope)
    nodes = list(ast.walk(function.node)) if function is not None else []
    surely = {id(part) for each in _sure_statements(place) for part in ast.walk(each)}
    pairs = [pair for node in nodes if isinstance(node, ast.Assign) for pair in _pairs(node)]
    found = ((dotted(name), gathered_by(place.at(value)._replace(budget=Budget()))) for name, value in pairs)
    named = {name: gathered for name, gathered in found if name and gathered is not None}
    own = {base_name(gathered.tensor) for gathered in named.values()}
    for node in nodes if named else ():
        sides = [_base(side) for side in _sides(node)]
        joined = next((named[side] for side in sides if side in named), None)
        if joined is not None and not own.isdisjoint(sides) and id(node) in surely:
            yield joined, node


def _sure_statements(place: Place) -> Iterator[ast.AST]:
    """The assignments and results of a function that no condition keeps it from."""
    for site in place.scope.sites:
        if isinstance(site.node, ast.Assign | ast.Return) and stands(place_of(place.program, place.module, site)):
            yield site.node


def _pairs(node: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What an assignment binds, and what to."""
    for target in node.targets:
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            yield from zip(target.elts, node.value.elts, strict=False)
        else:
            yield target, node.value


def _is_training(place: Place) -> bool:
    """Whether a call stands in a function that computes a loss with gradients."""
    function = enclosing_function(place.scope)
    if function is None or not isinstance(function.node, ast.FunctionDef) or _EVALUATES.search(function.name):
        return False
    text = place.module.source.text[slice(*place.module.span(function.node)[1:])]
    frozen = any("no_grad" in ast.dump(decorator) for decorator in function.node.decorator_list)
    return not frozen and "no_grad" not in text and "detach()" not in text and bool(_LOSSES.search(text))


def _computes_loss(place: Place) -> bool:
    """Whether a call stands with gradients in a function that computes a loss."""
    function = enclosing_function(place.scope)
    if function is None or not isinstance(function.node, ast.FunctionDef) or _EVALUATES.search(function.name):
        return False
    text = place.module.source.text[slice(*place.module.span(function.node)[1:])]
    return bool(_LOSSES.search(text)) and "detach()" not in text and not without_gradients(place)


def _frozen(place: Place) -> set[str]:
    """The names that a function binds in blocks without gradients."""
    cut = [
        block
        for block in with_blocks(place)
        if any(FROZEN.search(place.module.text(item.context_expr)) for item in block.items)
    ]
    names = (node for block in cut for node in ast.walk(block) if isinstance(node, ast.Name | ast.Attribute))
    return {dotted(node) for node in names if isinstance(node.ctx, ast.Store)}


def _gathered_tensor(place: Place) -> str:
    """The name of the tensor that is gathered, `x` of `all_gather(parts, x.contiguous())`."""
    node = place.node
    tensor = node.args[1] if isinstance(node, ast.Call) and len(node.args) > 1 else None
    if isinstance(tensor, ast.Call) and isinstance(tensor.func, ast.Attribute) and tensor.func.attr == "contiguous":
        tensor = tensor.func.value
    return dotted(tensor) if tensor is not None else ""


def _own_features(place: Place, tensor: str) -> str:
    """The rank's own features that meet gathered ones in a product: what is gathered itself, or what is trained with
    that; "" for none.
    """
    function = enclosing_function(place.scope)
    assert function is not None and isinstance(place.node, ast.Call)
    nodes, parts = list(ast.walk(function.node)), dotted(place.node.args[0])
    here = _joined(nodes, parts) if parts else set()
    lists = {dotted(node.args[0]) for node in nodes if isinstance(node, ast.Call) and called(place.at(node)) in GATHERS}
    joined = {name for item in lists for name in _joined(nodes, item)}
    if here and any(_is_product(node, tensor, joined) for node in nodes):
        return tensor
    met = [[_base(side) for side in _sides(node)] for node in nodes]
    sides = {side for each in met if not here.isdisjoint(each) for side in each if side} - joined
    own = sorted(side for side in sides if "." not in side and not _TARGETS.search(side))
    return next((side for side in own if are_trained_together(place, side, tensor)), "")


def _puts_back(place: Place) -> bool:
    """Whether a function puts the rank's own features back into what it gathers, with their gradients."""
    function = enclosing_function(place.scope)
    parts = dotted(place.node.args[0]) if isinstance(place.node, ast.Call) else ""
    return function is not None and puts_back(function.node, parts)


def _joined(nodes: list[ast.AST], parts: str) -> set[str]:
    """The names of `torch.cat(parts)`, which nothing else is concatenated into."""
    found = set()
    for node in nodes:
        value = node.value if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
        if not isinstance(value, ast.Call) or not isinstance(node, ast.Assign) or not value.args:
            continue
        if dotted(value.func).rpartition(".")[2] in ("cat", "concat") and dotted(value.args[0]) == parts:
            found.add(dotted(node.targets[0]))
    return found


def _is_product(node: ast.AST, tensor: str, joined: set[str]) -> bool:
    """`x @ every.T`, `torch.matmul(x, every.t())`."""
    names = [_base(side) for side in _sides(node)]
    return tensor in names and not joined.isdisjoint(names)


def _sides(node: ast.AST) -> list[ast.expr]:
    """What a product is made of, [] for anything else."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return [node.left, node.right]
    multiplies = isinstance(node, ast.Call) and dotted(node.func).rpartition(".")[2] in _PRODUCTS
    return node.args[-2:] if isinstance(node, ast.Call) and multiplies else []


def _base(node: ast.expr) -> str:
    """`x` of `x.T` and `x.t()`."""
    while True:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func.value
        elif isinstance(node, ast.Attribute) and node.attr in ("T", "mT"):
            node = node.value
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            node = node.right
        else:
            return dotted(node)
