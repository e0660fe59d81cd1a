"""Choices between values under conditions: what follows from several, and where they agree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import prod

from dtlint.languages.python.arithmetic import Known
from dtlint.languages.python.places import Place, unknown
from dtlint.value import Choice, Option, Plain, Setting, Unknown, Value

LEFT_OUT = "left out"
"""Reason of the Unknown that stands for an argument that is not passed, in a choice where other branches pass it."""

_MAX_OPTIONS = 8
_MAX_COMBINATIONS = 64


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
    if len(found) == 1 or not values or (len(values) == len(found) and all(same(value, values[0]) for value in values)):
        return first
    if len(found) > _MAX_OPTIONS:
        return unknown(place, f"more than {_MAX_OPTIONS} values are possible")
    guards = [option.guard for option in found]
    if len(set(guards)) < len(guards):
        return unknown(place, "several values reach it, and no condition tells them apart")
    return Choice(tuple(option if option.guard else option._replace(guard="otherwise") for option in found))


def same(first: Plain, second: Plain) -> bool:
    """Equal and of one type: True is not 1."""
    return type(first) is type(second) and first == second


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
