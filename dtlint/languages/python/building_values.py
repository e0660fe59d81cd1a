"""What expressions build: objects of classes and of recipes, their attributes, and values worked out of them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

from dtlint.languages.python.arithmetic import calculated, compared
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.building import Here, Run, Seen, defaults, enter, run_statements, truth
from dtlint.languages.python.built import DICT, LIST, Built, Part, copied, join, leaf
from dtlint.languages.python.constants import evaluate
from dtlint.languages.python.following import ways
from dtlint.languages.python.names import lookup, qualified
from dtlint.languages.python.places import unknown
from dtlint.languages.python.program import Definition, absolute, definition
from dtlint.value import Choice, Unknown, Value, written

_WRAPPERS = ("nemo_run.Config", "nemo_run.Partial", "functools.partial", "fiddle.Config", "fiddle.Partial")
"""Calls that stand for the call of their first argument."""
OWNER = "self"
"""The object of a method among what a noted call is given."""
_TEXT: Mapping[str, Callable[[str], str]] = {"lower": str.lower, "upper": str.upper, "strip": str.strip}
_COPIES = ("copy.deepcopy", "copy.copy", "dataclasses.replace")
_HARMLESS = frozenset(
    (
        "print", "len", "isinstance", "issubclass", "hasattr", "getattr", "type", "id", "repr", "str", "int", "float",
        "bool", "all", "any", "list", "tuple", "dict", "set", "sorted", "asdict", "fields", "cast", "vars", "max",
        "min", "sum", "range", "enumerate", "zip", "info", "debug", "warning",
    )
)  # fmt: skip
"""Functions that leave what they are given as it is."""
_CHANGING = ("update", "merge", "load", "apply", "override", "from_", "set_", "clear", "pop")
"""What methods begin with that may change their object."""


def run_program(run: Run) -> None:
    """Run through the entry script; `run.met` has the calls that are only noted, as they are reached."""
    module = run.program.main
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
        name = "__main__" if here.module is here.run.program.main else here.module.name
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
    if not _is_built(node, here):
        return leaf_of(node, here)
    owner = value_of(node.value, here)
    if not isinstance(owner, Built):
        return leaf_of(node, here)
    if node.attr not in owner.fields and owner.open:
        told = leaf_of(node, here)
        if isinstance(told, Choice) or (isinstance(told, Value) and told.value != dotted(node)) or _means(told):
            return told
    return owner.attribute(node.attr, here.module.span(node))


def _means(part: Part) -> bool:
    return isinstance(part, Unknown) and bool(part.means)


def _is_built(node: ast.expr, here: Here) -> bool:
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
            _spread(found, part)
        elif isinstance(name, Value):
            found.fields[str(name.value)] = part
        else:
            found.open = "a key of it is not known"
    return found


def _spread(into: Built, part: Part) -> None:
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


# Calls


def _call(node: ast.expr, here: Here) -> Part:
    assert isinstance(node, ast.Call)
    on_object = _method(node, here)
    if on_object is not None:
        return on_object
    names = qualified(here.module, node.func, here.scope)
    name = absolute(here.module.package, names[0]) if len(names) == 1 else ""
    positional, given = _arguments(node, here)
    if name in _WRAPPERS and positional:
        return _stands_for(node, positional[1:], given, here)
    if name in _COPIES and positional:
        return _copy(positional[0], given)
    return _called(name, names, node, positional, given, here)


def _called(
    name: str, names: tuple[str, ...], node: ast.Call, positional: list[Part], given: Built, here: Here
) -> Part:
    last = dotted(node.func).rpartition(".")[2]
    if last in here.run.leaves:
        return _noted(name or dotted(node.func), positional, given, here)
    found = definition(here.run.program, here.module, names[0]) if len(names) == 1 else None
    if found is not None and not isinstance(found.scope.node, ast.ClassDef):
        return _entered(found, positional, given, here)
    if found is not None or last[:1].isupper():
        return _object(name or dotted(node.func), found, positional, given, here)
    return _of_library(name, node, positional, given, here)


def _arguments(node: ast.Call, here: Here) -> tuple[list[Part], Built]:
    """The positional arguments, and the keywords as one dict."""
    given = Built(DICT, here.module.span(node))
    positional = [value_of(item, here) for item in node.args if not isinstance(item, ast.Starred)]
    for keyword in node.keywords:
        part = value_of(keyword.value, here)
        if keyword.arg is None:
            _spread(given, part)
        else:
            given.fields[keyword.arg] = part
    return positional, given


def _stands_for(node: ast.Call, positional: list[Part], given: Built, here: Here) -> Part:
    """`run.Partial(f, x=1)` with the fields of what `f` is called with."""
    names = qualified(here.module, node.args[0], here.scope)
    found = definition(here.run.program, here.module, names[0]) if len(names) == 1 else None
    told = leaf(value_of(node.args[0], here))
    name = absolute(here.module.package, names[0]) if len(names) == 1 else dotted(node.args[0])
    name = str(told.value) if isinstance(told, Value) and isinstance(told.value, str) else name
    owner = found if found is not None and isinstance(found.scope.node, ast.ClassDef) else None
    return _object(name, owner, positional, given, here)


def _object(name: str, owner: Definition | None, positional: list[Part], given: Built, here: Here) -> Built:
    """An object with the fields that its class declares and its call passes."""
    built = Built(name, given.span, open_=given.open)
    if owner is not None:
        built.fields.update(_declared(owner, here))
    built.fields.update(given.fields)
    built.given = {str(number): part for number, part in enumerate(positional)}
    return built


def _declared(owner: Definition, here: Here) -> dict[str, Part]:
    """The defaults of the fields that a class of the program and those that it inherits from declare."""
    node = owner.scope.node
    if not isinstance(node, ast.ClassDef) or here.depth > _MOST_BASES or not here.run.spend():
        return {}
    inside = Here(here.run, owner.module, owner.scope, {}, here.depth + 1)
    found: dict[str, Part] = {}
    for base in reversed(node.bases):
        names = qualified(owner.module, base, owner.scope.parent or owner.scope)
        above = definition(here.run.program, owner.module, names[0]) if len(names) == 1 else None
        found.update(_declared(above, inside) if above is not None else {})
    for item in node.body:
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name) and item.value is not None:
            found[item.target.id] = _unasked(_field(item.value, inside), owner.scope.name)
    return found


def _unasked(part: Part, owner: str) -> Part:
    """A value as the default that it is."""
    if not isinstance(part, Value):
        return part
    return part._replace(origin=part.origin._replace(kind="default", note=owner))


_MOST_BASES = 20


def _field(node: ast.expr, here: Here) -> Part:
    """A field's default; `field(default_factory=...)` calls it."""
    if isinstance(node, ast.Call) and dotted(node.func).rpartition(".")[2] in ("field", "Field"):
        words = {keyword.arg: keyword.value for keyword in node.keywords}
        factory = words.get("default_factory")
        if isinstance(factory, ast.Lambda):
            return value_of(factory.body, here)
        if factory is not None:
            return value_of(ast.copy_location(ast.Call(factory, [], []), node), here)
        return value_of(words["default"], here) if "default" in words else Unknown("it has to be given")
    return value_of(node, here)


