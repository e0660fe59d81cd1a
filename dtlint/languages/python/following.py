"""Follows an expression through names, conditions, functions and files to the expressions that it can stand for."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.called import annotated_word, argument_node
from dtlint.languages.python.callers import callers
from dtlint.languages.python.handed_on import handed_on
from dtlint.languages.python.handed_over import handed_over_calls
from dtlint.languages.python.names import attribute_bindings, lookup, qualified
from dtlint.languages.python.places import Condition, Frame, Place, Way, conditions_at, one_of_several, unknown
from dtlint.languages.python.program import Definition, binding_module, declared_argument, definition, locate
from dtlint.languages.python.tree import Argument, Binding, Guard, Scope
from dtlint.value import Step, Unknown

MAX_WAYS = 16
"""Most expressions that one name is followed to."""
_MAX_DEPTH = 24
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
    elif place.depth > _MAX_DEPTH or not place.budget.spend():
        yield Way((), unknown(place, "the way to its value is too long"))
    elif isinstance(node, ast.IfExp):
        yield from _under(place, Guard(node.test, True), place.at(node.body))
        yield from _under(place, Guard(node.test, False), place.at(node.orelse))
    elif isinstance(node, ast.NamedExpr):
        yield from _ways(place.inner(node.value))
    elif isinstance(node, ast.Name):
        yield from _name_ways(place, node.id)
    elif isinstance(node, ast.Attribute):
        yield from _attribute_ways(place, node)
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
        for way in _binding_ways(place, holder, name, binding):
            yield way._replace(conditions=(*conditions, *way.conditions))


def _global_ways(place: Place, name: str) -> Iterator[Way]:
    """A variable of the module that functions set: what the module gives it first, or what one of them does. A None
    that the module sets in advance does not count.
    """
    setters = {
        scope: [item for item in scope.bindings.get(name, ()) if not _is_global(item)]
        for scope in place.module.scopes
        if scope is place.module.top or any(_is_global(item) for item in scope.bindings.get(name, ()))
    }
    filled = {scope: items for scope, items in setters.items() if items and not _is_none(items)} or setters
    for scope, items in filled.items():
        for binding in items:
            said = (one_of_several(place, f"as {scope.name or 'the module'} sets it"),) if len(filled) > 1 else ()
            conditions = (*said, *conditions_at(place._replace(scope=scope), binding.guards))
            for way in _binding_ways(place, scope, name, binding):
                yield way._replace(conditions=(*conditions, *way.conditions))


def _is_global(binding: Binding) -> bool:
    return isinstance(binding.place, ast.Global | ast.Nonlocal)


def _unbound_ways(place: Place) -> Iterator[Way]:
    """A name that only `import *` can bring in; any other stands for itself."""
    names = qualified(place.module, place.node, place.scope)
    known = [name for name in names if "." in name and locate(place.program, place.module, name) is not None]
    if known:
        yield from _imported_ways(place, known[0])
    else:
        yield Way((), place)


def reaching(place: Place, holder: Scope, bindings: Iterable[Binding]) -> list[tuple[Binding, tuple[Guard, ...]]]:
    """The bindings that can reach `place`, each with the conditions that the place itself does not stand under.

    The last unconditional one hides what is before it. One that stands after the place counts if the name is used in
    another scope, or if a loop comes back from it to the place and nothing in the loop hides it.
    """
    candidates = list(bindings)
    shared = next((item for item in candidates if isinstance(item.place, ast.Global | ast.Nonlocal)), None)
    if shared is not None:
        return [(shared, ())]
    before: list[tuple[Binding, tuple[Guard, ...]]] = []
    after: list[tuple[Binding, tuple[Guard, ...]]] = []
    for binding in candidates:
        if _contradicts(binding.guards, place.guards):
            continue
        rest = tuple(guard for guard in binding.guards if guard not in place.guards)
        if holder is place.scope and not _comes_before(binding, place.node):
            after.append((binding, rest))
            continue
        if not rest:
            before.clear()
        before.append((binding, rest))
    hiding = before[0][0].loops if before and not before[0][1] else ()
    carried = [item for item in after if _comes_back(item[0], place.node, hiding)]
    return [*_without_shadowed(before), *carried]


def _without_shadowed(reached: list[tuple[Binding, tuple[Guard, ...]]]) -> list[tuple[Binding, tuple[Guard, ...]]]:
    """Drop a base value when an `if` and its `else` both bind the name after it."""
    tests = {
        id(guards[0].test): guards[0].holds for _, guards in reached if len(guards) == 1 and guards[0].test is not None
    }
    for _, guards in reached:
        if len(guards) == 1 and tests.get(id(guards[0].test), guards[0].holds) != guards[0].holds:
            return [item for item in reached if item[1]]
    return reached


def _comes_before(binding: Binding, use: ast.AST) -> bool:
    """Whether a binding acts before a use of the name in the same scope: in `x = x + 1` it does not."""
    if binding.kind == "parameter" or not hasattr(use, "lineno"):
        return True
    if binding.kind == "value" and binding.node is not None:
        return _end_position(binding.node) <= _position(use)
    return _position(binding.place) < _position(use)


def _comes_back(binding: Binding, use: ast.AST, hiding: tuple[ast.AST, ...]) -> bool:
    """Whether a loop leads from a binding back to a use before it; `hiding` are the loops that bind the name anew."""
    around = (loop for loop in binding.loops if _position(loop) <= _position(use) <= _end_position(loop))
    return any(loop not in hiding for loop in around)


def _position(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def _end_position(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "end_lineno", 0), getattr(node, "end_col_offset", 0)


def _contradicts(binding: tuple[Guard, ...], use: tuple[Guard, ...]) -> bool:
    return any(a.test is not None and a.test is b.test and a.holds != b.holds for a in binding for b in use)


def _binding_ways(place: Place, holder: Scope, name: str, binding: Binding) -> Iterator[Way]:
    if place.depth > _MAX_DEPTH:
        yield Way((), unknown(place, "the way to its value is too long"))
    elif binding.kind == "parameter":
        yield from _parameter_ways(place, holder, name, binding)
    elif binding.kind == "import":
        yield from _imported_ways(place, binding.target)
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
        yield from _ways(place._replace(scope=holder, guards=binding.guards).inner(_augmented(binding.node)))
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
        yield Way((), place._replace(scope=holder, node=_named(binding, name)))
        return
    for call in calls:
        condition = (one_of_several(call, _called_at(call)),) if len(calls) > 1 else ()
        for way in _argument_ways(place, holder, name, binding, call):
            yield way._replace(conditions=(*condition, *way.conditions))
    if not calls and isinstance(binding.node, ast.expr):
        default = place._replace(scope=holder.parent or holder).inner(binding.node)
        yield from (way._replace(assumed="a caller may pass another value") for way in _ways(default))
    elif not calls:
        yield Way((), unknown(place, f"{name} is an argument, and no call of the function was read"))


def command_argument(place: Place, function: Scope, name: str) -> Argument | None:
    """The command-line argument that fills a parameter of a function, or an item of its `**options`."""
    declared = declared_argument(place.program, name)
    node = function.node
    if declared is None or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    if declared.place.source is not place.module.source:
        return None
    heads = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.kwarg]
    filled = any(item is not None and place.module.span(item) == declared.place for item in heads)
    return declared if filled else None


def takes_config(function: Scope, binding: Binding) -> bool:
    """Whether a parameter is the config that Hydra composes for the function that `@hydra.main(...)` marks."""
    node = function.node
    if not isinstance(node, ast.FunctionDef) or not node.args.args or binding.place is not node.args.args[0]:
        return False
    return any(isinstance(head, ast.Call) and dotted(head.func) == "hydra.main" for head in node.decorator_list)


def _named(binding: Binding, name: str) -> ast.Name:
    return ast.copy_location(ast.Name(name, ast.Load()), binding.place)


def _called_at(call: Place) -> str:
    span = call.module.span(call.node)
    return f"called at {span.source.path}:{span.line}"


def calls_of(place: Place, function: Scope) -> list[Place]:
    """The calls of a function: that through which it was entered, else all of the program."""
    frame = next((frame for frame in reversed(place.frames) if frame.scope is function), None)
    if frame is not None:
        return [frame.call]
    if not place.budget.spend():
        return []
    wanted = Definition(place.module, function)
    return [
        place._replace(
            module=module, scope=site.scope, node=site.node, guards=site.guards, frames=(), depth=place.depth + 1
        )
        for module, site in callers(place.program, wanted) or handed_over_calls(place.program, wanted)
    ]


def _argument_ways(place: Place, holder: Scope, name: str, binding: Binding, call: Place) -> Iterator[Way]:
    passed = argument_node(holder, name, call.node)
    if passed is not None:
        chain = (*place.chain, Step(place.module.span(place.node), name))
        yield from _ways(call._replace(node=passed, chain=chain, depth=place.depth + 1, budget=place.budget))
    elif isinstance(call.node, ast.Call) and any(keyword.arg is None for keyword in call.node.keywords):
        yield from _unpacked_argument_ways(call, call.node, name)
    elif isinstance(binding.node, ast.expr):
        yield from _ways(place._replace(scope=holder.parent or holder).inner(binding.node))
    else:
        yield Way((), unknown(call, f"{name} is not passed"))


def _unpacked_argument_ways(call: Place, node: ast.Call, name: str) -> Iterator[Way]:
    """What `**options` passes for a parameter, if it is the command line that a function takes whole."""
    for keyword in node.keywords:
        holder = lookup(call.scope, dotted(keyword.value))[0] if keyword.arg is None else None
        if holder is not None and command_argument(call, holder, name):
            item = ast.Subscript(keyword.value, ast.Constant(name), ast.Load())
            constant = ast.copy_location(item.slice, keyword.value)
            item.slice = constant
            yield Way((), call.inner(ast.copy_location(item, keyword.value)))
            return
    yield Way((), unknown(call, f"{name} may stand in the ** argument"))


def _imported_ways(place: Place, target: str) -> Iterator[Way]:
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
    for binding, guards in _everywhere(bindings):
        conditions = conditions_at(inner, guards)
        for way in _binding_ways(inner._replace(node=binding.place), module.top, name, binding):
            yield way._replace(conditions=(*conditions, *way.conditions))


def _everywhere(bindings: list[Binding]) -> list[tuple[Binding, tuple[Guard, ...]]]:
    last = max((index for index, binding in enumerate(bindings) if not binding.guards), default=0)
    return [(binding, binding.guards) for binding in bindings[last:]]


def _attribute_ways(place: Place, node: ast.Attribute) -> Iterator[Way]:
    """`self.x` is what the class's methods bind; `module.x` what that file binds; anything else stands for itself."""
    if handed_on(place.scope, node):
        yield Way((), place)
        return
    owned = attribute_bindings(place.module, place.scope, dotted(node))
    if owned:
        yield from _owned_ways(place, dotted(node), owned)
        return
    names = qualified(place.module, node, place.scope)
    if len(names) == 1 and _is_bound_at_top(place, names[0]):
        yield from _imported_ways(place, names[0])
        return
    assigned = _assigned(place, dotted(node))
    if all(rest for _, _, rest in assigned):
        yield from _member_ways(place, node)
    for holder, binding, rest in assigned:
        conditions = conditions_at(place._replace(scope=holder), rest)
        for way in _binding_ways(place, holder, dotted(node), binding):
            yield way._replace(conditions=(*conditions, *way.conditions))


