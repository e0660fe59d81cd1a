"""The fields of Transformers' TrainingArguments and what each takes, as its releases have them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from dtlint.record import NamedTuple

FILE = Path(__file__).parent / "data" / "training_arguments.csv"


class TrainingArgument(NamedTuple):
    """A row of the table: `takes` is int, float, flag, text, or "" where `words` has what it takes; `last` the last
    major release that has it ("" still does).
    """

    name: str
    takes: str
    words: tuple[str, ...]
    last: str


@cache
def training_arguments() -> Mapping[str, TrainingArgument]:
    """The fields by name."""
    lines = [line for line in FILE.read_text(encoding="utf-8").splitlines() if line and line[0] != "#"]
    rows = (line.split(",") for line in lines[1:])
    return {name: _argument(name, takes, last) for name, takes, last in rows}


def _argument(name: str, takes: str, last: str) -> TrainingArgument:
    return TrainingArgument(name, *(("", tuple(takes.split("|"))) if "|" in takes else (takes, ())), last)