def _entered(found: Definition, positional: list[Part], given: Built, here: Here) -> Part:
    node = found.scope.node
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return Unknown("the function is not followed")
    known = [name for name, _ in defaults(node.args)]
    by_name: Mapping[str, Part] = {**dict(zip(known, positional, strict=False)), **given.fields}
    rest = Built(DICT, given.span, {name: part for name, part in given.fields.items() if name not in known}, given.open)
    if given.open:
        by_name = {**{name: Unknown(given.open) for name in known}, **by_name}
    return enter(found, by_name, rest, here.run, here.depth, value_of)


def _noted(name: str, positional: list[Part], given: Built, here: Here, owner: Built | None = None) -> Part:
    """A call that is not entered, with what it is given as that stands now, and the object whose method it is."""
    built = Built(name, given.span, open_=f"{name.rpartition('.')[2]} is not read")
    twins: dict[int, Built] = {}
    parts = {**{str(number): part for number, part in enumerate(positional)}, **given.fields}
    if owner is not None:
        parts[OWNER] = owner
    built.given = {key: copied(part, twins) for key, part in parts.items()}
    here.run.met.append(Seen(name, built))
    return built


def _of_library(name: str, node: ast.Call, positional: list[Part], given: Built, here: Here) -> Part:
    """What a function of a library returns is not known, and it may change the objects that it is given."""
    told = leaf_of(node, here)
    if isinstance(told, Value) or _means(told):
        return told
    shown = name or dotted(node.func) or here.module.text(node.func, 40)
    if shown.rpartition(".")[2] not in _HARMLESS:
        for part in (*positional, *given.fields.values()):
            if isinstance(part, Built):
                part.hide(f"{shown} may change it")
    built = Built(shown, given.span, open_=f"what {shown} returns is not read")
    built.given = {**{str(number): part for number, part in enumerate(positional)}, **given.fields}
    return built


