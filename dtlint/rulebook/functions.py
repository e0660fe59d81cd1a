"""How functions of rule expressions are registered, typed and called; library.py has the functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol, cast

from dtlint import interval
from dtlint.interval import Interval
from dtlint.record import NamedTuple
from dtlint.rulebook.operands import Operand
from dtlint.value import Unknown

Type = Literal["flag", "number", "word", "list", "nothing", "any"]
"""What an expression can be; `any` is decided only when it is evaluated."""


class Scope(Protocol):
    """Where an expression finds what its names mean. A scope may note what was read."""

    def read(self, name: str) -> Operand:
        """The value of a setting, fact, limit, or field of the member under check."""

    def tells(self, name: str) -> bool:
        """Whether the value is known."""

    def origin(self, name: str) -> str:
        """Where the value of a setting came from: written, given, default, derived, assumed or unknown."""

    def stands(self, name: str) -> bool:
        """Whether a setting stands in a file, be it as a word that is not known, or was given by the user."""

    def environment(self, name: str) -> str | None:
        """What a program, or a file that the launcher exports, sets a variable to; None where neither does."""


Manner = Literal["known", "range", "scoped", "named"]
"""How a function takes its arguments: `known` values only; numbers that may be a `range`; `scoped`: the scope first,
then known values; `named`: the scope, then the names of settings unevaluated."""


class Function(NamedTuple):
    """A function of expressions. `more` is the type of any number of further arguments, None where there are none."""

    name: str
    signature: str
    parameters: tuple[Type, ...]
    more: Type | None
    result: Type
    manner: Manner
    call: Callable[..., Operand]


FUNCTIONS: dict[str, Function] = {}


def function(
    name: str, signature: str, manner: Manner = "known"
) -> Callable[[Callable[..., Operand]], Callable[..., Operand]]:
    """Register a function under `name`; `signature` gives its types as `number, number... -> flag`."""

    def register(call: Callable[..., Operand]) -> Callable[..., Operand]:
        taken, _, result = signature.partition(" -> ")
        words = [word.strip() for word in taken.split(",")]
        fixed = tuple(cast("Type", word) for word in words if not word.endswith("..."))
        more = next((cast("Type", word[:-3]) for word in words if word.endswith("...")), None)
        FUNCTIONS[name] = Function(name, signature, fixed, more, cast("Type", result), manner, call)
        return call

    return register


def invoke(found: Function, scope: Scope, arguments: tuple[Operand, ...]) -> Operand:
    """The function's value: Unknown if any argument is, or if it takes no ranges and one is given."""
    for argument in arguments:
        if isinstance(argument, Unknown):
            return argument
    if found.manner == "range":
        return found.call(*arguments)
    settled = tuple(interval.plain(part) if isinstance(part, Interval) else part for part in arguments)
    if any(isinstance(part, Interval) for part in settled):
        return Unknown(f"{found.name}() needs one number, not a range")
    misfit = _misfit(found, settled)
    if misfit is not None:
        return misfit
    try:
        return found.call(scope, *settled) if found.manner == "scoped" else found.call(*settled)
    except (ArithmeticError, ValueError):
        return Unknown(f"{found.name}() has no value here")


def _misfit(found: Function, arguments: tuple[Operand, ...]) -> Unknown | None:
    types = (*found.parameters, *(found.more or "any" for _ in arguments[len(found.parameters) :]))
    for type_, argument in zip(types, arguments, strict=True):
        if type_ not in ("any", type_of(argument)):
            return Unknown(f"{found.name}() takes a {type_} where it was given a {type_of(argument)}")
    return None


def type_of(value: Operand) -> Type:
    """The type of a known value."""
    if isinstance(value, bool):
        return "flag"
    if isinstance(value, (int, float, Interval)):
        return "number"
    if isinstance(value, str):
        return "word"
    return "nothing" if value is None else "list"