def _is_bound_at_top(place: Place, name: str) -> bool:
    found = binding_module(place.program, place.module, name)
    return found is not None and found[1] in found[0].top.bindings


def bound(place: Place, binding: Binding) -> tuple[Way, ...]:
    """What a binding of the scope of `place` stands for."""
    return tuple(_binding_ways(place, place.scope, dotted(binding.place), binding))


def _assigned(place: Place, name: str) -> list[tuple[Scope, Binding, tuple[Guard, ...]]]:
    """What statements assign to an attribute of the same object (`args.n = 8`) before the place."""
    holder, bindings = lookup(place.scope, name) if name else (None, [])
    root = lookup(place.scope, name.partition(".")[0])[0]
    if holder is None or holder not in (place.scope, root):
        return []
    return [(holder, binding, rest) for binding, rest in reaching(place, holder, bindings)]


def _member_ways(place: Place, node: ast.Attribute) -> Iterator[Way]:
    """What an object of a class of the program holds; an argument of the command line stands for itself."""
    from dtlint.languages.python.instances import is_built_here, members

    if place.depth > _MAX_DEPTH or not place.budget.spend():
        yield Way((), place)
        return
    declared = declared_argument(place.program, node.attr)
    told_by_command = declared is not None and not is_built_here(place.inner(node.value))
    yield from (() if told_by_command else members(place, node)) or (Way((), place),)


