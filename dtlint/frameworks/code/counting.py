"""Works out on which turns of a loop a condition holds, by trying the first turns."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping

from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.constants import evaluate
from dtlint.languages.python.names import lookup, qualified
from dtlint.languages.python.places import Budget, Place
from dtlint.languages.python.reaching import reaching
from dtlint.languages.python.tree import Binding
from dtlint.record import NamedTuple
from dtlint.value import Unknown, Value

Number = int | bool
_MAX_DEPTH = 12
_LARGEST = 1_000_000
_OPERATIONS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Mod: operator.mod,
    ast.FloorDiv: operator.floordiv,
}
_COMPARISONS: Mapping[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.eq,
    ast.IsNot: operator.ne,
}


class Turn(NamedTuple):
    """One turn of a loop: what its counter is worth, and what stands for numbers that the files do not tell.

    `unknowns` holds the texts of expressions that are taken to be `accumulation`, `counts` those (`len(loader)`) that
    are taken to be `length`.
    """

    counters: Mapping[int, int]
    unknowns: frozenset[str]
    accumulation: int
    counts: frozenset[str] = frozenset()
    length: int = 0


def counter_of(place: Place, loop: ast.AST) -> tuple[ast.AST, int] | None:
    """The target of a `for` that counts its turns and its first value; None for a loop that does not count."""
    if not isinstance(loop, ast.For) or not isinstance(loop.iter, ast.Call):
        return None
    call = loop.iter
    names = qualified(place.module, call.func, place.scope)
    if names == ("enumerate",) and isinstance(loop.target, ast.Tuple) and loop.target.elts:
        start = next((item.value for item in call.keywords if item.arg == "start"), None)
        start = call.args[1] if len(call.args) > 1 else start
        first = _integer(place.inner(start)) if start is not None else 0
        return (loop.target.elts[0], first) if first is not None else None
    if names == ("range",) and len(call.args) in (1, 2) and isinstance(loop.target, ast.Name):
        first = _integer(place.inner(call.args[0])) if len(call.args) == 2 else 0
        return (loop.target, first) if first is not None else None
    return None


def turns_of(place: Place, loop: ast.AST, turn: Turn) -> int | None:
    """How often `for i in range(...)` turns, None for another loop or where it is not told."""
    if not isinstance(loop, ast.For) or not isinstance(loop.iter, ast.Call):
        return None
    call = loop.iter
    if qualified(place.module, call.func, place.scope) != ("range",) or len(call.args) not in (1, 2):
        return None
    ends = [worth(place.inner(item), turn) for item in call.args]
    known = [item for item in ends if item is not None]
    if len(known) < len(ends):
        return None
    return known[-1] - (known[0] if len(known) == 2 else 0)


def unknown_numbers(place: Place, node: ast.AST) -> frozenset[str]:
    """The divisors of `%` in a condition, names followed, that the files do not tell or that a command may change."""
    found: set[str] = set()
    waiting, seen = [place.at(node)], set[tuple[int, str]]()
    while waiting and place.budget.spend():
        here = waiting.pop()
        for part in ast.walk(here.node):
            if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod):
                found |= open_numbers(here.at(part.right))
            name = dotted(part)
            if name and (id(here.scope), name) not in seen:
                seen.add((id(here.scope), name))
                waiting.extend(_values(here, name))
    return frozenset(found)


def open_numbers(place: Place) -> frozenset[str]:
    """The texts under which an expression stands that is no certain number; () for a number that is written."""
    value = evaluate(place._replace(budget=Budget(300)))
    certain = isinstance(value, Value) and value.origin.kind == "written" and isinstance(value.value, int)
    text = place.module.text(place.node)
    return frozenset() if certain or not dotted(place.node) else frozenset((text,))


def _values(place: Place, name: str) -> list[Place]:
    holder, bindings = lookup(place.scope, name)
    if holder is None:
        return []
    return [
        place._replace(scope=holder, node=binding.node)
        for binding, _ in reaching(place, holder, bindings)
        if binding.kind == "value" and isinstance(binding.node, ast.expr)
    ]


def worth(place: Place, turn: Turn) -> int | None:
    """What an expression is worth on a turn; None where that is not told. Truth is 1 or 0."""
    node = place.node
    if place.depth > _MAX_DEPTH or not place.budget.spend():
        return None
    if isinstance(node, ast.BoolOp):
        return _joined(node, [worth(place.inner(item), turn) for item in node.values])
    if isinstance(node, ast.UnaryOp):
        return _unary(node, worth(place.inner(node.operand), turn))
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        compare = _COMPARISONS.get(type(node.ops[0]))
        left, right = worth(place.inner(node.left), turn), worth(place.inner(node.comparators[0]), turn)
        return None if compare is None or left is None or right is None else int(compare(left, right))
    if isinstance(node, ast.BinOp):
        return _calculated(node, worth(place.inner(node.left), turn), worth(place.inner(node.right), turn))
    if isinstance(node, ast.Call) and dotted(node.func) == "bool" and len(node.args) == 1:
        inner = worth(place.inner(node.args[0]), turn)
        return None if inner is None else int(bool(inner))
    if isinstance(node, ast.Call) and place.module.text(node) in turn.counts:
        return turn.length
    return _named(place, turn)


def _joined(node: ast.BoolOp, parts: list[int | None]) -> int | None:
    """`a or b`, `a and b` with unknown parts: decided where one part decides it."""
    decisive = isinstance(node.op, ast.Or)
    if any(part is not None and bool(part) is decisive for part in parts):
        return int(decisive)
    return None if None in parts else int(not decisive)


def _unary(node: ast.UnaryOp, inner: int | None) -> int | None:
    if inner is None:
        return None
    if isinstance(node.op, ast.Not):
        return int(not inner)
    return -inner if isinstance(node.op, ast.USub) else None


def _calculated(node: ast.BinOp, left: int | None, right: int | None) -> int | None:
    if isinstance(node.op, ast.Mod) and right == 1 and not _divides(node.left):
        return 0
    calculate = _OPERATIONS.get(type(node.op))
    if calculate is None or left is None or right is None or max(abs(left), abs(right)) > _LARGEST:
        return None
    return None if right == 0 and isinstance(node.op, ast.Mod | ast.FloorDiv) else calculate(left, right)


def _divides(node: ast.AST) -> bool:
    """Whether an expression may be no whole number."""
    return any(isinstance(part, ast.Div) or isinstance(getattr(part, "value", None), float) for part in ast.walk(node))


def _named(place: Place, turn: Turn) -> int | None:
    name = dotted(place.node)
    if name and place.module.text(place.node) in turn.unknowns:
        return turn.accumulation
    holder, bindings = lookup(place.scope, name) if name else (None, [])
    if holder is not None:
        return _bound(place, [item for item, _ in reaching(place, holder, bindings)], turn)
    return _integer(place)


def _bound(place: Place, bindings: list[Binding], turn: Turn) -> int | None:
    if len(bindings) != 1:
        return None
    binding = bindings[0]
    if id(binding.place) in turn.counters:
        return turn.counters[id(binding.place)]
    if binding.kind == "value" and isinstance(binding.node, ast.expr) and not binding.path:
        return worth(place.inner(binding.node), turn)
    return passed_in(place, binding, turn) if binding.kind == "parameter" and place.frames else _integer(place)


def passed_in(place: Place, binding: Binding, turn: Turn) -> int | None:
    """A parameter of a function that was entered through a call: what the call passes."""
    from dtlint.languages.python.called import argument_node

    frame = next((frame for frame in reversed(place.frames)), None)
    if frame is None or not isinstance(binding.place, ast.arg):
        return None
    passed = argument_node(frame.scope, binding.place.arg, frame.call.node)
    if passed is None:
        return None
    return worth(frame.call._replace(node=passed, budget=place.budget, depth=place.depth + 1), turn)


def _integer(place: Place) -> int | None:
    value = evaluate(place._replace(budget=Budget(300)))
    if isinstance(value, Unknown) or not isinstance(value, Value) or value.origin.kind != "written":
        return None
    return int(value.value) if isinstance(value.value, int) else None
