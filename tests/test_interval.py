"""Interval arithmetic holds every result of the numbers that intervals stand for."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtlint import interval
from dtlint.interval import Interval

numbers = st.floats(-1e6, 1e6, allow_nan=False)


@st.composite
def intervals(draw: st.DrawFn) -> tuple[Interval, float]:
    """An interval and a number in it."""
    low, high = sorted((draw(numbers) + 0.0, draw(numbers) + 0.0))
    return Interval(low, high), draw(st.floats(low, high))


def quotients(one: Interval, other: Interval) -> Interval:
    return interval.divide(one, other) or Interval(-math.inf, math.inf)


@pytest.mark.parametrize(
    ("ranges", "points"),
    [
        (interval.add, lambda one, other: one + other),
        (interval.subtract, lambda one, other: one - other),
        (interval.multiply, lambda one, other: one * other),
        (interval.largest, max),
        (interval.smallest, min),
        (quotients, lambda one, other: one / other if other else 0.0),
    ],
)
@given(intervals(), intervals())
def test_an_operation_on_ranges_holds_that_on_their_numbers(
    ranges: Callable[[Interval, Interval], Interval],
    points: Callable[[float, float], float],
    first: tuple[Interval, float],
    second: tuple[Interval, float],
) -> None:
    found, exact = ranges(first[0], second[0]), points(first[1], second[1])
    slack = 1e-9 * max(1.0, abs(exact))
    assert found.low - slack <= exact <= found.high + slack


@given(intervals(), intervals())
def test_a_verdict_on_ranges_is_that_on_their_numbers(
    first: tuple[Interval, float], second: tuple[Interval, float]
) -> None:
    below, equal = interval.below(first[0], second[0]), interval.equal(first[0], second[0])
    assert below in (None, first[1] < second[1])
    assert equal in (None, first[1] == second[1])


@given(intervals())
def test_the_distance_from_zero_is_never_negative(given_: tuple[Interval, float]) -> None:
    found = interval.absolute(given_[0])
    assert 0 <= found.low <= abs(given_[1]) <= found.high


def test_a_range_that_holds_zero_divides_nothing() -> None:
    assert interval.divide(Interval(1, 2), Interval(-1, 1)) is None


def test_a_range_of_one_number_is_that_number() -> None:
    assert interval.plain(interval.point(3)) == 3
    assert interval.plain(Interval(1, 2)) == Interval(1, 2)
    assert interval.hull([2, 1, 3]) == Interval(1, 3)
    assert Interval(1, 2).middle == 1.5
