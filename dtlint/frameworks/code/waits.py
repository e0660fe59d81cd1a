"""Finds what else makes the host wait for the GPU beside a place in a loop that trains."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Literal

from dtlint.frameworks.code.ranks import asks_for_ranks
from dtlint.frameworks.pytorch.step_area import called_function
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Program
from dtlint.languages.python.tree import Guard, Module, Scope, Site
from dtlint.record import NamedTuple

_READERS = frozenset(
    {
        "item",
        "tolist",
        "cpu",
        "numpy",
        "nonzero",
        "masked_select",
        "get_scale",
        "all_gather_object",
        "gather_object",
        "broadcast_object_list",
    }
)
"""Functions that return what the GPU must have computed before."""
_SHOWERS = frozenset(
    {
        "float",
        "int",
        "bool",
        "print",
        "update",
        "log",
        "info",
        "log_metrics",
        "log_scalar",
        "add_scalar",
        "add_scalars",
        "set_postfix",
        "set_description",
    }
)
"""Functions that read the number of a tensor which they are given, or may."""
_MEASURED = re.compile(r"loss|norm(?!al)|acc(uracy)?\d?(?![a-z])|metric|score", re.IGNORECASE)
"""Words of what the GPU computes in a step, and a log shows."""
_CHECKS = ("isnan", "isinf", "isfinite")
_COPIES = ("cuda", "to")
_DEVICE = re.compile(r"device|cuda|gpu|rank", re.IGNORECASE)
_MOVERS = re.compile(r"to_(device|cuda|gpu)|move_(data|to)", re.IGNORECASE)
_SCALERS = re.compile(r"scaler|(?<![a-z])amp(?![a-z])", re.IGNORECASE)
_NO_OPTIMIZERS = re.compile(r"sched|prof|timer|progress|bar$", re.IGNORECASE)
_MAX_DEPTH = 2
_MAX_SITES = 2000

_Kind = Literal["wait", "copy", "work", "other"]


class _Event(NamedTuple):
    """What a call in a loop does: the host waits in it for all that is queued, or where it copies from pageable
    memory; it queues the work of a backward pass or an update; or something else.
    """

    position: tuple[int, int]
    kind: _Kind
    text: str


def wait_beside(place: Place, site: Site, calls: Sequence[tuple[Place, Site]] = ()) -> str:
    """The text of a call by which the host waits anyway, with no backward pass or update between it and a call in a
    loop, in this round or on the way into the next; "" if there is none. `calls` lead from the loop to a call that
    stands in a function, the outermost first.
    """
    before: list[_Event] = []
    behind: list[_Event] = []
    for around, call in (*calls, (place, site)):
        loop = call.loops[-1] if call.loops else around.scope.node
        events = sorted(_events(around, call, loop), key=lambda event: event.position)
        here = _position(call.node)
        before = [*before, *(event for event in events if event.position < here)]
        after = [event for event in events if event.position > here]
        behind = [*after, *behind, *(_of_loader(around, loop) if call.loops else ())]
    return _before(before) or _behind([*behind, *before])


def _before(events: Sequence[_Event]) -> str:
    """A wait ahead of a call in the same round; a copy only where nothing is queued behind it."""
    idle = True
    for event in reversed(events):
        if event.kind == "work":
            return ""
        if event.kind == "wait" or (event.kind == "copy" and idle):
            return event.text
        idle = idle and event.kind != "other"
    return ""


def _behind(events: Sequence[_Event]) -> str:
    for event in events:
        if event.kind == "work":
            return ""
        if event.kind != "other":
            return event.text
    return ""


def _of_loader(place: Place, loop: ast.AST) -> Iterator[_Event]:
    """The copy that a loader which Accelerate has prepared makes at the start of a round."""
    if isinstance(loop, ast.For) and _has_accelerator(place.program):
        yield _Event(_position(loop), "copy", place.module.text(loop.iter, 40))


def _has_accelerator(program: Program) -> bool:
    return any("Accelerator" in module.called for module in program.modules.values())


def _events(place: Place, stall: Site, loop: ast.AST) -> Iterator[_Event]:
    """What the calls in a loop do; those of some rounds only are left out."""
    counters = _counters(loop)
    tested = _tested(loop)
    engines = _engines(place.module, loop)
    for site in _sites_in(place.scope):
        inside = loop in site.loops or loop is place.scope.node
        if not inside or site.node is stall.node or not isinstance(site.node, ast.Call):
            continue
        inner = place_of(place.program, place.module, site)
        if not _is_rare(inner, site, stall, counters):
            kind = _kind(inner, site.node, tested, engines)
            yield _Event(_position(site.node), kind, place.module.text(site.node, 40))


def _sites_in(scope: Scope) -> Iterator[Site]:
    """The sites of a function, those in its comprehensions too."""
    waiting = [scope]
    while waiting:
        found = waiting.pop()
        yield from found.sites
        waiting.extend(inner for inner in found.inner if _is_comprehension(inner))


def _is_comprehension(scope: Scope) -> bool:
    return isinstance(scope.node, ast.expr) and not isinstance(scope.node, ast.Lambda)


def _kind(place: Place, node: ast.Call, tested: frozenset[int], engines: frozenset[str]) -> _Kind:
    own = _own_kind(place, node, tested, engines)
    if own != "other":
        return own
    return _kind_within(place, _MAX_DEPTH)


def _own_kind(place: Place, node: ast.Call, tested: frozenset[int], engines: frozenset[str]) -> _Kind:
    function = node.func
    last = function.attr if isinstance(function, ast.Attribute) else dotted(function)
    receiver = place.module.text(function.value) if isinstance(function, ast.Attribute) else ""
    if last == "backward":
        return "work"
    if last == "step" and not _NO_OPTIMIZERS.search(receiver):
        return "wait" if receiver in engines or _SCALERS.search(receiver) else "work"
    return _reading_kind(place.module, node, last, receiver, tested)


def _reading_kind(module: Module, node: ast.Call, last: str, receiver: str, tested: frozenset[int]) -> _Kind:
    if last in _READERS or (last in _CHECKS and id(node) in tested):
        return "wait"
    if last == "state_dict" and _SCALERS.search(receiver):
        return "wait"
    if _SCALERS.search(last) and node.args:
        return "wait"
    if last in _SHOWERS and any(_MEASURED.search(text) for text in _given(module, node)):
        return "wait"
    return "copy" if _is_copy(module, node, last) else "other"


def _given(module: Module, node: ast.Call) -> Iterator[str]:
    yield from (module.text(item) for item in node.args)
    yield from (f"{item.arg}={module.text(item.value)}" for item in node.keywords)


def _is_copy(module: Module, node: ast.Call, last: str) -> bool:
    """`x.cuda()`, `x.to(device)` and helpers of that name, unless the host does not wait (`non_blocking=True`)."""
    texts = list(_given(module, node))
    if any(text.startswith("non_blocking=") and not text.endswith("False") for text in texts):
        return False
    if last == "to":
        return any(map(_DEVICE.search, texts))
    return last in _COPIES or bool(_MOVERS.search(last))


def _kind_within(place: Place, depth: int) -> _Kind:
    """What a function of the program does, a wait before a copy; conditions in it are not looked at."""
    found = called_function(place)
    if found is None or not depth or len(found.scope.sites) > _MAX_SITES:
        return "other"
    tested = _tested(found.scope.node)
    kinds: set[_Kind] = set()
    for site in _sites_in(found.scope):
        if isinstance(site.node, ast.Call):
            inner = place_of(place.program, found.module, site)
            own = _own_kind(inner, site.node, tested, frozenset())
            kinds.add(own if own != "other" else _kind_within(inner, depth - 1))
    if "wait" in kinds:
        return "wait"
    return "work" if "work" in kinds else "copy" if "copy" in kinds else "other"


def _engines(module: Module, loop: ast.AST) -> frozenset[str]:
    """What goes backward with a loss that it is given, as DeepSpeed's engines do, whose step reads numbers."""
    calls = (node for node in ast.walk(loop) if isinstance(node, ast.Call) and node.args)
    functions = (node.func for node in calls if isinstance(node.func, ast.Attribute))
    return frozenset(module.text(function.value) for function in functions if function.attr == "backward")


