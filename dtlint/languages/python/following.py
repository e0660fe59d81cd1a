"""Follows an expression through names, conditions, functions and files to the expressions that it can stand for."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.called import argument_node
from dtlint.languages.python.entered import (
    called_at,
    called_function,
    calls_of,
    command_argument,
    is_closed,
    may_be_passed,
    parameter_name,
    takes_config,
)
from dtlint.languages.python.names import lookup, qualified
from dtlint.languages.python.places import (
    MAX_DEPTH,
    Condition,
    Frame,
    Place,
    Way,
    conditions_at,
    one_of_several,
    unknown,
)
from dtlint.languages.python.program import Definition, binding_module, locate
from dtlint.languages.python.reaching import at_the_end, is_global, is_none, reaching
from dtlint.languages.python.tree import Binding, Guard, Scope
from dtlint.value import Step, Unknown

MAX_WAYS = 16
"""Most expressions that one name is followed to."""
_MAX_TURNS = 8
_COPIES = frozenset({"copy.deepcopy", "copy.copy"})


def ways(place: Place) -> tuple[Way, ...]:
    """The expressions that `place` can stand for, names and conditional expressions followed; never empty."""
    found: list[Way] = []
    for way in _ways(place):
        found.append(way)
        if len(found) > MAX_WAYS:
            return (Way((), unknown(place, f"more than {MAX_WAYS} values are possible")),)
    return tuple(found) or (Way((), unknown(place, "not given a value in the files read")),)


def _ways(place: Place) -> Iterator[Way]:
    node = place.node
    if isinstance(node, ast.Constant):
        yield Way((), place)
    elif place.depth > MAX_DEPTH or not place.budget.spend():
        yield Way((), unknown(place, "the way to its value is too long"))
    elif isinstance(node, ast.IfExp):
        yield from _under(place, Guard(node.test, True), place.at(node.body))
        yield from _under(place, Guard(node.test, False), place.at(node.orelse))
    elif isinstance(node, ast.NamedExpr):
        yield from _ways(place.inner(node.value))
    elif isinstance(node, ast.Name):
        yield from _name_ways(place, node.id)
    elif isinstance(node, ast.Attribute):
        from dtlint.languages.python.attributes import attribute_ways

        yield from attribute_ways(place, node)
    elif isinstance(node, ast.Call):
        yield from _call_ways(place, node)
    else:
        yield Way((), place)


def _under(place: Place, guard: Guard, inner: Place) -> Iterator[Way]:
    for way in _ways(inner._replace(guards=(*inner.guards, guard), depth=inner.depth + 1)):
        yield way._replace(conditions=(Condition(guard, place), *way.conditions))


def _name_ways(place: Place, name: str) -> Iterator[Way]:
    holder, bindings = lookup(place.scope, name)
    if holder is None:
        yield from _unbound_ways(place)
        return
    for binding, guards in reaching(place, holder, bindings):
        conditions = conditions_at(place._replace(scope=holder), guards)
        for way in binding_ways(place, holder, name, binding):
            yield way._replace(conditions=(*conditions, *way.conditions))


def _global_ways(place: Place, name: str) -> Iterator[Way]:
    """A variable of the module that functions set: what the module gives it first, or what one of them does. A None
    that the module sets in advance does not count.
    """
    setters = {
        scope: [item for item in scope.bindings.get(name, ()) if not is_global(item)]
        for scope in place.module.scopes
        if scope is place.module.top or any(is_global(item) for item in scope.bindings.get(name, ()))
    }
    filled = {scope: items for scope, items in setters.items() if items and not is_none(items)} or setters
    for scope, items in filled.items():
        for binding in items:
            said = (one_of_several(place, f"as {scope.name or 'the module'} sets it"),) if len(filled) > 1 else ()
            conditions = (*said, *conditions_at(place._replace(scope=scope), binding.guards))
            for way in binding_ways(place, scope, name, binding):
                yield way._replace(conditions=(*conditions, *way.conditions))


def _unbound_ways(place: Place) -> Iterator[Way]:
    """A name that only `import *` can bring in; any other stands for itself."""
    names = qualified(place.module, place.node, place.scope)
    known = [name for name in names if "." in name and locate(place.program, place.module, name) is not None]
    if known:
        yield from imported_ways(place, known[0])
    else:
        yield Way((), place)


def binding_ways(place: Place, holder: Scope, name: str, binding: Binding) -> Iterator[Way]:
    """What a binding of a name in a scope stands for."""
    if place.depth > MAX_DEPTH:
        yield Way((), unknown(place, "the way to its value is too long"))
    elif binding.kind == "parameter":
        yield from _parameter_ways(place, holder, name, binding)
    elif binding.kind == "import":
        yield from imported_ways(place, binding.target)
    elif binding.kind == "value" and binding.node is not None:
        step = Step(place.module.span(place.node), name)
        inner = place._replace(
            scope=holder, node=binding.node, guards=binding.guards, chain=(*place.chain, step), depth=place.depth + 1
        )
        yield from _unpacked(inner, binding.path)
    elif binding.kind == "definition":
        yield Way((), place)
    elif isinstance(binding.place, ast.Global):
        yield from _global_ways(place, name)
    elif binding.kind == "loop":
        yield from _loop_ways(place, holder, name, binding)
    elif isinstance(binding.node, ast.AugAssign):
        step = Step(place.module.span(place.node), name)
        inner = place._replace(scope=holder, guards=binding.guards, chain=(*place.chain, step))
        yield from _ways(inner.inner(_augmented(binding.node)))
    else:
        yield Way((), unknown(place, f"{name} is changed on the way"))


def _augmented(node: ast.AugAssign) -> ast.BinOp:
    """`x //= 2` as what it assigns: `x // 2`."""
    before: ast.expr = node.target
    if isinstance(before, ast.Name):
        before = ast.copy_location(ast.Name(before.id, ast.Load()), before)
    return ast.copy_location(ast.BinOp(before, node.op, node.value), node)


def _loop_ways(place: Place, holder: Scope, name: str, binding: Binding) -> Iterator[Way]:
    """The variable of a loop over items that are written out is each of them in turn."""
    items = _loop_items(place, holder, binding)
    if not items:
        yield Way((), unknown(place, f"{name} takes several values"))
    for item in items:
        turn = one_of_several(item, f"{name} = {item.module.text(item.node, 40)}")
        for way in _unpacked(item, binding.path):
            yield way._replace(conditions=(turn, *way.conditions))


def _loop_items(place: Place, holder: Scope, binding: Binding) -> list[Place]:
    if not isinstance(binding.node, ast.expr):
        return []
    loop = place._replace(scope=holder, node=binding.node, guards=binding.guards, depth=place.depth + 1)
    ends = [way.end for way in _ways(loop)]
    end = ends[0] if len(ends) == 1 else None
    if not isinstance(end, Place) or not isinstance(end.node, ast.Tuple | ast.List | ast.Set):
        return []
    if len(end.node.elts) > _MAX_TURNS or any(isinstance(item, ast.Starred) for item in end.node.elts):
        return []
    return [end.inner(item) for item in end.node.elts]


def _unpacked(place: Place, path: tuple[int, ...]) -> Iterator[Way]:
    if not path:
        yield from _ways(place)
        return
    for way in _ways(place):
        if isinstance(way.end, Unknown):
            yield way
        elif isinstance(way.end.node, ast.Tuple | ast.List) and 0 <= path[0] < len(way.end.node.elts):
            for inner in _unpacked(way.end.inner(way.end.node.elts[path[0]]), path[1:]):
                yield inner._replace(conditions=(*way.conditions, *inner.conditions))
        else:
            yield Way(way.conditions, unknown(place, "a part of something that is not written out"))


def _parameter_ways(place: Place, holder: Scope, name: str, binding: Binding) -> Iterator[Way]:
    """A parameter is the argument of the call that was followed in; else those of all calls; else its default. One that
    the command line fills stands for itself.
    """
    calls = calls_of(place, holder)
    if (command_argument(place, holder, name) or takes_config(holder, binding)) and all(
        argument_node(holder, name, call.node) is None for call in calls
    ):
        yield Way((), place._replace(scope=holder, node=parameter_name(binding, name)))
        return
    for call in calls:
        condition = (one_of_several(call, called_at(call)),) if len(calls) > 1 else ()
        for way in _argument_ways(place, holder, name, binding, call):
            yield way._replace(conditions=(*condition, *way.conditions))
    if not calls and isinstance(binding.node, ast.expr) and may_be_passed(place, holder, name):
        yield Way((), unknown(place, f"{name} is passed where a method of this name is called"))
    elif not calls and isinstance(binding.node, ast.expr):
        default = place._replace(scope=holder.parent or holder).inner(binding.node)
        yield from (way._replace(assumed="a caller may pass another value") for way in _ways(default))
    elif not calls:
        yield Way((), unknown(place, f"{name} is an argument, and no call of the function was read"))


def _argument_ways(place: Place, holder: Scope, name: str, binding: Binding, call: Place) -> Iterator[Way]:
    passed = argument_node(holder, name, call.node)
    if passed is not None:
        chain = (*place.chain, Step(place.module.span(place.node), name))
        yield from _ways(call._replace(node=passed, chain=chain, depth=place.depth + 1, budget=place.budget))
    elif isinstance(call.node, ast.Call) and any(keyword.arg is None for keyword in call.node.keywords):
        yield from _unpacked_argument_ways(place, holder, name, binding, call)
    else:
        yield from _default_ways(place, holder, name, binding, call)


def _default_ways(place: Place, holder: Scope, name: str, binding: Binding, call: Place) -> Iterator[Way]:
    if isinstance(binding.node, ast.expr):
        yield from _ways(place._replace(scope=holder.parent or holder).inner(binding.node))
    else:
        yield Way((), unknown(call, f"{name} is not passed"))


def _unpacked_argument_ways(place: Place, holder: Scope, name: str, binding: Binding, call: Place) -> Iterator[Way]:
    """What `**options` passes for a parameter: an item of a dict that is known, or of the command line that a function
    takes whole; the default where all items are known and none is of that name.
    """
    from dtlint.languages.python.dicts import passed_on

    assert isinstance(call.node, ast.Call)
    whole = [keyword.value for keyword in call.node.keywords if keyword.arg is None]
    commanded = next((item for node in whole if (item := _item_of_command(call, node, name)) is not None), None)
    if commanded is not None:
        yield Way((), commanded)
        return
    items = [passed_on(call._replace(node=node, depth=place.depth + 1, budget=place.budget)) for node in whole]
    found = [item for each in items if each is not None for item in each.get(name, ())]
    if len(found) == 1 and not found[0].guards:
        chain = (*place.chain, Step(place.module.span(place.node), name))
        yield from _ways(found[0].place._replace(chain=chain, depth=place.depth + 1, budget=place.budget))
    elif not found and None not in items:
        yield from _default_ways(place, holder, name, binding, call)
    else:
        yield Way((), unknown(call, f"{name} may stand in the ** argument"))


def _item_of_command(call: Place, options: ast.expr, name: str) -> Place | None:
    """`options["size"]` of the command line that a function takes whole as `**options`."""
    holder = lookup(call.scope, dotted(options))[0]
    if holder is None or not command_argument(call, holder, name):
        return None
    key = ast.copy_location(ast.Constant(name), options)
    return call.inner(ast.copy_location(ast.Subscript(options, key, ast.Load()), options))


def imported_ways(place: Place, target: str) -> Iterator[Way]:
    """What a name of another file of the program stands for there."""
    found = binding_module(place.program, place.module, target)
    if found is None or not found[1]:
        yield Way((), place)
        return
    module, name = found
    bindings = module.top.bindings.get(name, [])
    if not bindings or bindings[-1].kind == "definition":
        yield Way((), place)
        return
    step = Step(place.module.span(place.node), name)
    inner = place._replace(
        module=module, scope=module.top, guards=(), frames=(), chain=(*place.chain, step), depth=place.depth + 1
    )
    for binding in at_the_end(bindings):
        conditions = conditions_at(inner, binding.guards)
        for way in binding_ways(inner._replace(node=binding.place), module.top, name, binding):
            yield way._replace(conditions=(*conditions, *way.conditions))


def bound(place: Place, binding: Binding) -> tuple[Way, ...]:
    """What a binding of the scope of `place` stands for."""
    return tuple(binding_ways(place, place.scope, dotted(binding.place), binding))


def _call_ways(place: Place, node: ast.Call) -> Iterator[Way]:
    """A call of a function of the program is what it returns; any other call stands for itself."""
    names = qualified(place.module, node.func, place.scope)
    if node.args and len(names) == 1 and names[0] in _COPIES:
        yield from _ways(place.inner(node.args[0]))
        return
    found = called_function(place, node)
    if (
        found is None
        or not isinstance(found.scope.node, ast.FunctionDef)
        or any(frame.scope is found.scope for frame in place.frames)
        or is_closed(place, found.scope.node)
    ):
        yield Way((), place)
        return
    found_ways = list(returned(place, found))
    yield from found_ways or (Way((), place),)


def returned(place: Place, function: Definition) -> Iterator[Way]:
    """What a function of the program returns to the call at `place`."""
    frames = (*place.frames, Frame(function.scope, place))
    earlier = False
    for site in function.scope.sites:
        value = site.node.value if isinstance(site.node, ast.Return) else None
        if value is None:
            continue
        inner = place._replace(
            module=function.module, scope=function.scope, guards=site.guards, frames=frames, depth=place.depth + 1
        )
        last = (one_of_several(inner, "otherwise"),) if earlier and not site.guards else ()
        conditions = (*last, *conditions_at(inner, site.guards))
        earlier = True
        for way in _ways(inner.at(value)):
            yield way._replace(conditions=(*conditions, *way.conditions))
