"""Tells of a list whether what its items hold decides how long it is: filtered, or grown in a loop that they end."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dtlint.frameworks.code.dependent_names import batch_names, mentions_any, resting_on
from dtlint.frameworks.code.loss_factors import bound
from dtlint.frameworks.pytorch.step_area import called_function
from dtlint.languages.python.bindings import dotted, last_word
from dtlint.languages.python.called import argument_node, given_to
from dtlint.languages.python.callers import callers
from dtlint.languages.python.entered import called_function as entered_function
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Definition
from dtlint.languages.python.reach import enclosing_function
from dtlint.languages.python.tree import Binding, Scope, Site
from dtlint.record import NamedTuple
from dtlint.source import Span

AGREED = re.compile(
    r"reduce|gather|broadcast|bcast|sync|agree|recv|scatter|equal|balance|pad_to|all_rank", re.IGNORECASE
)
"""Words of functions by which the ranks may come to the same number."""
_LEVELS = 10
_MAX_CALLERS = 4
_SAME_LENGTH = frozenset({"list", "tuple", "sorted", "reversed", "enumerate", "tqdm", "trange", "iter"})
"""Functions whose result has an item for each item of the first thing that they are given."""
_IN_PARTS = frozenset({"batched", "chunked", "split", "DataLoader"})
"""Functions that cut what they are given into parts of one size."""
_HARMLESS = _SAME_LENGTH | _IN_PARTS | {"len", "zip", "shuffle", "sum", "print", "range", "map", "min", "max", "append"}
"""Functions that leave a list as long as it is."""
_PLAIN_CALLS = frozenset(
    {"len", "range", "min", "max", "int", "float", "round", "get", "getattr", "time", "perf_counter"}
)
"""Functions whose result is a setting, a number of the turn or a time, and nothing that samples hold."""
_GROWS = ("append", "extend")


class Opened(NamedTuple):
    """Where what the items hold decides how long a list is, the data that they come of, and where these are handed to
    what makes the list.
    """

    decided: Span
    data: tuple[Place, ...]


def opened(place: Place, levels: int = _LEVELS) -> Opened | None:
    """What opens the length of a list, or how often a `range` turns; None where nothing in sight does."""
    node = place.node
    if not levels or not place.budget.spend():
        return None
    if isinstance(node, ast.Name):
        return _first(opened(source, levels - 1) for source in _sources(place, node.id))
    if isinstance(node, ast.ListComp | ast.GeneratorExp) and len(node.generators) == 1:
        return _of_comprehension(place, node.generators[0], levels)
    return _of_call(place, node, levels) if isinstance(node, ast.Call) else None


def origins(place: Place, levels: int = _LEVELS) -> Iterator[Place]:
    """The expressions that data come of: what names are bound to, and what calls are given."""
    yield place
    if not levels or not place.budget.spend():
        return
    if isinstance(place.node, ast.Name):
        for source in _sources(place, place.node.id):
            yield from origins(source, levels - 1)
    elif isinstance(place.node, ast.Call):
        for given in given_to(place.node):
            yield from origins(place.at(given), levels - 1)


def _first(found: Iterator[Opened | None]) -> Opened | None:
    return next((each for each in found if each is not None), None)


def _sources(place: Place, name: str) -> Iterator[Place]:
    """What a name is bound to, once; for a parameter what the calls of its function pass."""
    told = list(bound(place, name))
    function = enclosing_function(place.scope)
    if len(told) == 1 and told[0][1].kind == "value" and not told[0][1].path:
        yield told[0][0]
    elif function is not None and all(binding.kind == "parameter" for _, binding in told):
        definition = Definition(place.module, function)
        for number, (module, site) in enumerate(callers(place.program, definition)):
            passed = argument_node(function, name, site.node)
            if passed is not None and number < _MAX_CALLERS:
                here = place_of(place.program, module, site)
                if not _agrees_before(here, site):
                    yield here._replace(node=passed, budget=place.budget)


def _agrees_before(place: Place, site: Site) -> bool:
    """Whether the function around a call has the ranks agree before it, in the same turn of its loop."""
    within = site.loops[-1] if site.loops else None
    return any(line < getattr(site.node, "lineno", 0) for line in agreeing_lines(place.scope, within))


def agreeing_lines(scope: Scope, within: ast.AST | None = None) -> Iterator[int]:
    """The lines on which a function, or a loop of it, calls what may have the ranks agree."""
    for site in scope.sites:
        function = site.node.func if isinstance(site.node, ast.Call) else None
        inside = within is None or within in site.loops
        if function is not None and inside and AGREED.search(dotted(function) or last_word(function)):
            yield function.lineno


def _of_comprehension(place: Place, turned: ast.comprehension, levels: int) -> Opened | None:
    """A comprehension that leaves items out by what they hold, or one as long as what it turns over."""
    names = {node.id for node in ast.walk(turned.target) if isinstance(node, ast.Name)}
    counted = isinstance(turned.iter, ast.Call) and last_word(turned.iter.func) in ("range", "enumerate")
    for test in turned.ifs if not counted else ():
        if mentions_any(test, names):
            return Opened(place.module.span(test), (place.at(turned.iter),))
    return opened(place.at(turned.iter), levels - 1)


def _of_call(place: Place, node: ast.Call, levels: int) -> Opened | None:
    word = last_word(node.func)
    if word == "range":
        return _first(_of_number(place.at(part), levels) for part in node.args)
    if word in _SAME_LENGTH | _IN_PARTS and node.args:
        sampled = any(keyword.arg in ("sampler", "batch_sampler") for keyword in node.keywords)
        return None if sampled else opened(place.at(node.args[0]), levels - 1)
    helper = called_function(place) or entered_function(place, node)
    if helper is None or not isinstance(helper.scope.node, ast.FunctionDef):
        return None
    decided = _made_open(place, helper, levels)
    return None if decided is None else Opened(decided, tuple(map(place.at, given_to(node))))


def _of_number(place: Place, levels: int) -> Opened | None:
    """What opens the length of the list that a number counts: `len(samples)`, `math.ceil(len(samples) / size)`."""
    if not levels or AGREED.search(place.module.text(place.node)):
        return None
    lengths = [part for part in ast.walk(place.node) if isinstance(part, ast.Call) and last_word(part.func) == "len"]
    for part in lengths:
        if len(part.args) == 1 and (found := opened(place.at(part.args[0]), levels - 1)) is not None:
            return found
    told = list(bound(place, place.node.id)) if isinstance(place.node, ast.Name) else []
    values = [inner for inner, binding in told if binding.kind == "value" and not binding.path]
    return _of_number(values[0], levels - 1) if len(values) == len(told) == 1 else None


# Functions that make lists


def _made_open(place: Place, helper: Definition, levels: int) -> Span | None:
    """Where a function leaves it to what it reads how long the list is that it returns; None where it has the ranks
    agree, or changes the list otherwise.
    """
    scope = helper.scope
    if not levels or not place.budget.spend() or any(True for _ in agreeing_lines(scope)):
        return None
    inside = place._replace(module=helper.module, scope=scope, guards=(), frames=())
    for value in _returned(scope):
        if isinstance(value, ast.ListComp | ast.Call):
            found = opened(inside._replace(node=value), levels - 1)
            if found is not None:
                return found.decided
        elif isinstance(value, ast.Name) and (grown := _grown(inside, value.id, levels)) is not None:
            return grown
    return None


def _returned(scope: Scope) -> Iterator[ast.expr]:
    """What a function returns, the parts of a tuple one by one."""
    for site in scope.sites:
        value = site.node.value if isinstance(site.node, ast.Return) else None
        if value is not None:
            yield from value.elts if isinstance(value, ast.Tuple) else (value,)


def _grown(place: Place, name: str, levels: int) -> Span | None:
    """Where what is read decides how often statements add to a list of a function that begins empty."""
    bindings = place.scope.bindings.get(name, [])
    begins = [each for each in bindings if not isinstance(each.node, ast.AugAssign)]
    whole = [each.node for each in begins if _is_empty(each)]
    if len(begins) != 1 or len(whole) != 1 or is_held(place.scope, name):
        return None
    found = (_decided(place, name, site, levels) for site in place.scope.sites if _adds(site.node, name))
    return next((span for span in found if span is not None), None)


def _is_empty(binding: Binding) -> bool:
    """`out = []`, also as one of several (`turns, text = [], question`)."""
    node = binding.node
    for index in binding.path:
        if not isinstance(node, ast.Tuple | ast.List) or not 0 <= index < len(node.elts):
            return False
        node = node.elts[index]
    return (isinstance(node, ast.List) and not node.elts) or (
        isinstance(node, ast.Call) and last_word(node.func) == "list" and not node.args
    )


def is_held(scope: Scope, name: str) -> bool:
    """Whether a function asks how long a list is, or hands it to what may change that: it may fill it up, or cut it."""
    for site in scope.sites:
        node = site.node
        given = node.args if isinstance(node, ast.Call) and last_word(node.func) not in _HARMLESS else []
        if any(isinstance(part, ast.Name) and part.id == name for part in given):
            return True
    cut = (target for node in ast.walk(scope.node) if isinstance(node, ast.Delete) for target in node.targets)
    if any(mentions_any(target, (name,)) for target in cut):
        return True
    asked = (
        node.test for node in ast.walk(scope.node) if isinstance(node, ast.While | ast.If | ast.IfExp | ast.Assert)
    )
    return any(mentions_any(test, (name,)) for test in asked)


def _adds(node: ast.AST, name: str) -> bool:
    """`out.append(x)`, `out.extend(xs)`, `out += xs`"""
    if isinstance(node, ast.AugAssign):
        return isinstance(node.op, ast.Add) and dotted(node.target) == name
    function = node.func if isinstance(node, ast.Call) else None
    return isinstance(function, ast.Attribute) and function.attr in _GROWS and dotted(function.value) == name


def _decided(place: Place, name: str, site: Site, levels: int) -> Span | None:
    """The condition on what is read under which a statement adds to a list, or which ends the loop around it; else the
    one that opens a list whose items are added one by one.
    """
    for loop in (loop for loop in site.loops if isinstance(loop, ast.For | ast.While)):
        read = _read_in(loop)
        within = {id(node) for node in ast.walk(loop)}
        tests = [guard.test for guard in site.guards if guard.test is not None and id(guard.test) in within]
        for test in (*tests, *_ending(loop)):
            if mentions_any(test, read):
                return place.module.span(test)
    return _of_added(place, site, levels)


def _read_in(loop: ast.For | ast.While) -> frozenset[str]:
    """The names of what a loop turns over, and of what it gets from calls in each turn."""
    made: set[str] = set()
    for node in ast.walk(loop):
        called = node.value if isinstance(node, ast.Assign) else None
        if isinstance(called, ast.Call) and last_word(called.func) not in _PLAIN_CALLS:
            made |= _assigned(node)
    return batch_names(loop) | resting_on(loop.body, made)


def _assigned(node: ast.AST) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else []
    return {part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}


def _ending(loop: ast.For | ast.While) -> Iterator[ast.expr]:
    """The conditions under which a loop, or a turn of it, ends."""
    waiting: list[ast.stmt] = list(loop.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If):
            if any(isinstance(part, ast.Break | ast.Continue | ast.Return) for part in (*node.body, *node.orelse)):
                yield node.test
            waiting += [*node.body, *node.orelse]
        elif isinstance(node, ast.With | ast.Try):
            waiting += node.body


def _of_added(place: Place, site: Site, levels: int) -> Span | None:
    """What opens a list that is added as a whole, or item by item: one that a function of the program makes."""
    turned = [loop.iter for loop in site.loops if isinstance(loop, ast.For)]
    added = _whole(site.node)
    for made, decided in _open_results(place, levels):
        if any(isinstance(part, ast.Name) and part.id in made for part in (*turned[-1:], *added)):
            return decided
    return None


def _whole(node: ast.AST) -> list[ast.expr]:
    """The list that `extend` and `+=` add, or what a comprehension there turns over."""
    if isinstance(node, ast.Call) and last_word(node.func) != "extend":
        return []
    given = node.value if isinstance(node, ast.AugAssign) else node.args[0] if isinstance(node, ast.Call) else None
    if isinstance(given, ast.ListComp | ast.GeneratorExp) and len(given.generators) == 1:
        return [given.generators[0].iter]
    return [given] if isinstance(given, ast.expr) else []


def _open_results(place: Place, levels: int) -> Iterator[tuple[frozenset[str], Span]]:
    """The names that rest on what functions of the program return, where they make lists of open length, and what
    opens these.
    """
    body = place.scope.node.body if isinstance(place.scope.node, ast.FunctionDef) else []
    for node in (node for statement in body for node in ast.walk(statement) if isinstance(node, ast.Assign)):
        names = _assigned(node)
        for call in (part for part in ast.walk(node.value) if isinstance(part, ast.Call)):
            here = place.at(call)
            helper = called_function(here) or entered_function(here, call)
            if helper is not None and isinstance(helper.scope.node, ast.FunctionDef):
                decided = _made_open(place, helper, levels - 1)
                if decided is not None:
                    yield resting_on(body, names), decided
