"""Published measured runs as plans: one row a run, each with where it was published."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NamedTuple

from dtlint.plan import Plan, parse
from dtlint.plan.vocabulary import term
from dtlint.value import Plain

FILE = Path(__file__).parents[1] / "tests" / "data" / "measured_runs.csv"
GIB = 2**30


class Run(NamedTuple):
    """A run: its settings, tokens per second and GPU, memory in bytes by its source's view; None where not told."""

    source: str
    settings: dict[str, Plain]
    tokens_per_second_per_gpu: float | None
    memory_bytes: float | None
    memory_kind: str

    @property
    def plan(self) -> Plan:
        """The run as a plan told by hand."""
        return Plan.of(self.settings)


def measured_runs() -> list[Run]:
    """Every run of the file."""
    with FILE.open(encoding="utf-8", newline="") as file:
        return [_run(row) for row in csv.DictReader(file)]


def _run(row: dict[str, str]) -> Run:
    names = [name for name in row if "." in name or name == "framework"]
    settings = {name: parse(name, row[name]).value for name in names if row[name] and term(name)}
    memory = float(row["memory_gib"]) * GIB if row["memory_gib"] else None
    throughput = float(row["tokens_per_second_per_gpu"]) if row["tokens_per_second_per_gpu"] else None
    return Run(row["source"], settings, throughput, memory, row["memory_kind"])
