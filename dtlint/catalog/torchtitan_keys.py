"""The keys of torchtitan's config in the sections that decide the plan, as its releases have them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

FILE = Path(__file__).parent / "data" / "torchtitan_keys.csv"


@cache
def torchtitan_keys() -> Mapping[str, frozenset[str]]:
    """The names of each section's keys."""
    lines = [line for line in FILE.read_text(encoding="utf-8").splitlines() if line and line[0] != "#"]
    found: dict[str, set[str]] = {}
    for section, name in (line.split(",") for line in lines[1:]):
        found.setdefault(section, set()).add(name)
    return {section: frozenset(names) for section, names in found.items()}
