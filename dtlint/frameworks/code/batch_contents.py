"""Tells whether a condition rests on what the batch of one rank holds: how many samples a comparison picks out of it,
whether its loss is finite.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

from dtlint.frameworks.code.loss_factors import bound
from dtlint.frameworks.code.partial_values import Partial
from dtlint.frameworks.pytorch.step_area import called_function
from dtlint.languages.python.bindings import dotted, last_word
from dtlint.languages.python.names import lookup
from dtlint.languages.python.places import Budget, Place
from dtlint.languages.python.program import Definition
from dtlint.languages.python.tree import Binding
from dtlint.source import Span

AGREED = re.compile(
    r"reduce|gather|broadcast|bcast|sync|agree|recv|scatter|any_rank|all_rank|global|world|(train|eval)_batch",
    re.IGNORECASE,
)
"""Words of functions and values by which the ranks may know the same; a pipeline's train_batch tells them the mean."""
_OF_MODEL = re.compile(
    r"grad|param|weight|state|buffer|norm|cluster|code|embed|expert|ema|queue|bank|step|epoch|iter|rank|cfg|config|args"
    r"|option",
    re.IGNORECASE,
)
"""Words of what all ranks have alike: weights and gradients, what layers keep, counts of turns, settings."""
_OF_BATCH = re.compile(
    r"label|target|\bgts?\b|\bgt_|_gt\b|annot|\bbox|_box|bbox|\bpos|_pos\b|positive|valid|ignore|tokens?\b"
)
"""Words of what comes with the samples."""
_BATCHES = re.compile(r"batch|sample|inputs?\b|target|label|annot|\bgts?\b|\bimages?\b|\bpred", re.IGNORECASE)
"""Words in names of parameters by which a function is given its batch."""
_LOADERS = re.compile(r"loader|batches", re.IGNORECASE)
"""Words of what loops take their batches from."""
_LOSS = re.compile(r"loss", re.IGNORECASE)
_FINITE = frozenset(("isnan", "isinf", "isfinite"))
_PICKS = frozenset(("nonzero", "argwhere", "masked_select", "unique", "flatnonzero"))
"""Functions whose result is as long as the values decide."""
_COUNTS = frozenset(("any", "sum", "count_nonzero"))
_COMPARE = frozenset(("eq", "ne", "ge", "gt", "le", "lt"))
_LENGTHS = frozenset(("numel", "nelement", "len", "size"))
_PLAIN = frozenset((
    "abs", "bool", "clone", "cpu", "detach", "double", "flatten", "float", "int", "item", "long", "max", "mean", "min",
    "numpy", "reshape", "squeeze", "sum", "tensor", "to", "tolist", "view",
))  # fmt: skip
"""Functions and methods that hand on what they are given, or a number of it."""
_LEVELS = 6
_BACKWARD = ("backward", "manual_backward")
_TRAINING = ("training_step",)

Ask = Callable[[Place, int], Span | None]


def own_batch(test: Place) -> Partial | None:
    """What a condition asks of this rank's own batch; None for anything else, and for what the ranks may agree on."""
    test = test._replace(budget=Budget())
    if AGREED.search(test.module.text(test.node, 200)):
        return None
    for part in operands(test.node):
        here = test.at(part)
        if _asks_loss(here):
            return Partial("loss", here.module.span(part), "the loss of this rank's own batch")
        picked = _counted(here, _LEVELS)
        if picked is not None:
            return Partial("picked", picked, "the samples of this rank's own batch decide")
    return None


def operands(test: ast.AST) -> Iterator[ast.AST]:
    """The parts of a condition of which each may decide."""
    if isinstance(test, ast.BoolOp):
        for value in test.values:
            yield from operands(value)
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not | ast.Invert):
        yield from operands(test.operand)
    elif isinstance(test, ast.Compare) and isinstance(test.comparators[0], ast.Constant) and len(test.ops) == 1:
        yield from operands(test.left) if isinstance(test.comparators[0].value, bool) else (test.left,)
    else:
        yield test


def _asks_loss(place: Place) -> bool:
    """Whether something asks if the loss is finite that the function around goes backward with, and that nothing has
    the ranks agree on.
    """
    asked = (node for node in ast.walk(place.node) if isinstance(node, ast.Call) and last_word(node.func) in _FINITE)
    given = {part.id for call in asked for part in ast.walk(call) if isinstance(part, ast.Name)}
    losses = {name for name in given if _LOSS.search(name) or _is_value_of_loss(place, name)}
    return bool(losses) and _trains(place) and all(_is_of_rank(place, name, _LEVELS) for name in losses)


