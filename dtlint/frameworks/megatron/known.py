"""The flags that releases of Megatron-LM and Megatron-DeepSpeed know, looked up in a table of names."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from dtlint.record import NamedTuple

FILE = Path(__file__).parents[2] / "catalog" / "data" / "megatron_flags.csv"


class Flag(NamedTuple):
    """A row of the table.

    `takes` is the number of values, or `+`, `*`, `?` as in argparse; `first` and `last` the megatron-core releases
    between which it works in Megatron-LM ("" never, "" still does); `deepspeed` whether Megatron-DeepSpeed has it;
    `instead` the flag named in its place; `effect` what releases after the last do with it if their parser still knows
    it ("refused", "ignored", or "default": ignored because they do unasked what it asks for). `values` are the kind of
    values that it takes (see kinds.py), `training` whether it is one of the training scripts. `came` and `went` are the
    days of the first commit whose parser has it and of the last ("" where that is not told).
    """

    name: str
    takes: str
    first: str
    last: str
    deepspeed: bool
    instead: str
    effect: str
    values: str = ""
    training: bool = True
    came: str = ""
    went: str = ""


@cache
def known_flag(name: str) -> Flag | None:
    """The row of a flag as it is written, None if no release has it."""
    text = _text()
    start = text.find(f"\n{name},")
    return None if start < 0 else _row(text[start + 1 : text.index("\n", start + 1)])


@cache
def known_flags() -> tuple[Flag, ...]:
    """Every row."""
    return tuple(_row(line) for line in _text().splitlines() if line.startswith("--"))


@cache
def training_names() -> tuple[str, ...]:
    """The flags of the training scripts' own parser, without those of other scripts."""
    return tuple(line.partition(",")[0] for line in _text().splitlines() if ",training," in line)


@cache
def _text() -> str:
    return FILE.read_text(encoding="utf-8")


def _row(line: str) -> Flag:
    name, takes, first, last, deepspeed, scope, instead, effect, values, came, went = line.split(",")
    return Flag(name, takes, first, last, deepspeed == "yes", instead, effect, values, scope == "training", came, went)
