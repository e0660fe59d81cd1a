"""Evaluates an expression to a value with its origin, to a choice under conditions, or to Unknown; nothing is run."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtlint.languages.python.arithmetic import Known, calculated, compared, computed, written
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.following import ways
from dtlint.languages.python.library import call_value, environment_value
from dtlint.languages.python.names import qualified
from dtlint.languages.python.objects import attribute_value, command_line_argument
from dtlint.languages.python.places import Condition, Place, Way, unknown
from dtlint.languages.python.tree import Guard
from dtlint.value import Choice, Option, Plain, Setting, Unknown, Value

_MAX_TEST_DEPTH = 12
_MAX_OPTIONS = 8


def evaluate(place: Place) -> Setting:
    """What the expression at `place` is worth. Something of a library is its dotted name (`torch.bfloat16`)."""
    found: list[Option] = []
    for way, condition in live_ways(place):
        value = _softened(way.end if isinstance(way.end, Unknown) else _end(way.end), way)
        found.extend(Option(joined(condition, option.guard), option.value) for option in options(value))
    return combined(place, found)


def live_ways(place: Place) -> list[tuple[Way, str]]:
    """The ways whose conditions do not certainly fail, each with the text of what stays open.

    A way that is certain hides those before it.
    """
    found: list[tuple[Way, str]] = []
    for way in ways(place):
        verdicts = [(condition.text, holds(condition)) for condition in way.conditions]
        if any(verdict is False for _, verdict in verdicts):
            continue
        rest = dict.fromkeys(text for text, verdict in verdicts if verdict is None)
        if verdicts and not rest:
            found.clear()
        found.append((way, " and ".join(rest)))
    return found or [(Way((), unknown(place, "no branch that is read gives it a value")), "")]


def holds(condition: Condition) -> bool | None:
    """Whether a condition holds; None where that is not known, or known only by a default that a command may change."""
    test, place = condition.guard.test, condition.place
    if test is None or place.depth > _MAX_TEST_DEPTH:
        return None
    key = (id(test), id(place.scope), *(id(frame.call.node) for frame in place.frames))
    if key not in place.budget.verdicts:
        place.budget.verdicts[key] = None
        value = evaluate(place._replace(node=test, guards=_outside(condition), chain=()))
        certain = isinstance(value, Value) and value.origin.kind == "written"
        place.budget.verdicts[key] = bool(value.value) if isinstance(value, Value) and certain else None
    verdict = place.budget.verdicts[key]
    return None if verdict is None else verdict is condition.guard.holds


def _outside(condition: Condition) -> tuple[Guard, ...]:
    """The guards around a test: those of its place without itself."""
    return tuple(guard for guard in condition.place.guards if guard.test is not condition.guard.test)


def options(value: Setting) -> tuple[Option, ...]:
    """The options of a choice; a single value is one option without a condition."""
    return value.options if isinstance(value, Choice) else (Option("", value),)


def joined(*conditions: str) -> str:
    """Conditions that hold together, as text."""
    return " and ".join(condition for condition in conditions if condition)


def combined(place: Place, found: list[Option]) -> Setting:
    """One value if all options agree, else the choice between them."""
    first = found[0].value
    values = [option.value.value for option in found if isinstance(option.value, Value)]
    if (
        len(found) == 1
        or not values
        or (len(values) == len(found) and all(_same(value, values[0]) for value in values))
    ):
        return first
    if len(found) > _MAX_OPTIONS:
        return unknown(place, f"more than {_MAX_OPTIONS} values are possible")
    guards = [option.guard for option in found]
    if len(set(guards)) < len(guards):
        return unknown(place, "several values reach it, and no condition tells them apart")
    return Choice(tuple(option if option.guard else option._replace(guard="otherwise") for option in found))


def _same(first: Plain, second: Plain) -> bool:
    """Equal and of one type: True is not 1."""
    return type(first) is type(second) and first == second


def _softened(value: Setting, way: Way) -> Setting:
    if not way.assumed or not isinstance(value, Value) or value.origin.kind != "written":
        return value
    return value._replace(origin=value.origin._replace(kind="assumed", note=way.assumed))


def _end(place: Place) -> Setting:
    """The value of an expression that names lead no further."""
    node = place.node
    if isinstance(node, ast.Constant):
        return _constant(place, node.value)
    if isinstance(node, ast.Name | ast.Attribute):
        return _reference(place, node)
    if isinstance(node, ast.BinOp):
        return _binary(place, node)
    if isinstance(node, ast.UnaryOp):
        return _unary(place, node)
    if isinstance(node, ast.BoolOp):
        return _boolean(place, node)
    if isinstance(node, ast.Compare):
        return _compare(place, node)
    if isinstance(node, ast.Tuple | ast.List):
        return _sequence(place, node)
    if isinstance(node, ast.Subscript):
        return _subscript(place, node)
    return call_value(place, node, evaluate)


def _constant(place: Place, value: object) -> Known:
    if value is None or isinstance(value, bool | int | float | str):
        return written(place, value)
    return unknown(place, "neither a number nor a word")


def _reference(place: Place, node: ast.AST) -> Setting:
    name = dotted(node)
    if name == "__name__":
        return written(place, "__main__" if place.module.name == place.program.entry else place.module.name)
    argument = command_line_argument(place, node)
    if argument is not None:
        return argument
    names = qualified(place.module, node, place.scope)
    if len(names) == 1 and _is_symbol(names[0]):
        return written(place, names[0])
    field = attribute_value(place, node, evaluate)
    return field or unknown(place, f"{name or place.module.text(node, 40)} is not given a value in the files read")


def _is_symbol(name: str) -> bool:
    """`torch.bfloat16`, `ShardingStrategy.FULL_SHARD`: a constant of a library, known by its name."""
    parts = name.split(".")
    if parts[0] == "torch" and len(parts) > 1:
        return True
    return len(parts) > 2 and parts[-1].isupper() and parts[-2][:1].isupper()


def _binary(place: Place, node: ast.BinOp) -> Setting:
    left, right = options(evaluate(place.inner(node.left))), options(evaluate(place.inner(node.right)))
    if len(left) * len(right) > _MAX_OPTIONS:
        return unknown(place, "it depends on several conditions")
    found = [
        Option(joined(a.guard, b.guard), calculated(place, node.op, a.value, b.value)) for a in left for b in right
    ]
    return combined(place, found)


def _unary(place: Place, node: ast.UnaryOp) -> Setting:
    inner = evaluate(place.inner(node.operand))
    if not isinstance(inner, Value):
        return inner._replace(means="") if isinstance(inner, Unknown) else unknown(place, "it depends on a condition")
    if isinstance(node.op, ast.Not):
        return computed(place, not inner.value, inner)
    if isinstance(node.op, ast.USub) and isinstance(inner.value, int | float):
        return computed(place, -inner.value, inner)
    return unknown(place, "computed when the script runs")


def _boolean(place: Place, node: ast.BoolOp) -> Setting:
    """`a or b`, `a and b`: the first operand that decides it."""
    decisive = isinstance(node.op, ast.Or)
    value: Setting = unknown(place, "computed when the script runs")
    open_operand: Unknown | None = None
    for operand in node.values:
        value = evaluate(place.inner(operand))
        if not isinstance(value, Value):
            open_operand = unknown(place, "it depends on a condition")
        elif bool(value.value) is decisive:
            return value if open_operand is None else _decided(value, open_operand)
    return open_operand or value


def _decided(value: Value, open_operand: Unknown) -> Setting:
    """`unknown and False` is false, `unknown or True` is true; another value behind an unknown one is not certain."""
    return value if isinstance(value.value, bool) else open_operand


def _compare(place: Place, node: ast.Compare) -> Setting:
    left, right = evaluate(place.inner(node.left)), evaluate(place.inner(node.comparators[0]))
    if len(node.ops) > 1 or not isinstance(left, Value) or not isinstance(right, Value):
        return unknown(place, "a comparison with something unknown")
    return compared(place, node.ops[0], left, right)


def _sequence(place: Place, node: ast.Tuple | ast.List) -> Setting:
    items: list[Plain] = []
    for element in node.elts:
        value = evaluate(place.inner(element))
        if not isinstance(value, Value):
            return unknown(place, "an item of it is not known")
        items.append(value.value)
    return written(place, tuple(items))


def _subscript(place: Place, node: ast.Subscript) -> Setting:
    """An item of a dict or list that is written out, an environment variable, or a member of an enumeration by name."""
    names = qualified(place.module, node.value, place.scope)
    if names == ("os.environ",):
        return environment_value(place, evaluate(place.inner(node.slice)), None)
    key = evaluate(place.inner(node.slice))
    if len(names) == 1 and any(_names_member(names[0], option) for option in options(key)):
        return combined(
            place, [Option(option.guard, _member(place, names[0], option.value)) for option in options(key)]
        )
    found = [
        Option(joined(condition, option.guard), _item(place, way.end, option.value))
        for way, condition in live_ways(place.inner(node.value))
        for option in options(key)
    ]
    return combined(place, found)


def _names_member(enumeration: str, option: Option) -> bool:
    return isinstance(option.value, Value) and _is_symbol(f"{enumeration}.{option.value.value}")


def _member(place: Place, enumeration: str, key: Known) -> Known:
    """`ShardingStrategy["FULL_SHARD"]`: the member, with the origin of its name."""
    if isinstance(key, Unknown):
        return key._replace(means="")
    return Value(f"{enumeration}.{key.value}", key.origin)


def _item(place: Place, holder: Place | Unknown, key: Known) -> Known:
    if isinstance(holder, Unknown):
        return holder
    if isinstance(key, Unknown):
        return key._replace(means="")
    for name, item in _items(holder):
        if _same(name, key.value):
            value = evaluate(holder.inner(item))
            return unknown(place, "it depends on a condition") if isinstance(value, Choice) else value
    return unknown(place, f"no item {key.value!r} is written out")


def _items(holder: Place) -> Iterator[tuple[Plain, ast.expr]]:
    node = holder.node
    if isinstance(node, ast.Tuple | ast.List):
        yield from enumerate(node.elts)
    elif isinstance(node, ast.Call) and dotted(node.func) == "dict":
        yield from ((keyword.arg, keyword.value) for keyword in node.keywords if keyword.arg)
    elif isinstance(node, ast.Dict):
        for key, item in zip(node.keys, node.values, strict=True):
            value = evaluate(holder.inner(key)) if key is not None else None
            if isinstance(value, Value):
                yield value.value, item