def _owned_ways(place: Place, name: str, owned: list[tuple[Scope, Binding]]) -> Iterator[Way]:
    """What the methods of a class bind an attribute to; what the method of the place itself binds before it hides it.
    Where only conditions bind it, it has the default of the class's body else.
    """
    from dtlint.languages.python.instances import declared_ways

    here = reaching(place, place.scope, [binding for method, binding in owned if method is place.scope])
    elsewhere = set_by_methods(place, [item for item in owned if item[0] is not place.scope])
    settled = any(not rest for _, rest in here)
    if not settled and all(binding.guards for _, binding, _ in elsewhere):
        yield from declared_ways(place, name)
    for method, binding, conditions in () if settled else elsewhere:
        for way in _binding_ways(place, method, name, binding):
            yield way._replace(conditions=(*conditions, *way.conditions))
    for binding, rest in here:
        conditions = conditions_at(place._replace(guards=binding.guards), rest)
        for way in _binding_ways(place, place.scope, name, binding):
            yield way._replace(conditions=(*conditions, *way.conditions))


def set_by_methods(
    place: Place, owned: list[tuple[Scope, Binding]]
) -> list[tuple[Scope, Binding, tuple[Condition, ...]]]:
    """The bindings of an attribute that stand at the end of the methods that make them, each with its conditions; of
    several methods any may have run last. A None that a method sets in advance for another one does not count.
    """
    methods: dict[Scope, list[Binding]] = {}
    for method, binding in owned:
        methods.setdefault(method, []).append(binding)
    last = {method: list(_at_the_end(bindings)) for method, bindings in methods.items()}
    if sum(not _is_none(items) for items in last.values()):
        last = {method: items for method, items in last.items() if not _is_none(items)}
    found = []
    for method, items in last.items():
        setter = (one_of_several(place, f"as {method.name} sets it"),) if len(last) > 1 else ()
        for item in items:
            inside = place._replace(scope=method, guards=item.guards)
            found.append((method, item, (*setter, *conditions_at(inside, item.guards))))
    return found