def _is_value_of_loss(place: Place, name: str) -> bool:
    """`value = loss.item()`"""
    told = [inside for inside, binding in bound(place, name) if binding.kind == "value"]
    return bool(told) and all(_LOSS.search(inside.module.text(inside.node, 100)) for inside in told)


def _trains(place: Place) -> bool:
    """Whether a function goes backward, or a front end does with what it returns."""
    if place.scope.name.rpartition(".")[2] in _TRAINING:
        return True
    words = (last_word(site.node.func) for site in place.scope.sites if isinstance(site.node, ast.Call))
    return any(word in _BACKWARD for word in words)


def _is_of_rank(place: Place, name: str, levels: int) -> bool:
    """Whether a loss is made here, by functions that let no ranks agree."""
    made = [(inside, binding) for inside, binding in bound(place, name) if isinstance(binding.node, ast.expr)]
    told = [inside for inside, binding in made if binding.kind == "value"]
    if not told or len(told) < len(made) or not levels or _is_agreed(place, name):
        return False
    return all(_tells_nobody(inside, levels) for inside in told)


def _tells_nobody(place: Place, levels: int) -> bool:
    for node in ast.walk(place.node):
        if isinstance(node, ast.Call):
            helper = called_function(place.at(node))
            if AGREED.search(place.module.text(node.func, 100)) or (helper is not None and _agrees(helper)):
                return False
        elif isinstance(node, ast.Name) and _LOSS.search(node.id) and not _is_function(place, node):
            told = [inside for inside, each in bound(place, node.id) if each.kind == "value"]
            if not told or not all(_tells_nobody(inside, levels - 1) for inside in told if levels):
                return False
    return True


def _is_function(place: Place, name: ast.Name) -> bool:
    return any(isinstance(node, ast.Call) and node.func is name for node in ast.walk(place.node))


def _agrees(helper: Definition) -> bool:
    calls = (site.node for site in helper.scope.sites if isinstance(site.node, ast.Call))
    return any(AGREED.search(helper.module.text(call.func, 100)) for call in calls)


def _is_agreed(place: Place, name: str) -> bool:
    """Whether the function hands a name, before it is asked, to what may tell all ranks the same."""
    line = getattr(place.node, "lineno", 0)
    for site in place.scope.sites:
        node = site.node
        if isinstance(node, ast.Call) and node.lineno < line and AGREED.search(place.module.text(node.func, 100)):
            given = (*node.args, *(keyword.value for keyword in node.keywords))
            if any(isinstance(part, ast.Name) and part.id == name for item in given for part in _handed(item)):
                return True
    return False


def _handed(given: ast.expr) -> Iterator[ast.expr]:
    """What a function may change of what it is given: the value of a call is another."""
    if isinstance(given, ast.Attribute | ast.Subscript | ast.Starred):
        yield from _handed(given.value)
    elif isinstance(given, ast.List | ast.Tuple):
        yield from (part for item in given.elts for part in _handed(item))
    else:
        yield given


def _counted(place: Place, levels: int) -> Span | None:
    """Where something is picked out of the batch whose number an expression is: `len(positive)`, `mask.sum()`,
    `positive.numel()`, `positive.shape[0]`.
    """
    node = place.node
    if not levels:
        return None
    if isinstance(node, ast.Name):
        return _of_name(place, node, _counted, levels)
    if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp):
        return _filtered(place, node)
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
        return _picked(place.at(node.value.value), levels)
    if not isinstance(node, ast.Call):
        return None
    word, given = last_word(node.func), _first(node)
    if given is None:
        return None
    if word in _LENGTHS:
        return _picked(place.at(given), levels)
    if word in _COUNTS and (mask := _mask(place.at(given), levels)) is not None:
        return mask
    return _counted(place.at(given), levels) if word in _PLAIN else None


def _picked(place: Place, levels: int) -> Span | None:
    """Where a tensor is picked out of the batch, whose length the values decide."""
    node = place.node
    if not levels:
        return None
    if isinstance(node, ast.Name):
        return _of_name(place, node, _picked, levels)
    if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp):
        return _filtered(place, node)
    if isinstance(node, ast.Subscript):
        chosen = _mask(place.at(node.slice), levels) or _picked(place.at(node.slice), levels)
        return chosen or (_picked(place.at(node.value), levels) if _keeps_length(node) else None)
    if isinstance(node, ast.Attribute) and node.attr == "T":
        return _picked(place.at(node.value), levels)
    given = _first(node) if isinstance(node, ast.Call) else None
    if not isinstance(node, ast.Call) or given is None:
        return None
    if last_word(node.func) in _PICKS or (last_word(node.func) == "where" and len(node.args) == 1):
        return _mask(place.at(given), levels)
    return _picked(place.at(given), levels) if last_word(node.func) in _PLAIN else None