def _is_rare(place: Place, site: Site, stall: Site, counters: frozenset[str]) -> bool:
    """Whether a call runs in some rounds only, by a count of them, where the stall does not."""
    own = [guard for guard in site.guards if guard not in stall.guards and not asks_for_ranks(place, guard)]
    return any(_counts(guard, counters) for guard in own)


def _counts(guard: Guard, counters: frozenset[str]) -> bool:
    if guard.test is None:
        return True
    nodes = list(ast.walk(guard.test))
    return any(isinstance(node, ast.Mod) or dotted(node) in counters for node in nodes)


def _counters(loop: ast.AST) -> frozenset[str]:
    """The names that count the rounds of a loop."""
    counted: list[ast.expr] = [node.target for node in ast.walk(loop) if isinstance(node, ast.AugAssign)]
    if isinstance(loop, ast.For):
        counted += loop.target.elts[:1] if isinstance(loop.target, ast.Tuple) else [loop.target]
    return frozenset(filter(None, map(dotted, counted)))


def _tested(within: ast.AST) -> frozenset[int]:
    """The nodes whose value decides where a program goes on."""
    deciding = (ast.If, ast.While, ast.IfExp, ast.Assert)
    tests = (node.test for node in ast.walk(within) if isinstance(node, deciding))
    return frozenset(id(node) for test in tests for node in ast.walk(test))


def _position(node: ast.AST) -> tuple[int, int]:
    """Where a call is written to its end, which follows the ends of what it is given, as the calls themselves do."""
    return getattr(node, "end_lineno", 0) or 0, getattr(node, "end_col_offset", 0) or 0