def _copy(part: Part, given: Built) -> Part:
    made = copied(part, {})
    if isinstance(made, Built):
        made.fields.update(given.fields)
    return made


def _method(node: ast.Call, here: Here) -> Part | None:
    """A method of an object that was built; None for every other call."""
    function = node.func
    if not isinstance(function, ast.Attribute) or not _is_built(function, here) or _names_thing(function, here):
        return None
    owner = value_of(function.value, here)
    if isinstance(owner, Value) and isinstance(owner.value, str) and function.attr in _TEXT and not node.args:
        return owner._replace(value=_TEXT[function.attr](owner.value))
    if not isinstance(owner, Built):
        return None
    positional, given = _arguments(node, here)
    if function.attr in here.run.leaves:
        return _noted(f"{owner.name}.{function.attr}", positional, given, here, owner)
    if owner.name in (DICT, LIST):
        return _of_collection(owner, function.attr, positional, given, here)
    if function.attr in ("copy", "clone"):
        return copied(owner, {})
    if function.attr.startswith(_CHANGING):
        owner.hide(f"{function.attr} may change it")
    told = leaf_of(node, here)
    if isinstance(told, Value) or _means(told):
        return told
    made = Built("", given.span, open_=f"what {function.attr} returns is not read")
    made.given = dict(owner.given)
    return made


def _names_thing(function: ast.Attribute, here: Here) -> bool:
    """Whether a dotted name means a function or class of the program or a library."""
    return bool(qualified(here.module, function, here.scope)) and dotted(function).partition(".")[0] not in here.names


def _of_collection(owner: Built, method: str, positional: list[Part], given: Built, here: Here) -> Part:
    if method == "append" and positional:
        owner.fields[str(len(owner.fields))] = positional[0]
    elif method == "extend" and positional and isinstance(positional[0], Built) and positional[0].name == LIST:
        for part in positional[0].fields.values():
            owner.fields[str(len(owner.fields))] = part
    elif method == "update":
        for part in positional:
            _spread(owner, part)
        owner.fields.update(given.fields)
    elif method in ("get", "pop", "setdefault") and positional:
        return _looked_up(owner, method, positional)
    elif method not in ("items", "keys", "values", "copy"):
        owner.hide(f"{method} may change it")
    return Unknown(f"what {method} returns")


def _looked_up(owner: Built, method: str, positional: list[Part]) -> Part:
    key = leaf(positional[0])
    name = str(key.value) if isinstance(key, Value) else ""
    if not name:
        return Unknown("the key is not known")
    fallback = positional[1] if len(positional) > 1 else Unknown("the key may be absent")
    found = owner.fields.get(name, Unknown(owner.open) if owner.open else fallback)
    if method == "pop":
        owner.fields.pop(name, None)
    return found


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