def _filtered(place: Place, node: ast.ListComp | ast.SetComp | ast.DictComp) -> Span | None:
    """Where a comprehension keeps the samples of the batch that have what is asked for: `[i for i, t in
    enumerate(targets) if len(t["boxes"]) > 0]`.
    """
    if not comes_with_batch(place.at(node.generators[0].iter), _LEVELS):
        return None
    tests = (test for part in node.generators for test in part.ifs)
    return next((place.module.span(test) for test in tests if asks_sample(place.at(test))), None)


def comes_with_batch(place: Place, levels: int = _LEVELS) -> bool:
    """Whether an expression rests on what a function or a loop is given as its batch."""
    names = (node.id for node in ast.walk(place.node) if isinstance(node, ast.Name)) if levels else ()
    return any(place.budget.spend() and _is_given(place, name, levels) for name in names)


def _is_given(place: Place, name: str, levels: int) -> bool:
    holder, bindings = lookup(place.scope, name)
    if holder is None:
        return False
    return any(_gives(place._replace(scope=holder), name, binding, levels) for binding in bindings)


def _gives(place: Place, name: str, binding: Binding, levels: int) -> bool:
    """Whether a binding gives a name its batch, or a part of one."""
    if binding.kind == "parameter":
        return bool(_BATCHES.search(name))
    if binding.node is None:
        return False
    loads = binding.kind == "loop" and bool(_LOADERS.search(place.module.text(binding.node, 100)))
    return loads or comes_with_batch(place.at(binding.node), levels - 1)


def asks_sample(test: Place) -> bool:
    """Whether a condition asks what one sample has: `len(target["boxes"]) > 0`, `sample["valid"]`."""
    return any(_is_of_batch(test.at(part)) for part in operands(test.node))


def _keeps_length(node: ast.Subscript) -> bool:
    """`torch.where(mask)[0]`, `mask.nonzero()[:, 0]`: the indices along one dimension, not the first index."""
    if isinstance(node.slice, ast.Tuple):
        return isinstance(node.slice.elts[0], ast.Slice)
    call = node.value if isinstance(node.value, ast.Call) else None
    return call is not None and (
        last_word(call.func) == "where" or any(item.arg == "as_tuple" for item in call.keywords)
    )


def _mask(place: Place, levels: int) -> Span | None:
    """Where a comparison asks each sample of the batch: `labels >= 0`, `(labels >= 0) & (labels < classes)`."""
    node = place.node
    if not levels:
        return None
    if isinstance(node, ast.Name):
        return _of_name(place, node, _mask, levels)
    if isinstance(node, ast.UnaryOp):
        return _mask(place.at(node.operand), levels)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd | ast.BitOr | ast.Mult):
        return _mask(place.at(node.left), levels) or _mask(place.at(node.right), levels)
    if isinstance(node, ast.Compare):
        return place.module.span(node) if _is_of_batch(place.at(node.left)) else None
    given = _first(node) if isinstance(node, ast.Call) else None
    if not isinstance(node, ast.Call) or given is None:
        return None
    if last_word(node.func) in _COMPARE:
        return place.module.span(node) if _is_of_batch(place.at(given)) else None
    return _mask(place.at(given), levels) if last_word(node.func) in _PLAIN else None


def _is_of_batch(place: Place) -> bool:
    """Whether what is compared comes with the samples, and nothing of it is what all ranks have alike."""
    text = place.module.text(place.node, 100)
    if not isinstance(place.node, ast.Name | ast.Subscript | ast.Attribute | ast.Call) or _OF_MODEL.search(text):
        return False
    names = (node for node in ast.walk(place.node) if isinstance(node, ast.Name))
    return bool(_OF_BATCH.search(text)) and not any(_is_told(place, node) for node in names)


def _is_told(place: Place, name: ast.Name) -> bool:
    """Whether the ranks may have agreed on a name, or on what it is bound to."""
    told = (item.module.text(item.node, 200) for item, _ in bound(place, name.id))
    return _is_agreed(place, name.id) or any(map(AGREED.search, told))


def _first(call: ast.Call) -> ast.expr | None:
    """What a function of torch, or a method of a tensor, is given first."""
    if isinstance(call.func, ast.Attribute) and dotted(call.func.value) not in ("torch", "np", "numpy", "math"):
        return call.func.value
    return call.args[0] if call.args else None


def _of_name(place: Place, name: ast.Name, ask: Ask, levels: int) -> Span | None:
    """What all values of a name tell; nothing where the ranks may have agreed on it."""
    made = list(bound(place, name.id))
    if not made or _is_told(place, name):
        return None
    if any(binding.kind != "value" or binding.path for _, binding in made):
        return None
    found = [ask(inside, levels - 1) for inside, _ in made]
    return found[0] if all(each is not None for each in found) else None
