"""How well a search over plans picks what was measured, and how fast it looks at plans.

    python benchmarks/tuning.py [--groups]

A group are the runs of one source that share model, machines, global batch and number formats and differ in the plan.
The search starts from the slowest of them, varies the settings in which they differ and nothing else, and ranks every
combination that can be and fits, not only the measured ones. A hit is the best measured plan among the first five: of
all combinations, of splits (degrees and sharding, each with its best micro-batch and switches: what `dtlint tune`
shows), and of the measured plans alone. Groups whose ranking has at most five plans cannot miss and are counted apart.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import mean, median
from time import process_time
from typing import NamedTuple

from measured_runs import Run, measured_runs

from dtlint.plan import Plan
from dtlint.runs import Options, read_runs
from dtlint.tune import Axis, Candidate, Wishes, axes_of, needs, search
from dtlint.tune.offers import SPLIT
from dtlint.value import Plain

ASKED = ("overlap.tensor",)
"""What is asked for (`--vary`) where the runs differ in it: torchtitan's, whose compiled model no plan tells."""

FIRST = 5
"""Places of the ranking in which the best measured plan counts as found."""

SHARED = ("model.", "cluster.", "data.", "precision.", "optimizer.")
SHARED_NAMES = ("framework", "parallel.world_size", "batch.global", "attention.flash", "checkpointing.offload")
"""What the runs of a group have in common, beside their source."""

FOLLOWS = "parallel.data"
"""Stated by some sources, worked out by every plan."""

FIXTURES = Path(__file__).parents[1] / "fixtures"
SEARCHED = ("before-you-launch", "64-gpu-slowdown")

LIMIT = 2000.0
"""Plans a second, priced ones alone, that a search has to reach."""

Settings = tuple[tuple[str, Plain], ...]


class Found(NamedTuple):
    """A group's search: places of the best measured plan (None where it is not ranked), how many plans rank, and the
    measured throughput of the first measured plan of the ranking over that of the best.
    """

    name: str
    place: int | None
    split_place: int | None
    measured_place: int | None
    ranked: int
    measured: int
    reached: float | None


def main() -> int:
    """1 if the search is slower than the limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", action="store_true", help="also print each group")
    options = parser.parse_args()
    found = [each for group in groups(measured_runs()) if (each := searched(group)) is not None]
    for each in found if options.groups else ():
        places = (each.place, each.split_place, each.measured_place)
        print(f"  {each.name:44} place {places[0]} of {each.ranked}, split {places[1]}, measured {places[2]}")
    print_hits("all groups", found)
    print_hits("groups with more plans than that", [each for each in found if each.ranked > FIRST])
    return int(min(speed(FIXTURES / name) for name in SEARCHED) < LIMIT)


def groups(runs: Iterable[Run]) -> list[dict[Settings, float]]:
    """Groups of at least two plans, each with its median throughput."""
    found: dict[tuple[object, ...], dict[Settings, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        if run.tokens_per_second_per_gpu:
            shared = tuple(sorted((pair for pair in run.settings.items() if is_shared(pair[0])), key=str))
            own = tuple(pair for pair in run.settings.items() if pair[0] != FOLLOWS)
            found[run.source, shared][own].append(run.tokens_per_second_per_gpu)
    return [{plan: median(rates) for plan, rates in plans.items()} for plans in found.values() if len(plans) > 1]


def is_shared(name: str) -> bool:
    """Whether the runs of a group have the same value of a setting."""
    return name.startswith(SHARED) or name in SHARED_NAMES


def searched(group: Mapping[Settings, float]) -> Found | None:
    """The search of a group; None where a plan is not told well enough, or nothing that a search varies differs."""
    best, slowest = max(group, key=group.__getitem__), min(group, key=group.__getitem__)
    plan = Plan.of(dict(slowest))
    varied = {name for plan in group for name, value in plan if any(dict(other).get(name) != value for other in group)}
    asked: dict[str, tuple[Plain, ...]] = {name: (False, True) for name in ASKED if name in varied}
    axes = [axis for axis in axes_of(plan, Wishes(vary=asked)) if axis.setting in varied]
    if needs(plan) or not axes:
        return None
    ranked = search(plan, axes).ranked
    rates = {values_of(plan, axes): rate for plan, rate in group.items()}
    among = [rates[key] for each in ranked if (key := key_of(each, axes)) in rates]
    keys, wanted = [key_of(each, axes) for each in ranked], values_of(best, axes)
    splits = list(dict.fromkeys(split_of(key, axes) for key in keys))
    return Found(
        f"{dict(best)['model.name']} on {dict(best)['parallel.world_size']}",
        place(keys, wanted),
        place(splits, split_of(wanted, axes)),
        place(among, group[best]),
        len(ranked),
        len(group),
        among[0] / group[best] if among else None,
    )


def values_of(settings: Settings, axes: Sequence[Axis]) -> tuple[Plain, ...]:
    """What a measured plan has for each axis."""
    plan = Plan.of(dict(settings))
    return tuple(plan.value(axis.setting) for axis in axes)


def key_of(candidate: Candidate, axes: Sequence[Axis]) -> tuple[Plain, ...]:
    """What a plan of the ranking has for each axis."""
    return tuple(candidate.values[axis.setting] for axis in axes)


def split_of(values: tuple[Plain, ...], axes: Sequence[Axis]) -> tuple[Plain, ...]:
    """The part of the values that says how the model is split."""
    return tuple(value for value, axis in zip(values, axes, strict=True) if axis.setting in SPLIT)


def place(ordered: Sequence[object], wanted: object) -> int | None:
    """The place of something in an order, from 1; None where it is not there."""
    return ordered.index(wanted) + 1 if wanted in ordered else None


def print_hits(name: str, found: Sequence[Found]) -> None:
    """How many groups have the best measured plan among the first five."""
    hits = {
        "of all combinations": [each.place for each in found],
        "of splits": [each.split_place for each in found],
        "of measured plans": [each.measured_place for each in found],
    }
    print(f"{name}: {len(found)}")
    for kind, places in hits.items():
        within = [place for place in places if place is not None and place <= FIRST]
        print(f"  best measured plan among the first {FIRST} {kind}: {len(within)}, first: {within.count(1)}")
    reached = [each.reached for each in found if each.reached is not None]
    print(f"  the first measured plan of the ranking reaches {mean(reached):.1%} of the best measured rate")


def speed(folder: Path) -> float:
    """Priced plans a second, in processor time, of a search over a fixture's plan."""
    plan = read_runs([folder], Options()).runs[0].plan
    axes = axes_of(plan, Wishes())
    start = process_time()
    found = search(plan, axes)
    spent = process_time() - start
    looked, priced = found.considered / spent, found.priced / spent
    print(f"{folder.name}: {found.considered:,} plans in {spent:.1f} s: {looked:,.0f} a second, {priced:,.0f} priced")
    return found.priced / spent


if __name__ == "__main__":
    raise SystemExit(main())
