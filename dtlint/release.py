"""Releases of a package: one (`0.19.3`) or a range of them (`>=0.9,<0.12`), compared number by number."""

from __future__ import annotations

import re

from dtlint.record import NamedTuple

Numbers = tuple[int, ...]

_CLAUSE = r"(===?|~=|>=|<=|>|<|!=|=|\^|~)?\s*v?(\d+(?:\.\d+)*)(?!\.?\d)(\.\*)?([^\s,]*)"
_MOST_CLAUSES = 8


class Releases(NamedTuple):
    """The releases from `low` on up to `high` (None: no end), which belongs to them if `closed`.

    Numbers without zeros at the end: 0.9 and 0.9.0 are one release, as are 0.19.3rc1 and 0.19.3.
    """

    low: Numbers = ()
    high: Numbers | None = None
    closed: bool = False

    @property
    def exact(self) -> bool:
        """Whether it is one release."""
        return self.closed and self.low == self.high


def releases(text: str) -> Releases | None:
    """What a version or a specifier means: `0.9.5`, `>=0.9,<0.12`, `~=2.1`, `2.1.*`, `^1.2`, and conda's `=2.1`.

    A release that is excluded (`!=0.9.1`) does not narrow the range. None for a text of another form.
    """
    found = Releases()
    for clause in text.split(",")[:_MOST_CLAUSES]:
        match = re.fullmatch(_CLAUSE, clause.strip())
        if match is None:
            return None
        narrowed = both(found, _clause(match[1] or "==", match[2], bool(match[3])))
        if narrowed is None:
            return None
        found = narrowed
    return found


def both(one: Releases, other: Releases) -> Releases | None:
    """The releases that belong to both, None if there are none."""
    low = max(one.low, other.low)
    ends = [(each.high, each.closed) for each in (one, other) if each.high is not None]
    high, closed = min(ends) if ends else (None, False)
    if high is not None and (low > high or (low == high and not closed)):
        return None
    return Releases(low, high, closed)


def around(one: Releases, other: Releases) -> Releases:
    """The releases from the oldest to the newest of both."""
    ends = [(each.high, each.closed) for each in (one, other) if each.high is not None]
    high, closed = max(ends) if len(ends) == len((one, other)) else (None, False)
    return Releases(min(one.low, other.low), high, closed)


def older(one: Releases, other: Releases) -> bool | None:
    """Whether every release of `one` is before every one of `other`; None where that depends on which is meant."""
    if one.high is not None and (one.high < other.low or (one.high == other.low and not one.closed)):
        return True
    return False if other.high is not None and one.low >= other.high else None


def shown(found: Releases) -> str:
    """The releases as requirement files write them: `0.9.5`, `>=0.9,<0.12`."""
    if found.exact:
        return _text(found.low)
    low = [f">={_text(found.low)}"] if found.low else []
    high = [f"{'<=' if found.closed else '<'}{_text(found.high)}"] if found.high is not None else []
    return ",".join([*low, *high])


def spelled(text: str) -> str | None:
    """The releases that a text means, one as it is written (`==2.1.0+cu118` is 2.1.0), several as a range; None for a
    text of another form.
    """
    found, number = releases(text), re.search(r"\d+(?:\.\d+)*", text)
    if found is None or number is None:
        return None
    return number[0] if found.exact else shown(found)


def _clause(sign: str, version: str, starred: bool) -> Releases:
    numbers = tuple(int(number[:9]) for number in version.split("."))
    release = _trimmed(numbers)
    if sign in ("==", "===", "=") and not (starred or sign == "="):
        return Releases(release, release, closed=True)
    if sign in ("==", "=", "==="):
        return Releases(release, _next(numbers, len(numbers)))
    if sign == "~=":
        return Releases(release, _next(numbers, max(1, len(numbers) - 1)))
    if sign == "~":
        return Releases(release, _next(numbers, min(2, len(numbers))))
    if sign == "^":
        return Releases(release, _next(numbers, _first_number(numbers)))
    if sign in ("<", "<="):
        return Releases((), release, closed=sign == "<=")
    return Releases(release) if sign in (">", ">=") else Releases()


def _first_number(numbers: Numbers) -> int:
    """How many numbers stand up to the first that is not zero: what `^` keeps."""
    return next((place for place, number in enumerate(numbers, 1) if number), len(numbers))


def _next(numbers: Numbers, kept: int) -> Numbers:
    """The first release after all that begin with the first `kept` numbers."""
    return (*numbers[: kept - 1], numbers[kept - 1] + 1)


def _trimmed(numbers: Numbers) -> Numbers:
    while numbers and not numbers[-1]:
        numbers = numbers[:-1]
    return numbers


def _text(numbers: Numbers) -> str:
    return ".".join(map(str, numbers)) if len(numbers) > 1 else f"{numbers[0] if numbers else 0}.0"
