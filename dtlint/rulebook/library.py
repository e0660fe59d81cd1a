"""The functions that rule expressions may call: besides + - * / // % the only arithmetic of rules."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import cast

from dtlint import interval
from dtlint.blanks import is_blank
from dtlint.interval import Interval
from dtlint.release import older, releases
from dtlint.rulebook.functions import FUNCTIONS, Scope, function
from dtlint.rulebook.operands import Operand, as_interval
from dtlint.value import Plain, Unknown

__all__ = ["FUNCTIONS"]


def _ranges(arguments: tuple[Operand, ...]) -> list[Interval] | None:
    ranges = [as_interval(argument) for argument in arguments]
    return None if None in ranges else cast("list[Interval]", ranges)


def _each(arguments: tuple[Operand, ...], join: Callable[[Interval, Interval], Interval]) -> Operand:
    ranges = _ranges(arguments)
    if ranges is None:
        return Unknown("an argument is not a number")
    joined = ranges[0]
    for other in ranges[1:]:
        joined = join(joined, other)
    return joined


def _lone(argument: Operand, apply: Callable[[Interval], Interval]) -> Operand:
    found = as_interval(argument)
    return Unknown("an argument is not a number") if found is None else interval.plain(apply(found))


def _points(arguments: tuple[Operand, ...]) -> list[float] | None:
    numbers = [one for one in arguments if isinstance(one, (int, float)) and not isinstance(one, bool)]
    return numbers if len(numbers) == len(arguments) else None


@function("min", "number, number, number... -> number", "range")
def smallest(*arguments: Operand) -> Operand:
    """The smallest of the arguments."""
    points = _points(arguments)
    return min(points) if points else _each(arguments, interval.smallest)


@function("max", "number, number, number... -> number", "range")
def largest(*arguments: Operand) -> Operand:
    """The largest of the arguments."""
    points = _points(arguments)
    return max(points) if points else _each(arguments, interval.largest)


@function("narrow", "number, number -> flag", "range")
def narrow(number: Operand, factor: Operand) -> Operand:
    """Whether the bounds of a number lie within a factor of each other, so that to name them tells something."""
    ranges = _ranges((number, factor))
    if ranges is None:
        return Unknown("an argument is not a number")
    bounds, most = ranges
    return bounds.high <= bounds.low * most.low


@function("abs", "number -> number", "range")
def absolute(argument: Operand) -> Operand:
    """The distance from 0."""
    return _lone(argument, interval.absolute)


@function("floor", "number -> number", "range")
def round_down(argument: Operand) -> Operand:
    """The next whole number at or below."""
    return _whole(argument, math.floor)


@function("ceil", "number -> number", "range")
def round_up(argument: Operand) -> Operand:
    """The next whole number at or above."""
    return _whole(argument, math.ceil)


def _whole(argument: Operand, towards: Callable[[float], int]) -> Operand:
    found = as_interval(argument)
    if found is None or not interval.finite(found):
        return Unknown("an argument is not a number")
    return interval.plain(interval.rising(towards, found))


@function("known", "any -> flag", "named")
def known(scope: Scope, name: str) -> Operand:
    """Whether the files, the user, a default or a derivation tell the setting or fact."""
    return scope.tells(name)


@function("written", "any -> flag", "named")
def written(scope: Scope, name: str) -> Operand:
    """Whether the setting stands in a file, as a fallback or an unknown word too, or was given by the user."""
    return scope.stands(name)


@function("default", "any -> flag", "named")
def by_default(scope: Scope, name: str) -> Operand:
    """Whether the setting has its value because nothing is written and the framework's default applies."""
    return scope.origin(name) == "default"


@function("origin", "any -> word", "named")
def origin(scope: Scope, name: str) -> Operand:
    """Where a setting came from: written, given, default, derived, assumed or unknown."""
    return scope.origin(name)


@function("divides", "number, number -> flag")
def divides(divisor: float, number: float) -> Operand:
    """Whether `number` is a whole multiple of `divisor`."""
    return Unknown("a division by zero") if divisor == 0 else number % divisor == 0


@function("lcm", "number, number... -> number")
def least_common_multiple(*numbers: float) -> Operand:
    """The least common multiple of whole numbers."""
    whole = _whole_numbers(numbers)
    return Unknown("lcm() takes whole numbers") if whole is None else math.lcm(*whole)


@function("gcd", "number, number... -> number")
def greatest_common_divisor(*numbers: float) -> Operand:
    """The greatest common divisor of whole numbers."""
    whole = _whole_numbers(numbers)
    return Unknown("gcd() takes whole numbers") if whole is None else math.gcd(*whole)


def _whole_numbers(numbers: tuple[float, ...]) -> list[int] | None:
    if all(math.isfinite(number) and number == int(number) for number in numbers):
        return [int(number) for number in numbers]
    return None