def _at_the_end(bindings: list[Binding]) -> list[Binding]:
    """The bindings that no later one without a condition hides."""
    return bindings[max((index for index, binding in enumerate(bindings) if not binding.guards), default=0) :]


def _is_none(bindings: list[Binding]) -> bool:
    return all(isinstance(item.node, ast.Constant) and item.node.value is None for item in bindings)


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
        or _is_closed(place, found.scope.node)
    ):
        yield Way((), place)
        return
    found_ways = list(returned(place, found))
    yield from found_ways or (Way((), place),)


def called_function(place: Place, node: ast.Call) -> Definition | None:
    """The function, method or class of the program that a call runs."""
    names = qualified(place.module, node.func, place.scope)
    candidates = (definition(place.program, place.module, name) for name in names)
    return next((item for item in candidates if item is not None), None) or _method(place, node)


def _is_closed(place: Place, node: ast.FunctionDef) -> bool:
    """Whether the question asked is not to be followed into a function."""
    return bool(place.budget.closed) and annotated_word(node.returns) == place.budget.closed


def _method(place: Place, node: ast.Call) -> Definition | None:
    """The method that a call on an object of a class of the program runs."""
    from dtlint.languages.python.instances import method

    if not isinstance(node.func, ast.Attribute) or place.depth > _MAX_DEPTH or not place.budget.spend():
        return None
    return method(place, node.func)


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
