"""Evaluates an expression to a value with its origin, to a choice under conditions, or to Unknown; nothing is run."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from math import prod

from dtlint.languages.python.arithmetic import Known, as_sure_as, calculated, compared, computed, written
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.devices import device_type
from dtlint.languages.python.dicts import Passed, changed_on_the_way, is_changed, unpacked_dict
from dtlint.languages.python.documents import document_value
from dtlint.languages.python.following import ways
from dtlint.languages.python.grown import grown_items
from dtlint.languages.python.handed_on import FILLED, handed_on, inherited, may_be_inherited
from dtlint.languages.python.instances import foreign_bases, members
from dtlint.languages.python.library import call_value, environment_value
from dtlint.languages.python.names import qualified
from dtlint.languages.python.narrowing import admitted, replaced
from dtlint.languages.python.objects import attribute_value, command_line_argument, entry_argument, rest_argument
from dtlint.languages.python.places import Condition, Place, Way, conditions_at, guard_text, unknown
from dtlint.languages.python.program import declared_argument, definition, is_entry
from dtlint.languages.python.tree import Guard, Module
from dtlint.value import Choice, Option, Plain, Setting, Unknown, Value

LEFT_OUT = "left out"
"""Reason of the Unknown that stands for an argument that is not passed, in a choice where other branches pass it."""

_MAX_TEST_DEPTH = 12
_MAX_OPTIONS = 8
_MAX_COMBINATIONS = 64


def evaluate(place: Place) -> Setting:
    """What the expression at `place` is worth. Something of a library is its dotted name (`torch.bfloat16`)."""
    return _settled(place, live_ways(place))


def _settled(place: Place, live: list[tuple[Way, str]]) -> Setting:
    worth = [
        (way, condition, _softened(way.end if isinstance(way.end, Unknown) else _end(way.end), way))
        for way, condition in live
    ]
    found: list[Option] = []
    doubt: Value | None = None
    for index, (_, condition, value) in enumerate(worth):
        if any(replaced(place, way, value) for way, _, _ in worth[index + 1 :]):
            doubt = value if isinstance(value, Value) else doubt
            continue
        sure = as_sure_as(value, doubt) if doubt is not None else value
        found.extend(Option(joined(condition, option.guard), option.value) for option in options(sure))
    return combined(place, admitted(place, found))


def live_ways(place: Place) -> list[tuple[Way, str]]:
    """The ways whose conditions do not certainly fail, each with the text of what stays open.

    A way that is certain hides those before it.
    """
    return _live(place, ways(place))


def _live(place: Place, reached: Iterable[Way]) -> list[tuple[Way, str]]:
    found: list[tuple[Way, str]] = []
    for way in reached:
        rest = undecided(way.conditions)
        if rest is None:
            continue
        if way.conditions and not rest:
            found.clear()
        found.append((way, " and ".join(dict.fromkeys(condition.text for condition in rest))))
    return found or [(Way((), unknown(place, "no branch that is read gives it a value")), "")]


def undecided(conditions: Iterable[Condition]) -> list[Condition] | None:
    """The conditions that stay open; None where one of them certainly fails."""
    found: list[Condition] = []
    for condition in conditions:
        verdict = holds(condition)
        if verdict is False:
            return None
        if verdict is None:
            found.append(condition)
    return found


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
        return combined(place, admitted(place, list(options(_reference(place, node)))))
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
    if isinstance(node, ast.JoinedStr):
        return _formatted(place, node)
    looked_up = _looked_up(place, node) if isinstance(node, ast.Call) else None
    return looked_up or call_value(place, node, evaluate)


def _formatted(place: Place, node: ast.JoinedStr) -> Setting:
    """`f"{prefix}.dp"` of words and whole numbers."""
    if any(isinstance(part, ast.FormattedValue) and (part.format_spec or part.conversion >= 0) for part in node.values):
        return unknown(place, "a text that is made when the script runs")
    parts = [part.value if isinstance(part, ast.FormattedValue) else part for part in node.values]
    return over(place, [evaluate(place.inner(part)) for part in parts], lambda known: _text(place, known))


def _text(place: Place, parts: list[Known]) -> Known:
    known = [part for part in parts if isinstance(part, Value) and isinstance(part.value, str | int)]
    if len(known) < len(parts):
        return unknown(place, "a text that is made when the script runs")
    return computed(place, "".join(str(part.value) for part in known), *known)


def merged(place: Place, found: tuple[Passed, ...]) -> Setting:
    """The value of an argument or item that several statements may set, each under its conditions."""
    several: list[Option] = []
    for item in found:
        condition = joined(*(guard_text(item.place.module, guard) for guard in item.guards))
        inner = options(evaluate(item.place))
        several.extend(Option(joined(condition, option.guard), option.value) for option in inner)
    if all(item.guards for item in found):
        several.append(Option("otherwise", Unknown(LEFT_OUT)))
    return combined(place, several)


def _looked_up(place: Place, node: ast.Call) -> Setting | None:
    """`options.get("key", default)` of a dict that is written out; None for any other call."""
    if not isinstance(node.func, ast.Attribute) or node.func.attr not in ("get", "pop") or not 1 <= len(node.args) <= 2:
        return None
    key = evaluate(place.inner(node.args[0]))
    if not isinstance(key, Value) or not isinstance(key.value, str | int):
        return None
    if qualified(place.module, node.func, place.scope) == ("os.environ.get",):
        return None
    item = ast.copy_location(ast.Subscript(node.func.value, ast.Constant(key.value), ast.Load()), node)
    in_file = document_value(place.at(item), item, evaluate)
    if in_file is not None:
        return in_file
    items = unpacked_dict(place.inner(node.func.value))
    if items is None:
        return _unless_set(place, evaluate(place.inner(node.args[1])), key) if len(node.args) > 1 else None
    found = items.get(str(key.value), ())
    if found and not all(item.guards for item in found):
        return merged(place, found)
    default = evaluate(place.inner(node.args[1])) if len(node.args) > 1 else written(place, None)
    if not found:
        return default
    several = [
        *options(merged(place, found))[:-1],
        *(option._replace(guard="otherwise") for option in options(default)),
    ]
    return combined(place, several)


def _unless_set(place: Place, default: Setting, key: Value) -> Setting:
    """The default of a look-up in a configuration that the files do not tell: only assumed."""
    if not isinstance(default, Value):
        return default
    note = f"the configuration may set {key.value}"
    return default._replace(origin=default.origin._replace(kind="assumed", note=note))


def _constant(place: Place, value: object) -> Known:
    if value is None or isinstance(value, bool | int | float | str):
        return written(place, value)
    return unknown(place, "neither a number nor a word")


def _reference(place: Place, node: ast.AST) -> Setting:
    name = dotted(node)
    if name == "__name__":
        return written(place, "__main__" if is_entry(place.program, place.module) else place.module.name)
    setting = handed_on(place.scope, node)
    if setting:
        return unknown(place, f"{name} {FILLED}", setting)
    argument = command_line_argument(place, node) or entry_argument(place, node)
    if argument is not None:
        return argument
    names = qualified(place.module, node, place.scope)
    if len(names) == 1 and _is_symbol(names[0]):
        return written(place, names[0])
    if isinstance(node, ast.Attribute) and node.attr == "value" and (member := _enumerated(place, node.value)):
        return member
    if isinstance(node, ast.Attribute) and (device := device_type(place, node, evaluate)):
        return device
    held = members(place, node) if isinstance(node, ast.Attribute) and _may_be_given(place, node) else []
    field = _settled(place, _live(place, held)) if held else attribute_value(place, node, evaluate)
    if field is None:
        field = document_value(place, node, evaluate)
    if field is None and isinstance(node, ast.Attribute):
        setting = inherited(node, foreign_bases(place.inner(node.value)) if may_be_inherited(node.attr) else ())
        field = unknown(place, f"{name} {FILLED}", setting) if setting else None
    return field or unknown(place, f"{name or place.module.text(node, 40)} is not given a value in the files read")


def _may_be_given(place: Place, node: ast.Attribute) -> bool:
    return declared_argument(place.program, node.attr) is not None


def _enumerated(place: Place, node: ast.expr) -> Setting | None:
    """The value of a member of an enumeration that the program defines (`Axis.DATA.value`)."""
    names = qualified(place.module, node, place.scope)
    owner_name, _, member = names[0].rpartition(".") if len(names) == 1 else ("", "", "")
    owner = definition(place.program, place.module, owner_name) if owner_name else None
    if owner is None or not isinstance(owner.scope.node, ast.ClassDef):
        return None
    given = [binding.node for binding in owner.scope.bindings.get(member, ())]
    if len(given) != 1 or given[0] is None or not any(dotted(base).endswith("Enum") for base in owner.scope.node.bases):
        return None
    return evaluate(place._replace(module=owner.module, scope=owner.scope, node=given[0], guards=(), frames=()))


def _is_symbol(name: str) -> bool:
    """`torch.bfloat16`, `ShardingStrategy.FULL_SHARD`: a constant of a library, known by its name."""
    parts = name.split(".")
    if parts[0] == "torch" and len(parts) > 1:
        return True
    return len(parts) > 2 and parts[-1].isupper() and parts[-2][:1].isupper()


def over(place: Place, values: Sequence[Setting], compute: Callable[[list[Known]], Setting]) -> Setting:
    """What follows from values of which some are choices: computed for each combination that can occur."""
    found: list[Option] = []
    for combination in _combinations(values):
        guard = joined(*dict.fromkeys(option.guard for option in combination))
        inner = compute([option.value for option in combination])
        found.extend(Option(joined(guard, option.guard), option.value) for option in options(inner))
        if len(found) > _MAX_OPTIONS:
            return unknown(place, "it depends on several conditions")
    return combined(place, found)


def _combinations(values: Sequence[Setting]) -> Iterator[tuple[Option, ...]]:
    """Options that can hold together: choices under the same conditions go hand in hand."""
    choices = {tuple(option.guard for option in options(value)): None for value in values}
    if prod(len(guards) for guards in choices) > _MAX_COMBINATIONS:
        yield (Option("", Unknown("it depends on several conditions")),) * len(values)
        return
    for picked in product(*(range(len(guards)) for guards in choices)):
        indices = dict(zip(choices, picked, strict=True))
        combination = tuple(
            options(value)[indices[tuple(option.guard for option in options(value))]] for value in values
        )
        if not _excluded({option.guard for option in combination}):
            yield combination


def _excluded(guards: set[str]) -> bool:
    """Whether conditions contradict each other in so many words."""
    parts = {part for guard in guards for part in (guard, *guard.split(" and "))}
    return any(f"not ({part})" in parts for part in parts)


def _binary(place: Place, node: ast.BinOp) -> Setting:
    sides = [evaluate(place.inner(node.left)), evaluate(place.inner(node.right))]
    return over(place, sides, lambda known: calculated(place, node.op, known[0], known[1]))


def _unary(place: Place, node: ast.UnaryOp) -> Setting:
    return over(place, [evaluate(place.inner(node.operand))], lambda known: _negated(place, node.op, known[0]))


def _negated(place: Place, operation: ast.unaryop, inner: Known) -> Known:
    if isinstance(inner, Unknown):
        return inner._replace(means="")
    if isinstance(operation, ast.Not):
        return computed(place, not inner.value, inner)
    if isinstance(operation, ast.USub) and isinstance(inner.value, int | float):
        return computed(place, -inner.value, inner)
    return unknown(place, "computed when the script runs")


def _boolean(place: Place, node: ast.BoolOp) -> Setting:
    """`a or b`, `a and b`: the first operand that decides it."""
    decisive = isinstance(node.op, ast.Or)
    values: list[Setting] = []
    for operand in node.values:
        value = evaluate(place.inner(operand))
        values.append(value)
        if isinstance(value, Value) and bool(value.value) is decisive:
            break
    return over(place, values, lambda known: _decided(known, decisive))


def _decided(values: list[Known], decisive: bool) -> Known:
    """`unknown and False` is false, `unknown or True` is true; another value behind an unknown one is not certain.

    A count of the cluster is not zero: `device_count() or 1` is the count.
    """
    open_operand: Unknown | None = None
    for value in values:
        if isinstance(value, Unknown) and value.means and open_operand is None:
            if decisive:
                return value
        elif isinstance(value, Unknown):
            open_operand = open_operand or value._replace(means="")
        elif bool(value.value) is decisive:
            return value if open_operand is None or isinstance(value.value, bool) else open_operand
    return open_operand or values[-1]


def _compare(place: Place, node: ast.Compare) -> Setting:
    if len(node.ops) > 1:
        return unknown(place, "a comparison of several values")
    sides = [evaluate(place.inner(node.left)), evaluate(place.inner(node.comparators[0]))]
    return over(place, sides, lambda known: _compared(place, node.ops[0], known[0], known[1]))


def _compared(place: Place, comparison: ast.cmpop, left: Known, right: Known) -> Known:
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return unknown(place, "a comparison with something unknown")
    return compared(place, comparison, left, right)


def _sequence(place: Place, node: ast.Tuple | ast.List) -> Setting:
    if isinstance(node, ast.Tuple):
        return over(place, [evaluate(place.inner(element)) for element in node.elts], lambda known: _row(place, known))
    items = grown_items(place)
    if items is None:
        return unknown(place, "the list is changed on the way")
    return over(place, [_item_under_conditions(item) for item in items], lambda known: _row(place, known))


def _item_under_conditions(item: Passed) -> Setting:
    """An item of a list, and LEFT_OUT where a condition around the statement that adds it fails."""
    value = evaluate(item.place)
    if not item.guards:
        return value
    verdicts = [holds(condition) for condition in conditions_at(item.place, item.guards)]
    left_out = Unknown(LEFT_OUT)
    if False in verdicts:
        return left_out
    guards = [guard for guard, verdict in zip(item.guards, verdicts, strict=True) if verdict is None]
    if not guards:
        return value
    condition = joined(*(guard_text(item.place.module, guard) for guard in guards))
    several = [Option(joined(condition, option.guard), option.value) for option in options(value)]
    return Choice((*several, Option(_denied(item.place.module, guards), left_out)))


def _denied(module: Module, guards: Sequence[Guard]) -> str:
    """The text of the opposite of conditions that hold together."""
    if len(guards) == 1:
        return guard_text(module, guards[0]._replace(holds=not guards[0].holds))
    return f"not ({' and '.join(guard_text(module, guard) for guard in guards)})"


def _row(place: Place, items: list[Known]) -> Known:
    there = [item for item in items if not isinstance(item, Unknown) or item.reason != LEFT_OUT]
    values = [item for item in there if isinstance(item, Value)]
    if len(values) < len(there):
        return unknown(place, "an item of it is not known")
    return computed(place, tuple(value.value for value in values), *values)


def _subscript(place: Place, node: ast.Subscript) -> Setting:
    """An item of a dict or list that is written out, an environment variable, or a member of an enumeration by name."""
    names = qualified(place.module, node.value, place.scope)
    if names == ("os.environ",):
        return environment_value(place, evaluate(place.inner(node.slice)), None)
    in_file = document_value(place, node, evaluate)
    if in_file is not None:
        return in_file
    key = evaluate(place.inner(node.slice))
    if len(names) == 1 and any(_names_member(names[0], option) for option in options(key)):
        return combined(
            place, [Option(option.guard, _member(place, names[0], option.value)) for option in options(key)]
        )
    holder = place.inner(node.value)
    if isinstance(key, Value) and isinstance(key.value, str):
        items = unpacked_dict(holder)
        if items is not None and key.value in items:
            return as_sure_as(merged(place, items[key.value]), key)
        told = rest_argument(place, node.value, key.value)
        if told is not None:
            return told
        if items is None and is_changed(holder):
            return unknown(place, f"{dotted(node.value)} is changed on the way")
    found = [
        Option(joined(condition, option.guard), _item(place, _as_written(holder, way.end), option.value))
        for way, condition in live_ways(holder)
        for option in options(key)
    ]
    return combined(place, found)


def _as_written(holder: Place, end: Place | Unknown) -> Place | Unknown:
    """A dict or list as it is written, unless something is done to it on the way."""
    if isinstance(end, Place) and changed_on_the_way(holder, end):
        return unknown(holder, f"{dotted(holder.node)} is changed on the way")
    return end


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
            sure = as_sure_as(value, key)
            return unknown(place, "it depends on a condition") if isinstance(sure, Choice) else sure
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
