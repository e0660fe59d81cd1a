"""Numbers known only to lie between two bounds: the arithmetic of estimates and facts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from dtlint.record import NamedTuple


class Interval(NamedTuple):
    """All numbers from `low` to `high`, both included; the unit is that of the quantity it stands for."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        """The number half-way between the bounds."""
        return self.low if self.low == self.high else (self.low + self.high) / 2

    @property
    def exact(self) -> bool:
        """Whether the interval holds one number only."""
        return self.low == self.high


def point(number: float) -> Interval:
    """The interval that holds `number` alone."""
    return Interval(number, number)


def hull(numbers: Iterable[float]) -> Interval:
    """The smallest interval that holds all `numbers` (at least one)."""
    known = list(numbers)
    return Interval(min(known), max(known))


def plain(interval: Interval) -> float | Interval:
    """The number itself where the bounds agree, else the interval."""
    return interval.low if interval.low == interval.high else interval


def add(first: Interval, second: Interval) -> Interval:
    """Every sum of a number of `first` and one of `second`."""
    return Interval(first.low + second.low, first.high + second.high)


def subtract(first: Interval, second: Interval) -> Interval:
    """Every difference of a number of `first` and one of `second`, as if the two were independent."""
    return Interval(first.low - second.high, first.high - second.low)


def multiply(first: Interval, second: Interval) -> Interval:
    """Every product of a number of `first` and one of `second`."""
    return hull(_product(one, other) for one in first for other in second)


def scale(interval: Interval, factor: float) -> Interval:
    """Every number of `interval` times `factor`."""
    return multiply(interval, point(factor))


def divide(first: Interval, second: Interval) -> Interval | None:
    """Every quotient of a number of `first` and one of `second`; None where `second` holds 0."""
    if second.low <= 0 <= second.high:
        return None
    return hull(one / other for one in first for other in second)


def largest(first: Interval, second: Interval) -> Interval:
    """Every maximum of a number of `first` and one of `second`."""
    return Interval(max(first.low, second.low), max(first.high, second.high))


def smallest(first: Interval, second: Interval) -> Interval:
    """Every minimum of a number of `first` and one of `second`."""
    return Interval(min(first.low, second.low), min(first.high, second.high))


def absolute(interval: Interval) -> Interval:
    """The distance from 0 of every number of `interval`."""
    if interval.low <= 0 <= interval.high:
        return Interval(0, max(-interval.low, interval.high))
    return hull(abs(bound) for bound in interval)


def rising(function: Callable[[float], float], interval: Interval) -> Interval:
    """The values of a function that never falls (floor, ceil, square root) over `interval`."""
    return Interval(function(interval.low), function(interval.high))


def below(first: Interval, second: Interval) -> bool | None:
    """Whether first < second: None where it depends on which numbers of the two are meant."""
    if first.high < second.low:
        return True
    return False if first.low >= second.high else None


def equal(first: Interval, second: Interval) -> bool | None:
    """Whether first == second: None where it depends on which numbers of the two are meant."""
    if first.exact and second.exact:
        return first.low == second.low
    return False if first.high < second.low or second.high < first.low else None


def finite(interval: Interval) -> bool:
    """Whether both bounds are numbers (not infinite, not NaN)."""
    return math.isfinite(interval.low) and math.isfinite(interval.high)


def _product(one: float, other: float) -> float:
    return 0 if one == 0 or other == 0 else one * other
