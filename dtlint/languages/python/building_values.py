"""What expressions stand for among objects under construction: attributes, items, and values worked out of them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

from dtlint.languages.python.arithmetic import calculated, compared
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.building import Here, Run, enter, run_statements, truth
from dtlint.languages.python.built import DICT, LIST, Built, Part, join, leaf
from dtlint.languages.python.constants import evaluate
from dtlint.languages.python.following import ways
from dtlint.languages.python.names import lookup
from dtlint.languages.python.places import unknown
from dtlint.languages.python.program import Definition, entry_script, is_entry
from dtlint.value import Choice, Unknown, Value, written


def run_program(run: Run) -> None:
    """Run through the entry script; `run.met` has the calls that are only noted, as they are reached."""
    module = entry_script(run.program)
    here = Here(run, module, module.top, {}, 0)
    body = module.top.node.body if isinstance(module.top.node, ast.Module) else []
    run_statements(body, here, value_of)


def built_by(found: Definition, run: Run) -> Part:
    """What a function without arguments builds."""
    return enter(found, {}, None, run, 0, value_of)


def value_of(node: ast.expr, here: Here) -> Part:
    """What an expression stands for."""
    if not here.run.spend():
        return Unknown("the program is too long to follow")
    read = _READERS.get(type(node))
    return leaf_of(node, here) if read is None else read(node, here)


def leaf_of(node: ast.expr, here: Here) -> Part:
    """A value that does not hang on what was built."""
    return evaluate(here.place(node))


def _name(node: ast.expr, here: Here) -> Part:
    assert isinstance(node, ast.Name)
    if node.id in here.names:
        return here.names[node.id]
    if node.id == "__name__":
        name = "__main__" if is_entry(here.run.program, here.module) else here.module.name
        return written(name, here.module.span(node))
    if lookup(here.scope, node.id)[0] is here.scope and here.depth:
        return unknown(here.place(node), f"{node.id} is not set on the way here")
    found = ways(here.place(node))
    end = found[0].end if len(found) == 1 else None
    if end is not None and not isinstance(end, Unknown) and isinstance(end.node, ast.Call | ast.Dict | ast.List):
        return value_of(end.node, Here(here.run, end.module, end.scope, {}, here.depth + 1))
    return leaf_of(node, here)


def _attribute(node: ast.expr, here: Here) -> Part:
    assert isinstance(node, ast.Attribute)
    if not is_built(node, here):
        return leaf_of(node, here)
    owner = value_of(node.value, here)
    if not isinstance(owner, Built):
        return leaf_of(node, here)
    if node.attr not in owner.fields and owner.open:
        told = leaf_of(node, here)
        if isinstance(told, Choice) or (isinstance(told, Value) and told.value != dotted(node)) or means(told):
            return told
    return owner.attribute(node.attr, here.module.span(node))


def means(part: Part) -> bool:
    """Whether a value is not known, and stands for a setting of the cluster."""
    return isinstance(part, Unknown) and bool(part.means)


def is_built(node: ast.expr, here: Here) -> bool:
    """Whether what a dotted name begins with was built, and is no module."""
    while isinstance(node, ast.Attribute):
        node = node.value
    if not isinstance(node, ast.Name):
        return True
    if node.id in here.names:
        return True
    _, bindings = lookup(here.scope, node.id)
    return any(binding.kind == "value" and isinstance(binding.node, ast.Call) for binding in bindings)


def _binary(node: ast.expr, here: Here) -> Part:
    assert isinstance(node, ast.BinOp)
    sides = [leaf(value_of(side, here)) for side in (node.left, node.right)]
    if any(isinstance(side, Choice) for side in sides):
        return unknown(here.place(node), "it depends on a condition")
    left, right = (side for side in sides if not isinstance(side, Choice))
    return calculated(here.place(node), node.op, left, right)


def _compare(node: ast.expr, here: Here) -> Part:
    assert isinstance(node, ast.Compare)
    parts = [value_of(side, here) for side in (node.left, node.comparators[0])]
    left, right = (leaf(part) for part in parts)
    if len(node.ops) == 1 and isinstance(parts[0], Built) and parts[0].name and _is_none(right):
        return written(isinstance(node.ops[0], ast.IsNot | ast.NotEq), here.module.span(node))
    if len(node.ops) > 1 or not isinstance(left, Value) or not isinstance(right, Value):
        return unknown(here.place(node), "a comparison with something that is not known")
    return compared(here.place(node), node.ops[0], left, right)


def _is_none(part: Part) -> bool:
    return isinstance(part, Value) and part.value is None


def _boolean(node: ast.expr, here: Here) -> Part:
    assert isinstance(node, ast.BoolOp)
    decisive = isinstance(node.op, ast.Or)
    found: Part = Unknown("a condition that is not known")
    doubt = False
    for item in node.values:
        found = value_of(item, here)
        verdict = truth(found)
        if verdict is decisive and not doubt:
            return found
        if verdict is decisive and doubt and isinstance(found, Value) and isinstance(found.value, bool):
            return found
        doubt = doubt or verdict is None
    return unknown(here.place(node), "a condition that is not known") if doubt else found


def _unary(node: ast.expr, here: Here) -> Part:
    assert isinstance(node, ast.UnaryOp)
    if not isinstance(node.op, ast.Not):
        return leaf_of(node, here)
    verdict = truth(value_of(node.operand, here))
    if verdict is None:
        return unknown(here.place(node), "a condition that is not known")
    return written(not verdict, here.module.span(node))


def _either(node: ast.expr, here: Here) -> Part:
    assert isinstance(node, ast.IfExp)
    verdict = truth(value_of(node.test, here))
    if verdict is not None:
        return value_of(node.body if verdict else node.orelse, here)
    one, other = value_of(node.body, here), value_of(node.orelse, here)
    return join(one, other, here.module.text(node.test), set())


def _dict(node: ast.expr, here: Here) -> Part:
    assert isinstance(node, ast.Dict)
    found = Built(DICT, here.module.span(node))
    for key, item in zip(node.keys, node.values, strict=True):
        part = value_of(item, here)
        name = leaf(value_of(key, here)) if key is not None else None
        if name is None:
            spread(found, part)
        elif isinstance(name, Value):
            found.fields[str(name.value)] = part
        else:
            found.open = "a key of it is not known"
    return found


def spread(into: Built, part: Part) -> None:
    """`**part` among the items of a dict or the arguments of a call."""
    if isinstance(part, Built) and part.name == DICT:
        into.fields.update(part.fields)
        into.open = into.open or part.open
    else:
        into.hide("what ** spreads is not known")


def _list(node: ast.expr, here: Here) -> Part:
    assert isinstance(node, ast.List | ast.Tuple)
    items = [value_of(item, here) for item in node.elts]
    if not any(isinstance(item, Built) for item in items):
        return leaf_of(node, here)
    return Built(LIST, here.module.span(node), {str(number): item for number, item in enumerate(items)})


def _item(node: ast.expr, here: Here) -> Part:
    assert isinstance(node, ast.Subscript)
    owner, key = value_of(node.value, here), leaf(value_of(node.slice, here))
    if isinstance(owner, Built) and owner.name and isinstance(key, Value) and str(key.value) in owner.fields:
        return owner.fields[str(key.value)]
    return unknown(here.place(node), "an item that is not known") if isinstance(owner, Built) else leaf_of(node, here)


def _call(node: ast.expr, here: Here) -> Part:
    from dtlint.languages.python.building_calls import built_by_call

    assert isinstance(node, ast.Call)
    return built_by_call(node, here)


_READERS: Mapping[type[ast.expr], Callable[[ast.expr, Here], Part]] = {
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.BinOp: _binary,
    ast.Compare: _compare,
    ast.BoolOp: _boolean,
    ast.UnaryOp: _unary,
    ast.IfExp: _either,
    ast.Dict: _dict,
    ast.List: _list,
    ast.Tuple: _list,
    ast.Subscript: _item,
    ast.Call: _call,
}