@function("multiple_above", "number, number -> number")
def multiple_above(number: float, base: float) -> Operand:
    """The smallest multiple of `base` that is at least `number`."""
    return math.ceil(number / base) * base if base > 0 else Unknown("a division by zero")


@function("multiple_below", "number, number -> number")
def multiple_below(number: float, base: float) -> Operand:
    """The largest multiple of `base` that is at most `number`."""
    return math.floor(number / base) * base if base > 0 else Unknown("a division by zero")


@function("nearest_multiple", "number, number -> number")
def nearest_multiple(number: float, base: float) -> Operand:
    """The multiple of `base` (at least one times `base`) that is nearest to `number`."""
    return max(1, math.floor(number / base + 0.5)) * base if base > 0 else Unknown("a division by zero")


@function("largest_divisor", "number, number -> number")
def largest_divisor(number: float, limit: float) -> Operand:
    """The largest whole divisor of `number` that is at most `limit`."""
    whole = _whole_numbers((number, math.floor(min(limit, 1_000_000))))
    if whole is None or whole[0] < 1 or whole[1] < 1:
        return Unknown("largest_divisor() takes positive whole numbers")
    return next(divisor for divisor in range(min(whole), 0, -1) if whole[0] % divisor == 0)


@function("before", "word, word -> flag")
def before(version: str, limit: str) -> Operand:
    """Whether a version is older than another, compared number by number (0.9 is before 0.10). Of a range (>=0.9,<0.12)
    every release has to be.
    """
    ours, theirs = releases(version), releases(limit)
    if ours is None or theirs is None:
        return Unknown(f"{version if ours is None else limit!r} is not a version")
    verdict = older(ours, theirs)
    return Unknown(f"of {version} some are before {limit}, some not") if verdict is None else verdict


@function("spans", "word, word -> flag")
def spans(version: str, limit: str) -> Operand:
    """Whether some releases of a range (>=0.9,<0.12) are before another version and some are not."""
    ours, theirs = releases(version), releases(limit)
    return ours is not None and theirs is not None and older(ours, theirs) is None


@function("starts_with", "word, word -> flag")
def starts_with(word: str, beginning: str) -> Operand:
    """Whether a word begins with another."""
    return word.startswith(beginning)


@function("length", "list -> number")
def length(items: tuple[Plain, ...]) -> Operand:
    """How many entries a list has."""
    return len(items)


@function("to_fill_in", "any -> flag")
def to_fill_in(value: Operand) -> Operand:
    """Whether a value is a word that stands for another in a template: `xxx`, `TODO`, `your_batch_size`."""
    return isinstance(value, str) and is_blank(value)


@function("variable", "word -> any", "scoped")
def variable(scope: Scope, name: str) -> Operand:
    """The value of an environment variable of the training processes, as a word; none where neither the launch nor the
    program sets it, nor a file that the launcher exports.
    """
    found = scope.read("communication.env")
    if isinstance(found, Unknown):
        return found
    pairs = found if isinstance(found, tuple) else ()
    told = next((pair[1] for pair in pairs if isinstance(pair, tuple) and len(pair) == 2 and pair[0] == name), None)
    return told if told is not None else scope.environment(name)


@function("microbatches_for_bubble", "number -> number", "scoped")
def microbatches_for_bubble(scope: Scope, share: float) -> Operand:
    """The fewest micro-batches with which a 1F1B or interleaved pipeline idles at most `share` (0 to 1) of the step.

    From (P-1) / (v M + P-1) <= s: M >= (P-1) (1-s) / (s v), with P stages of v chunks (Narayanan et al., SC21,
    section 2.2).
    """
    stages, chunks = scope.read("parallel.pipeline"), scope.read("parallel.virtual_pipeline")
    if isinstance(chunks, Unknown):
        chunks = 1
    if not isinstance(stages, (int, float)) or not isinstance(chunks, (int, float)) or not 0 < share < 1 or chunks < 1:
        return stages if isinstance(stages, Unknown) else Unknown("a share between 0 and 1 is needed")
    return max(1, math.ceil((stages - 1) * (1 - share) / (share * chunks) - 1e-9))


@function("divisors_text", "number -> word")
def divisors_text(number: float) -> Operand:
    """The powers of two that divide a whole number, and the number itself, for a sentence: `1, 2, 4, 6`."""
    whole = _whole_numbers((number,))
    if whole is None or whole[0] < 1:
        return Unknown("divisors_text() takes a positive whole number")
    powers = [2**exponent for exponent in range(8) if whole[0] % 2**exponent == 0]
    return ", ".join(map(str, dict.fromkeys([*powers, whole[0]])))
