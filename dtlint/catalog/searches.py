"""What a search over plans may change in each framework, and what may not stand together there."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import cast

from dtlint.compiled import load
from dtlint.record import NamedTuple
from dtlint.value import Plain

SEARCH_FILES = (Path(__file__).parent / "data" / "searches.yaml",)


class Searched(NamedTuple):
    """What can be varied: `degrees` by the numbers that follow from model and machines, the others by `values`."""

    degrees: tuple[str, ...]
    values: Mapping[str, tuple[Plain, ...]]


class Combination(NamedTuple):
    """What may not stand together: the name of the arithmetic that tells it, and what a search counts it as.

    `until` are packages by the setting of their version, each with the first release that takes the combination.
    """

    name: str
    reason: str
    until: Mapping[str, str]


@cache
def combinations(framework: str, part: str) -> tuple[Combination, ...]:
    """What a framework takes no plan with, in the order in which it is looked at; `part` is `split` or `switches`."""
    rows = cast("list[dict[str, object]]", _table()["combinations"])
    asked = (row for row in rows if row["of"] == part and _is_of(framework, row["frameworks"]))
    return tuple(
        Combination(str(row["name"]), str(row["reason"]), cast("dict[str, str]", row.get("until", {}))) for row in asked
    )


def _is_of(framework: str, frameworks: object) -> bool:
    return frameworks == "any" or framework in cast("list[str]", frameworks)


@cache
def searched(framework: str) -> Searched | None:
    """What a search varies in plans of a framework; None for one that the catalog does not know."""
    entry = _frameworks().get(framework)
    if entry is None or "like" in entry:
        return searched(str(entry["like"])) if entry else None
    values = cast("dict[str, list[Plain]]", entry["values"])
    degrees = cast("list[str]", entry["degrees"])
    return Searched(tuple(degrees), {name: tuple(found) for name, found in values.items()})


@cache
def largest(setting: str) -> int | None:
    """The largest number that a search tries for a setting, None where only the plan bounds it."""
    most = cast("dict[str, dict[str, int]]", _table()["most"])["values"]
    return most.get(setting)


@cache
def least_tokens(setting: str) -> int:
    """The tokens of a sample that a rank keeps at least where a search splits samples by a setting."""
    return cast("dict[str, dict[str, int]]", _table()["least_tokens"])["values"].get(setting, 1)


def searched_frameworks() -> tuple[str, ...]:
    """The frameworks whose plans can be searched."""
    return tuple(_frameworks())


@cache
def _table() -> dict[str, object]:
    return cast("dict[str, object]", load("searches", SEARCH_FILES))


def _frameworks() -> dict[str, dict[str, object]]:
    return cast("dict[str, dict[str, dict[str, object]]]", _table())["frameworks"]
