"""Finds flags by which a front end's loop stops, set on some ranks only: parts of `code.divergences`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from itertools import islice

from dtlint.frameworks import Member
from dtlint.frameworks.code.agreeing import agreeing_word
from dtlint.frameworks.code.divergence import asks_clock, fields_of
from dtlint.frameworks.code.mentions import mentions
from dtlint.frameworks.code.partial_values import Partial, known_in_part
from dtlint.frameworks.code.ranks import is_alone, side_of
from dtlint.frameworks.code.reached import first_only
from dtlint.languages.python.bindings import dotted, enclosing_class
from dtlint.languages.python.callers import callers
from dtlint.languages.python.places import Budget, Place, place_of
from dtlint.languages.python.program import Definition, Program, imports_from
from dtlint.languages.python.reach import enclosing_function, stands
from dtlint.languages.python.tree import Guard, Module, Scope
from dtlint.record import NamedTuple
from dtlint.source import Span

_MAX_MEMBERS = 30
_MAX_LEVELS = 2
_MAX_CALLERS = 6
FLAGS: Mapping[str, tuple[str, ...]] = {
    "should_stop": ("lightning", "pytorch_lightning"),
    "should_training_stop": ("transformers",),
    "should_epoch_stop": ("transformers",),
}
"""Attributes that each rank's own loop asks, and the packages that have them: Lightning's Trainer
(loops/training_epoch_loop.py, `done`), the control of Transformers' Trainer (trainer.py, behind each step and each
epoch). Neither sends them to the other ranks.
"""
_OWNER = "trainer"
"""What Lightning's object is called that has the flag."""
_AGREES = re.compile(r"reduce|gather|broadcast|bcast|sync|agree|recv", re.IGNORECASE)
_SEVERAL = re.compile(r"ddp|fsdp|deepspeed|world_size|is_global_zero|rank_zero|process_zero", re.IGNORECASE)
"""Words of programs that know of several ranks."""


class _Cause(NamedTuple):
    """Why a statement runs on some ranks only, the condition, and what else is to be shown."""

    word: str
    condition: str
    related: tuple[tuple[Span, str], ...]


def stop_flags(program: Program) -> tuple[Member, ...]:
    """The statements that tell a front end's loop to stop on some ranks alone: by the rank itself, by the clock, or by
    what only some ranks know.
    """
    found = (member for module in program.modules.values() for member in _of_module(program, module))
    return tuple(islice(found, _MAX_MEMBERS))


def _of_module(program: Program, module: Module) -> Iterator[Member]:
    if not any(flag in module.source.text for flag in FLAGS):
        return
    for scope in module.scopes:
        for site in scope.sites:
            if isinstance(site.node, ast.Assign) and (flag := _flag(program, site.node)) is not None:
                member = _member(place_of(program, module, site), site.node, flag)
                yield from () if member is None or _is_agreed(module, scope, flag) else (member,)


def _flag(program: Program, node: ast.Assign) -> ast.Attribute | None:
    """The flag that a statement sets to anything but False."""
    target = node.targets[0] if len(node.targets) == 1 else None
    packages = FLAGS.get(target.attr, ()) if isinstance(target, ast.Attribute) else ()
    if not isinstance(target, ast.Attribute) or not any(imports_from(program, name) for name in packages):
        return None
    lowers = isinstance(node.value, ast.Constant) and not node.value.value
    owned = target.attr != "should_stop" or dotted(target.value).rpartition(".")[2] == _OWNER
    return target if owned and not lowers else None


def _member(place: Place, node: ast.Assign, flag: ast.Attribute) -> Member | None:
    cause = _cause(place, node)
    if cause is None or stands(place) is False:
        return None
    span = place.module.span(node)
    told = f"{dotted(flag)} = {place.module.text(node.value, 40)}"
    return Member(span, fields_of(span, told, cause.word, cause.condition), cause.related)


def _cause(place: Place, node: ast.Assign) -> _Cause | None:
    if any(is_alone(place, guard) for guard in place.guards):
        return None
    sided = _sided(place, _MAX_LEVELS) or _sided_value(place, node.value)
    if sided is not None:
        return _Cause("rank", sided.text, ((sided, "only some ranks pass here"),))
    tests = [guard.test for guard in place.guards if guard.test is not None]
    for test in (*tests, *(() if isinstance(node.value, ast.Constant) else (node.value,))):
        here = place._replace(node=test, guards=(), budget=Budget())
        partial = known_in_part(here)
        if partial is not None:
            return _of_partial(here, partial)
        if asks_clock(here, test) and mentions(place.program, _SEVERAL):
            return _Cause("clock", place.module.text(test, 60), ())
    return None


def _of_partial(test: Place, partial: Partial) -> _Cause:
    condition = test.module.text(test.node, 60)
    return _Cause(partial.cause, condition, ((partial.place, partial.label),))


def _sided(place: Place, levels: int) -> Span | None:
    """The condition, or the decorator, that lets some ranks alone come to a place, or to the calls that lead there."""
    guard = next((guard for guard in place.guards if guard.test is not None and _is_sided(place, guard)), None)
    if guard is not None and guard.test is not None:
        return place.module.span(guard.test)
    function = enclosing_function(place.scope)
    decorator = first_only(function) if function is not None else None
    if decorator is not None:
        return place.module.span(decorator)
    if function is None or not levels:
        return None
    calls = callers(place.program, Definition(place.module, function))
    outside = (place_of(place.program, module, site) for module, site in islice(calls, _MAX_CALLERS))
    found = [_sided(call, levels - 1) for call in outside]
    return found[0] if found and all(found) else None


def _sided_value(place: Place, value: ast.expr) -> Span | None:
    """The value, or the part of an `or`, that is true on some ranks alone: `trainer.is_global_zero and asked()`."""
    parts = value.values if isinstance(value, ast.BoolOp) and isinstance(value.op, ast.Or) else [value]
    found = (part for part in parts if _is_sided(place, Guard(part, True)))
    return next((place.module.span(part) for part in found), None)


def _is_sided(place: Place, guard: Guard) -> bool:
    return bool(side_of(place._replace(budget=Budget()), guard))


def _is_agreed(module: Module, scope: Scope, flag: ast.Attribute) -> bool:
    """Whether anything around lets the ranks agree on stopping: a call of that meaning in the function, or one in its
    class that is given the flag.
    """
    owner = enclosing_class(scope)
    for other in module.scopes:
        for site in other.sites:
            if isinstance(site.node, ast.Call) and _AGREES.search(agreeing_word(module, other, site.node)):
                named = flag.attr in module.text(site.node, 400)
                if other is scope or (named and enclosing_class(other) is owner):
                    return True
    return False
