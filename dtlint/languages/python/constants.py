"""Evaluates an expression to a value with its origin, to a choice under conditions, or to Unknown; nothing is run."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dtlint.languages.python.arithmetic import Known, as_sure_as, written
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.choices import LEFT_OUT, combined, joined, options
from dtlint.languages.python.class_constants import holding_class
from dtlint.languages.python.devices import device_type
from dtlint.languages.python.dicts import Passed
from dtlint.languages.python.documents import document_value
from dtlint.languages.python.following import ways
from dtlint.languages.python.handed_on import FILLED, handed_on, inherited, may_be_inherited
from dtlint.languages.python.instances import foreign_bases, members
from dtlint.languages.python.library import call_value
from dtlint.languages.python.names import qualified
from dtlint.languages.python.narrowing import admitted, replaced
from dtlint.languages.python.objects import attribute_value, command_line_argument, entry_argument
from dtlint.languages.python.operations import binary, boolean, compare, formatted, unary
from dtlint.languages.python.places import Condition, Place, Way, guard_text, unknown
from dtlint.languages.python.program import declared_argument, definition, is_entry
from dtlint.languages.python.shares import is_shared_out
from dtlint.languages.python.tree import Guard
from dtlint.value import Option, Setting, Unknown, Value

_MAX_TEST_DEPTH = 12


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
        later = worth[index + 1 :]
        if any(replaced(place, way, value) for way, _, _ in later):
            doubt = value if isinstance(value, Value) else doubt
            continue
        if any(is_shared_out(value, way, share, evaluate) for way, _, share in later):
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


def _softened(value: Setting, way: Way) -> Setting:
    if not way.assumed or not isinstance(value, Value) or value.origin.kind != "written":
        return value
    return value._replace(origin=value.origin._replace(kind="assumed", note=way.assumed))


def _end(place: Place) -> Setting:
    """The value of an expression that names lead no further."""
    from dtlint.languages.python.items import looked_up, sequence, subscript

    node = place.node
    if isinstance(node, ast.Constant):
        return _constant(place, node.value)
    if isinstance(node, ast.Name | ast.Attribute):
        return combined(place, admitted(place, list(options(_reference(place, node)))))
    if isinstance(node, ast.BinOp):
        return binary(place, node, evaluate)
    if isinstance(node, ast.UnaryOp):
        return unary(place, node, evaluate)
    if isinstance(node, ast.BoolOp):
        return boolean(place, node, evaluate)
    if isinstance(node, ast.Compare):
        return compare(place, node, evaluate)
    if isinstance(node, ast.Tuple | ast.List):
        return sequence(place, node)
    if isinstance(node, ast.Subscript):
        return subscript(place, node)
    if isinstance(node, ast.JoinedStr):
        return formatted(place, node, evaluate)
    found = looked_up(place, node) if isinstance(node, ast.Call) else None
    return found or call_value(place, node, evaluate)


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
    if len(names) == 1 and is_symbol(names[0]) and not _is_held_by_a_class(place, node):
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


def _is_held_by_a_class(place: Place, node: ast.AST) -> bool:
    """Whether a class of the program, no enumeration, holds a value under that name."""
    return isinstance(node, ast.Attribute) and holding_class(place, node) is not None


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


def is_symbol(name: str) -> bool:
    """`torch.bfloat16`, `ShardingStrategy.FULL_SHARD`: a constant of a library, known by its name."""
    parts = name.split(".")
    if parts[0] == "torch" and len(parts) > 1:
        return True
    return len(parts) > 2 and parts[-1].isupper() and parts[-2][:1].isupper()
