"""What calls build: objects of classes with their fields, copies, what functions return, what libraries may change."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.building import Here, Seen, defaults, enter
from dtlint.languages.python.building_values import is_built, leaf_of, means, spread, value_of
from dtlint.languages.python.built import DICT, LIST, Built, Part, copied, leaf
from dtlint.languages.python.imported import absolute
from dtlint.languages.python.names import qualified
from dtlint.languages.python.program import Definition, definition
from dtlint.value import Unknown, Value

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


def built_by_call(node: ast.Call, here: Here) -> Part:
    """What a call builds: an object of a class, what a function of the program returns, or what is not read."""
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
            spread(given, part)
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
    if isinstance(told, Value) or means(told):
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
    if not isinstance(function, ast.Attribute) or not is_built(function, here) or _names_thing(function, here):
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
    if isinstance(told, Value) or means(told):
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
            spread(owner, part)
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
