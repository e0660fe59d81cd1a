"""The keys of front ends whose config is one file, and names of other front ends that are taken for them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from dtlint.record import NamedTuple

FILE = Path(__file__).parent / "data" / "front_end_keys.csv"


class FrontEndKeys(NamedTuple):
    """`known` are the keys that a front end has, `stands_for` names of others with the key that means the same."""

    known: frozenset[str]
    stands_for: Mapping[str, str]


@cache
def front_end_keys(front_end: str) -> FrontEndKeys:
    """The keys of a front end."""
    lines = [line for line in FILE.read_text(encoding="utf-8").splitlines() if line and line[0] != "#"]
    rows = [row for row in (line.split(",") for line in lines[1:]) if row[0] == front_end]
    known = frozenset(name for _, name, meant in rows if not meant)
    return FrontEndKeys(known, {name: meant for _, name, meant in rows if meant})
