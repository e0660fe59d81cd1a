"""How far the cost model is off on published measured runs, by source.

    python benchmarks/accuracy.py [--worst 20]

Throughput as |predicted / measured - 1|, how often two plans of one model on equally many GPUs that differ by more than
10% come in the right order, and memory on distinct plans by the view that the source measured.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import combinations
from statistics import mean, median
from typing import NamedTuple

from measured_runs import Run, measured_runs

from dtlint.cost import Estimate, Memory, estimate

APART = 1.10
"""Two plans count as different when their throughput differs by more than this factor."""

SAME_RUN = ("model.name", "parallel.world_size", "data.sequence_length", "precision.compute")
"""What two plans of a pair have in common, beside their source."""


class Priced(NamedTuple):
    """A run beside its estimate."""

    run: Run
    found: Estimate

    @property
    def ratio(self) -> float:
        """Predicted over measured throughput."""
        return self.found.tokens_per_second_per_gpu / (self.run.tokens_per_second_per_gpu or 1.0)


def main() -> int:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worst", type=int, default=0, help="also list the worst runs")
    options = parser.parse_args()
    priced = price(measured_runs())
    timed = [each for each in priced if each.run.tokens_per_second_per_gpu]
    print("Throughput, |predicted / measured - 1|")
    print_table(by_source(timed))
    print_pairs(timed)
    print("Memory on distinct plans of dense models")
    print_table(memory_errors(priced))
    for each in sorted(timed, key=lambda each: -abs(each.ratio - 1))[: options.worst]:
        shown = " ".join(f"{name}={value}" for name, value in each.run.settings.items() if name.startswith("parallel."))
        print(f"  {each.ratio:5.2f}x {each.run.source} {each.run.settings['model.name']} {shown}")
    return 0


def price(runs: Iterable[Run]) -> list[Priced]:
    """Every run that has an estimate."""
    found = [(run, estimate(run.plan)) for run in runs]
    return [Priced(run, each) for run, each in found if isinstance(each, Estimate)]


def by_source(timed: Iterable[Priced]) -> dict[str, list[float]]:
    """Errors of throughput."""
    errors: dict[str, list[float]] = defaultdict(list)
    for each in timed:
        errors[each.run.source].append(abs(each.ratio - 1))
    return errors


def pairs(timed: Iterable[Priced]) -> dict[str, list[bool]]:
    """For each source, whether the plans of each pair that differs come in the right order."""
    groups: dict[tuple[object, ...], list[Priced]] = defaultdict(list)
    for each in timed:
        key = (each.run.source, *(each.run.settings.get(name) for name in SAME_RUN))
        groups[key].append(each)
    verdicts: dict[str, list[bool]] = defaultdict(list)
    for group in groups.values():
        for one, other in combinations(group, 2):
            verdict = in_order(one, other)
            if verdict is not None:
                verdicts[one.run.source].append(verdict)
    return verdicts


def in_order(one: Priced, other: Priced) -> bool | None:
    """Whether the estimates put two runs in the order measured; None where they are about as fast."""
    first, second = one.run.tokens_per_second_per_gpu or 0.0, other.run.tokens_per_second_per_gpu or 0.0
    if max(first, second) <= APART * min(first, second):
        return None
    return (one.found.tokens_per_second_per_gpu - other.found.tokens_per_second_per_gpu) * (first - second) > 0


def memory_errors(priced: Iterable[Priced]) -> dict[str, list[float]]:
    """Errors of memory, one for each distinct plan."""
    distinct: dict[str, dict[tuple[object, ...], float]] = defaultdict(dict)
    for run, found in priced:
        if run.memory_bytes and not run.settings.get("model.experts"):
            plan = tuple(value for name, value in run.settings.items() if name != "batch.global")
            distinct[run.source][plan] = abs(viewed(found.memory, run.memory_kind) / run.memory_bytes - 1)
    return {source: list(errors.values()) for source, errors in distinct.items()}


def viewed(memory: Memory, kind: str) -> float:
    """Bytes in the view that a source measured."""
    return {"device": memory.device_bytes, "reserved": memory.reserved_bytes}.get(kind, memory.peak_bytes)


def print_table(errors: Mapping[str, list[float]]) -> None:
    """One line a source, and one for all."""
    for source, values in sorted(errors.items()):
        print(f"  {source:28} {line(values)}")
    everything = [error for values in errors.values() for error in values]
    medians = mean(median(values) for values in errors.values())
    print(f"  {'all':28} {line(everything)}  mean of source medians {medians:.1%}")


def line(errors: list[float]) -> str:
    """Median and 90th percentile."""
    ninth = sorted(errors)[min(len(errors) - 1, int(0.9 * len(errors)))]
    return f"n={len(errors):4}  median {median(errors):6.1%}  p90 {ninth:6.1%}"


def print_pairs(timed: Iterable[Priced]) -> None:
    """How many pairs are in order, over all and as the mean over sources."""
    verdicts = pairs(timed)
    right, total = sum(map(sum, verdicts.values())), sum(map(len, verdicts.values()))
    share = mean(sum(each) / len(each) for each in verdicts.values())
    print(f"  pairs in the right order: {right}/{total} = {right / total:.1%}, mean over sources {share:.1%}")


if __name__ == "__main__":
    raise SystemExit(main())
