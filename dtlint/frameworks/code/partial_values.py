"""Tells whether a condition rests on what not all ranks know: a sum that one rank was given, or what only some set."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dtlint.frameworks.code.dealt_values import measured_by_rank, measured_in_turn
from dtlint.frameworks.code.loss_factors import bound
from dtlint.frameworks.code.object_states import holder_of, remembered
from dtlint.frameworks.code.progress_bars import lone_count
from dtlint.frameworks.code.ranks import side_of
from dtlint.frameworks.pytorch.step_area import called_function
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.called import argument_node
from dtlint.languages.python.calls import called
from dtlint.languages.python.entered import entry
from dtlint.languages.python.instances import method
from dtlint.languages.python.names import attribute_bindings
from dtlint.languages.python.places import Frame, Place, place_of
from dtlint.languages.python.program import Definition, Program, of_file
from dtlint.languages.python.tree import Binding, Scope
from dtlint.record import NamedTuple
from dtlint.source import Span

_TO_ONE = ("torch.distributed.reduce", "torch.distributed.distributed_c10d.reduce")
"""Functions that leave the sum with one rank, and parts of it with the others."""
_AGREES = re.compile(r"all_?reduce|all_?gather|broadcast|bcast|scatter|sync|recv|agree", re.IGNORECASE)
"""Words in names of functions that tell all ranks the same."""
_PLAIN = frozenset(
    (
        "float",
        "int",
        "bool",
        "abs",
        "min",
        "max",
        "any",
        "all",
        "sum",
        "mean",
        "item",
        "cpu",
        "tolist",
        "detach",
        "tensor",
        "round",
        "stack",
        "cat",
        "array",
    )
)
"""Functions and methods whose result is a number of what they are given."""
_FOLLOWED = frozenset({"dealt", "reduced"})
"""Causes that count through what an object remembers, and that make values, but not whether there are any."""
_ALIKE = frozenset({"shape", "ndim", "dtype", "device", "requires_grad", "is_cuda", "layout"})
"""Attributes of tensors that all ranks have alike: samplers deal every rank as many samples."""
_DEALING = ("DistributedSampler", "prepare", "prepare_data_loader", "reduce")
"""Calls that deal samples to the ranks, or leave a sum with one."""
_MOST = 60
"""Most expressions that one condition is followed through."""
_Key = tuple[int, str | int, tuple[int, ...], bool]


class Partial(NamedTuple):
    """Why not all ranks know a value (`cause`: reduced, dealt, partial or bar), where, and what the place is called."""

    cause: str
    place: Span
    label: str


def known_in_part(place: Place) -> Partial | None:
    """What makes a condition another one on some ranks; None where nothing certainly does. Through what an object
    remembers only what is measured or reduced counts: who else calls its methods is not in sight. What is asked only
    whether it is there at all tells nothing of what a rank has measured.
    """
    waiting = [_Waiting(place, False, False)]
    bare = set(map(id, _bare(place.node)))
    seen: set[_Key] = set()
    while waiting and len(seen) < _MOST and place.budget.spend():
        here, through, there = waiting.pop()
        for node, only_there in _asked(here.node, there):
            key = _key(here, node, only_there)
            if key in seen:
                continue
            seen.add(key)
            bar = None if only_there else lone_count(here.at(node))
            if bar is not None:
                return Partial("bar", bar, "only some ranks count here, the others disable it")
            found = _of_node(here.at(node), id(node) not in bare and not only_there)
            if isinstance(found, Partial) and _counts(found, through, only_there):
                return found
            parts = [] if isinstance(found, Partial) else found
            waiting += (_Waiting(part, through, only_there and not _is_test(part)) for part in parts)
            if isinstance(node, ast.Attribute) and not parts:
                waiting += (
                    _Waiting(part, True, only_there and not _is_test(part)) for part in _remembered(here.at(node))
                )
    return None


def _counts(found: Partial, through: bool, only_there: bool) -> bool:
    """Whether a cause makes a difference to what is asked."""
    return (not through or found.cause in _FOLLOWED) and not (only_there and found.cause in _FOLLOWED)


def _is_test(part: Place) -> bool:
    """Whether a part is a condition, not what is bound under it."""
    return any(part.node is guard.test for site in part.scope.sites for guard in site.guards)


def _key(place: Place, node: ast.AST, only_there: bool) -> _Key:
    """A name where it stands, by the calls that led there, and what is asked of it."""
    led = tuple(id(frame.call.node) for frame in place.frames)
    return id(place.scope), id(node) if isinstance(node, ast.Call) else dotted(node), led, only_there


class _Waiting(NamedTuple):
    """An expression that is yet to be asked, whether an object remembers it, and whether it is asked only if it is
    there at all (`x is not None`).
    """

    place: Place
    through: bool
    there: bool


def _of_node(place: Place, measured: bool) -> Partial | list[Place]:
    node = place.node
    if isinstance(node, ast.Call):
        return _returned(place)
    return _of_name(place, dotted(node), measured) if isinstance(node, ast.Name) else _of_attribute(place)


def _remembered(place: Place) -> list[Place]:
    """What an attribute of an object rests on: what the methods of its class set it to, and when; what its property
    returns.
    """
    if not _may_measure(place.program) or _is_object_told(place):
        return []
    found = list(remembered(place))
    if any(_is_told(inside, f"self.{dotted(place.node).rpartition('.')[2]}") for inside, _ in found):
        return []
    assigned = [(inside, binding) for inside, binding in found if _is_assigned(binding)]
    if any(_is_received(inside) for inside, _ in assigned):
        return []
    return [part for inside, binding in assigned for part in _parts(inside, binding)] or _property(place)


def _may_measure(program: Program) -> bool:
    """Whether a program calls anything that deals samples to the ranks, or leaves a sum with one."""
    return any(word in module.called for module in program.modules.values() for word in _DEALING)


def _is_object_told(place: Place) -> bool:
    """Whether the object of an attribute takes part in what tells all ranks the same: `meter.synchronize()`,
    `reduce(meter)`.
    """
    holder = holder_of(place)
    if holder is None:
        return True
    name = dotted(holder.node)
    if "." in name:
        return _is_told(holder, name)
    calls = _agreeing(place.program, holder.scope)
    return any(isinstance(part, ast.Name) and part.id == name for call in calls for part in ast.walk(call))


def _property(place: Place) -> list[Place]:
    """What the property of an object returns, entered as its method is."""
    node = place.node
    helper = method(place, node) if isinstance(node, ast.Attribute) else None
    return _returns_of(place, helper) if helper is not None else []


def _asked(expression: ast.AST, there: bool) -> Iterator[tuple[ast.Name | ast.Call | ast.Attribute, bool]]:
    """The names, attributes and calls that an expression rests on, outside of what makes the ranks agree, and whether
    each is asked only if it is there at all, as the whole is (`there`). Of most functions the arguments tell nothing of
    what they return (a writer that one rank has).
    """
    waiting = [(expression, there)]
    while waiting:
        node, only_there = waiting.pop()
        if isinstance(node, ast.Call) and _AGREES.search(_last(node)):
            continue
        if isinstance(node, ast.Name | ast.Call) or (isinstance(node, ast.Attribute) and dotted(node)):
            yield node, only_there
        if not isinstance(node, ast.Call) or _last(node) in _PLAIN:
            alike = _asks_presence(node) or (isinstance(node, ast.Attribute) and node.attr in _ALIKE)
            test = node.test if isinstance(node, ast.IfExp) else None
            waiting += ((part, (only_there or alike) and part is not test) for part in ast.iter_child_nodes(node))


def _asks_presence(node: ast.AST) -> bool:
    """Whether something asks if a value or an entry is there: `x is not None`, `"mask" in batch`."""
    if not isinstance(node, ast.Compare) or len(node.ops) > 1:
        return False
    if isinstance(node.ops[0], ast.Is | ast.IsNot):
        return isinstance(node.comparators[0], ast.Constant) and node.comparators[0].value is None
    named = isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)
    return named and isinstance(node.ops[0], ast.In | ast.NotIn)


def _last(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else dotted(node.func).rpartition(".")[2]


def _returned(place: Place) -> list[Place]:
    """What a function of the program returns, and under what conditions."""
    helper = called_function(place)
    function = place.node.func if isinstance(place.node, ast.Call) else None
    if helper is None and isinstance(function, ast.Attribute):
        helper = method(place, function)
    return _returns_of(place, helper) if helper is not None else []


def _returns_of(place: Place, helper: Definition) -> list[Place]:
    frames = (*place.frames, Frame(helper.scope, place))
    returns = [site for site in helper.scope.sites if isinstance(site.node, ast.Return)]
    return [
        place_of(place.program, helper.module, site)._replace(
            node=site.node.value, depth=place.depth + 1, frames=frames
        )
        for site in returns
        if isinstance(site.node, ast.Return) and site.node.value is not None
    ]


def _bare(test: ast.AST) -> Iterator[ast.AST]:
    """The parts of a condition that are asked for their truth alone: whether a list is empty is the same on all ranks
    that go through as many batches.
    """
    if isinstance(test, ast.BoolOp):
        for value in test.values:
            yield from _bare(value)
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _bare(test.operand)
    else:
        yield test


def _of_name(place: Place, name: str, measured: bool) -> Partial | list[Place]:
    """Why a name is another value on some ranks; else what it rests on. `measured`: what a rank has measured counts."""
    reached = [(inside, binding) for inside, binding in bound(place, name) if _is_assigned(binding)]
    if not reached and not _is_agreed(place, name):
        return _passed(place, name)
    if not reached or _is_agreed(reached[0][0], name) or any(_is_received(inside) for inside, _ in reached):
        return []
    if any(_is_unpacked(inside, binding) for inside, binding in reached):
        return []
    reduced = _reduced(reached[0][0], name)
    if reduced is not None:
        return Partial("reduced", reduced, "one rank is given the sum, the others keep parts of it")
    own = measured_by_rank(reached[0][0], name) if measured else None
    if own is not None:
        return Partial("dealt", own, "each rank goes through its own share of these")
    sided = [(inside, binding, _rank_test(inside, binding, place)) for inside, binding in reached]
    tests = {id(test) for _, _, test in sided if test is not None}
    if len(tests) == 1 and any(test is None for _, _, test in sided):
        inside, binding = next((inside, binding) for inside, binding, test in sided if test is not None)
        return Partial("partial", inside.module.span(binding.place), "only some ranks come here")
    return [part for inside, binding in reached for part in _parts(inside, binding)]


def _passed(place: Place, name: str) -> Partial | list[Place]:
    """What the call that led into a function passes for its parameter; what it measured there on its own batch."""
    call = entry(place, place.scope)
    node = argument_node(place.scope, name, call.node) if call is not None else None
    if call is None or node is None:
        return []
    measured = measured_in_turn(call, node)
    if measured is not None:
        return Partial("dealt", measured, "each rank goes through its own share of these")
    return [call.at(node)]


def _of_attribute(place: Place) -> Partial | list[Place]:
    """Why an attribute of the object (`self.stop`) is another value on some ranks: only they set it, in a method that
    tells nobody.
    """
    name = dotted(place.node)
    owned = attribute_bindings(place.module, place.scope, name)
    reached = [
        (place._replace(scope=method, node=binding.node, guards=binding.guards), binding)
        for method, binding in owned
        if _is_assigned(binding) and binding.node is not None
    ]
    if not reached or _is_told(place, name) or any(_takes_over(inside, name) for inside, _ in reached):
        return []
    sided = [(inside, binding) for inside, binding in reached if _rank_test(inside, binding, place) is not None]
    if not sided or len(sided) == len(reached):
        return []
    return Partial("partial", place.module.span(sided[0][1].place), "only some ranks come here")


def _is_told(place: Place, name: str) -> bool:
    """Whether a file hands an attribute to what tells all ranks the same."""
    return any(_mentions(node, name) for scope in place.module.scopes for node in _agreeing(place.program, scope))


def _mentions(node: ast.AST, name: str) -> bool:
    return any(isinstance(part, ast.Attribute) and dotted(part) == name for part in ast.walk(node))


def _takes_over(place: Place, name: str) -> bool:
    """Whether an attribute is set to what the ranks have agreed on, or to what a function makes of itself."""
    calls = [node for node in ast.walk(place.node) if isinstance(node, ast.Call)]
    return _is_received(place) or any(_AGREES.search(_last(node)) or _mentions(node, name) for node in calls)


def _is_assigned(binding: Binding) -> bool:
    return binding.kind == "value" or isinstance(binding.node, ast.AugAssign)


def _rank_test(inside: Place, binding: Binding, use: Place) -> ast.expr | None:
    """The condition on the rank under which a name is bound, where its use does not stand under it."""
    guards = (guard for guard in binding.guards if guard.test is not None and guard not in use.guards)
    return next((guard.test for guard in guards if side_of(inside, guard)), None)


def _parts(inside: Place, binding: Binding) -> Iterator[Place]:
    """What is bound, and the conditions under which it is."""
    node = inside.node
    returned = _returned(inside) if binding.path and isinstance(node, ast.Call) else []
    for value in returned or [inside]:
        part = _element(value.node, binding.path)
        yield value.at(part.value if isinstance(part, ast.AugAssign) else part)
    yield from (inside.at(guard.test) for guard in binding.guards if guard.test is not None)


def _element(node: ast.AST, path: tuple[int, ...]) -> ast.AST:
    """The item of a tuple that is bound to a name, the whole of anything else."""
    return node.elts[path[0]] if isinstance(node, ast.Tuple) and path and 0 <= path[0] < len(node.elts) else node


def _is_agreed(place: Place, name: str) -> bool:
    """Whether the function hands a name to what tells all ranks the same."""
    return any(_hands(node, name) for node in _agreeing(place.program, place.scope))


def _agreeing(program: Program, scope: Scope) -> tuple[ast.Call, ...]:
    """The calls of a function that tell all ranks the same."""
    return of_file(program, "agreeing calls", scope, lambda: tuple(_agreeing_in(scope)))


def _agreeing_in(scope: Scope) -> Iterator[ast.Call]:
    for site in scope.sites:
        if isinstance(site.node, ast.Call) and _AGREES.search(_last(site.node)):
            yield site.node


def _is_received(place: Place) -> bool:
    """Whether what is bound comes out of something that the ranks were told: `stop = told[0]` behind a broadcast."""
    names = (node.id for node in ast.walk(place.node) if isinstance(node, ast.Name))
    return any(_is_agreed(place, name) for name in names)


def _is_unpacked(place: Place, binding: Binding) -> bool:
    """Whether the ranks that did not send bind here what they make of what they were sent, in several steps
    (`told = pickle.loads(bytes(data.tolist()))` behind a broadcast of `data`).
    """
    receives = any(side_of(place, guard) == "others" for guard in binding.guards)
    waiting, seen = [place] if receives else [], set[str]()
    while waiting and len(seen) < _MOST:
        here = waiting.pop()
        if _is_received(here):
            return True
        names = {node.id for node in ast.walk(here.node) if isinstance(node, ast.Name)} - seen
        seen |= names
        waiting += [inside for name in names for inside, each in bound(here, name) if _is_assigned(each)]
    return False


def _reduced(place: Place, name: str) -> Span | None:
    """Where a function leaves the sum of a tensor with one rank."""
    sites = (site for site in place.module.called.get("reduce", ()) if site.scope is place.scope)
    given = (site for site in sites if _first_argument(site.node) == name)
    found = (site.node for site in given if called(place_of(place.program, place.module, site)) in _TO_ONE)
    return next((place.module.span(node) for node in found), None)


def _first_argument(node: ast.AST) -> str:
    return dotted(node.args[0]) if isinstance(node, ast.Call) and node.args else ""


def _hands(node: ast.Call, name: str) -> bool:
    given = [*node.args, *(keyword.value for keyword in node.keywords)]
    return any(isinstance(part, ast.Name) and part.id == name for item in given for part in ast.walk(item))
