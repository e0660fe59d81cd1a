"""Says for each look of docs/precision.md how often those rules were right that had earned their severity before it.

python scripts/look_back.py

Each look is held against what the looks before it say alone: its findings test the forecast, and are no source of it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from write_judged import LATEST, SECTION, verdicts

from dtlint.rulebook.earned import LEAST_JUDGED, LEAST_RIGHT

ROOT = Path(__file__).parent.parent
_SET = re.compile(r"^(\w+) set:$", re.MULTILINE)
FIRST = 4
"""Looks whose findings are the past of those after them, and are not tested themselves."""


class Look(NamedTuple):
    """A look, and the rule and the verdict of each finding that was judged in it."""

    name: str
    judged: tuple[tuple[str, bool], ...]


class Share(NamedTuple):
    """How many findings were right, of how many."""

    right: int
    of: int


def looks(page: str) -> Iterator[Look]:
    """The looks of the page in their order."""
    heads = list(_SET.finditer(page, page.index(SECTION)))
    ends = [*(head.start() for head in heads[1:]), len(page)]
    for head, end in zip(heads, ends, strict=True):
        yield Look(head[1], tuple(verdicts(SECTION + page[head.end() : end])))


def earned(past: list[tuple[str, bool]], rule: str) -> bool:
    """Whether a rule had earned its severity by its latest findings."""
    latest = [true for name, true in past if name == rule][-LATEST:]
    return len(latest) >= LEAST_JUDGED and sum(latest) >= LEAST_RIGHT * len(latest)


def shares(look: Look, past: list[tuple[str, bool]]) -> tuple[Share, Share]:
    """Findings of rules that had earned their severity, and those of the others."""
    told = [true for rule, true in look.judged if earned(past, rule)]
    others = [true for rule, true in look.judged if not earned(past, rule)]
    return Share(sum(told), len(told)), Share(sum(others), len(others))


def main() -> int:
    """Print a line for each look, and their sum."""
    past: list[tuple[str, bool]] = []
    totals = [Share(0, 0), Share(0, 0)]
    for number, look in enumerate(looks((ROOT / "docs" / "precision.md").read_text(encoding="utf-8"))):
        if number >= FIRST:
            found = shares(look, past)
            totals = [Share(a.right + b.right, a.of + b.of) for a, b in zip(totals, found, strict=True)]
            print(f"{look.name}: {found[0].right} of {found[0].of}, the others {found[1].right} of {found[1].of}")
        past.extend(look.judged)
    print(f"all: {totals[0].right} of {totals[0].of}, the others {totals[1].right} of {totals[1].of}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
