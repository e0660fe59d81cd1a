"""Fits the constants of the cost model that no data sheet tells, and shows how far they carry over to other sources.

python benchmarks/fit_constants.py               # print the fitted constants python benchmarks/fit_constants.py
--leave-out   # fit without each source in turn, score on it

Coordinate descent on the mean of |log(predicted / measured)| (long tails count less; each source counts by the root
of its runs) plus how far pairs of one source are from the right order. It changes the module dtlint.cost.constants
while it runs and prints what it found; nothing is written.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations
from math import log, sqrt
from statistics import mean, median
from typing import NamedTuple

from accuracy import SAME_RUN
from measured_runs import measured_runs

from dtlint.cost import compute, constants
from dtlint.cost.assemble import family_of
from dtlint.cost.communication import group_of
from dtlint.cost.figures import Job
from dtlint.cost.job import Completed, complete
from dtlint.cost.step import head_work, layer_work, step


class Knob(NamedTuple):
    """A constant: its name, where the search starts, and the bounds that its meaning allows."""

    name: str
    start: float
    low: float
    high: float


class Timed(NamedTuple):
    """A run as a whole job with its measured tokens per second and GPU."""

    source: str
    group: tuple[object, ...]
    job: Job
    measured: float


HOPPER, AMPERE = "H100|GH200|H200|H800", "A100|A800"
BLACKWELL = "B200|B300|GB200|GB300"

KNOBS = (
    Knob("V100.sustained", 0.75, 0.5, 1.0),
    Knob(f"{AMPERE}.sustained", 0.95, 0.5, 1.0),
    Knob("H100|H200|H800.sustained", 0.75, 0.5, 1.0),
    *(Knob(f"{name}.sustained", 0.85, 0.5, 1.0) for name in BLACKWELL.split("|")),
    Knob(f"{AMPERE}.attention", 0.33, 0.15, 0.6),
    Knob(f"{HOPPER}.attention", 0.3, 0.1, 0.5),
    Knob(f"{HOPPER}.native_attention", 0.4, 0.3, 0.5),
    Knob(f"{BLACKWELL}.native_attention", 0.3, 0.2, 0.5),
    Knob("WAVE_LOSS", 0.6, 0.0, 1.0),
    Knob("RAMP_DEPTH", 220, 50, 500),
    Knob("UNALIGNED_SHARE", 0.15, 0.05, 1.0),
    Knob("HIDDEN_PASSES", 10, 6, 16),
    Knob("WIDE_PASSES", 3, 2, 5),
    Knob("DROPOUT_PASSES", 6, 0, 8),
    Knob("ROUTED_PASSES", 6, 2, 20),
    Knob("UNFUSED_ATTENTION", 0.5, 0.2, 0.8),
    Knob("LOSS_BYTES", 18, 10, 30),
    Knob("KERNEL_SECONDS_DENSE", 3e-3, 5e-4, 4e-3),
    Knob("KERNEL_SECONDS_EXPERTS", 3e-3, 1e-3, 8e-3),
    Knob("RESTORE_SECONDS", 1e-3, 0.0, 3e-3),
    Knob("RESTORE_SECONDS_DEEPSPEED", 8e-3, 0.0, 2e-2),
    Knob("LEVEL_LOSS", 0.8, 0.0, 1.0),
    Knob("INTRANODE_SHARE", 0.78, 0.6, 0.82),
    Knob("INTERNODE_SHARE", 0.6, 0.4, 0.75),
    Knob("CONTENTION", 0.2, 0.0, 0.4),
    Knob("TENSOR_OVERLAP", 0.6, 0.0, 0.95),
    Knob("BACKWARD_OVERLAP", 0.6, 0.0, 0.95),
    Knob("EXPERT_EXPOSED", 0.5, 0.05, 1.0),
    Knob("REDUCE_WINDOW", 0.8, 0.2, 1.0),
    *(Knob(f"CAST_BYTES[{name}]", start, 2, 20) for name, start in (("fp8", 5.0), ("mxfp8", 9.0), ("nvfp4", 9.0))),
    Knob("NARROW_FORMAT[nvfp4]", 1.5, 1.0, 2.0),
)

TAIL = 0.3
"""Log error from which on more error counts less."""

PAIR_WEIGHT = 1.0


def main() -> int:
    """Prints the fit, or the errors of the sources left out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--leave-out", action="store_true", help="fit without each source in turn and score on it")
    parser.add_argument("--rounds", type=int, default=6, help="rounds over all constants")
    options = parser.parse_args()
    runs = timed_runs()
    if options.leave_out:
        leave_out(runs, options.rounds)
        return 0
    fit(runs, options.rounds)
    for knob in KNOBS:
        print(f"{knob.name:40} {read(knob.name):.4g}")
    return 0


def leave_out(runs: Sequence[Timed], rounds: int) -> None:
    """Each source scored with constants fitted to all the others."""
    errors: dict[str, list[float]] = {}
    for source in sorted({run.source for run in runs}):
        fit([run for run in runs if run.source != source], rounds)
        own = [run for run in runs if run.source == source]
        errors[source] = [abs(predicted(run.job) / run.measured - 1) for run in own]
        print(f"{source:28} n={len(own):4}  median {median(errors[source]):6.1%}", flush=True)
    everything = sorted(error for each in errors.values() for error in each)
    ninth = everything[int(0.9 * len(everything))]
    medians = mean(median(each) for each in errors.values())
    print(f"all: median {median(everything):.1%}  p90 {ninth:.1%}  mean of source medians {medians:.1%}")


def timed_runs() -> list[Timed]:
    """The runs with a measured throughput, each completed with the typical values of what it leaves open."""
    found = []
    for run in measured_runs():
        completed = complete(run.plan)
        if run.tokens_per_second_per_gpu and isinstance(completed, Completed):
            group = (run.source, *(run.settings.get(name) for name in SAME_RUN))
            found.append(Timed(run.source, group, completed.typical, run.tokens_per_second_per_gpu))
    return found


def predicted(job: Job) -> float:
    """Tokens per second and GPU with the constants as they stand."""
    current = job._replace(machine=job.machine._replace(family=family_of(job.machine.gpu.name)))
    tokens = job.batch.micro * job.batch.microbatches * job.layout.data * job.shape.sequence
    return tokens / step(current).total / job.layout.world


def fit(runs: Sequence[Timed], rounds: int) -> None:
    """Leaves the constants at the values that fit the runs best."""
    for knob in KNOBS:
        write(knob.name, knob.start)
    steps = {knob.name: 0.2 for knob in KNOBS}
    best = loss(runs)
    for _ in range(rounds):
        for knob in KNOBS:
            found = improved(knob, steps[knob.name], runs, best)
            steps[knob.name] = min(0.5, steps[knob.name] * (1.3 if found < best else 0.5))
            best = min(best, found)


def improved(knob: Knob, share: float, runs: Sequence[Timed], best: float) -> float:
    """The loss after trying the constant a bit larger, then a bit smaller; it keeps its value where neither helps."""
    value = read(knob.name)
    for factor in (1 + share, 1 / (1 + share)):
        write(knob.name, min(knob.high, max(knob.low, value * factor)))
        found = loss(runs)
        if found < best:
            return found
    write(knob.name, value)
    return best


def loss(runs: Sequence[Timed]) -> float:
    """What the fit makes small."""
    forget()
    ratios = [log(predicted(run.job) / run.measured) for run in runs]
    counts: dict[str, int] = defaultdict(int)
    for run in runs:
        counts[run.source] += 1
    weights = [1 / sqrt(counts[run.source]) for run in runs]
    errors = [min(abs(ratio), TAIL) + 0.4 * max(0.0, abs(ratio) - TAIL) for ratio in ratios]
    off = sum(weight * error for weight, error in zip(weights, errors, strict=True)) / sum(weights)
    return off + PAIR_WEIGHT * disorder(runs, ratios)


def disorder(runs: Sequence[Timed], ratios: Sequence[float]) -> float:
    """Mean distance of pairs from the right order, each source by the root of its pairs."""
    groups: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for index, run in enumerate(runs):
        groups[run.group].append(index)
    short: dict[str, list[float]] = defaultdict(list)
    for one, other in (pair for group in groups.values() for pair in combinations(group, 2)):
        apart = log(runs[one].measured / runs[other].measured)
        if abs(apart) > log(1.1):
            ahead = (apart + ratios[one] - ratios[other]) * (1 if apart > 0 else -1)
            short[runs[one].source].append(min(0.6, max(0.0, 0.05 - ahead)))
    return weighted_mean(short.values())


def weighted_mean(groups: Iterable[list[float]]) -> float:
    """The mean of the groups' means, each by the root of its size; 0 for none."""
    kept = [(mean(group), sqrt(len(group))) for group in groups]
    return sum(each * weight for each, weight in kept) / sum(weight for _, weight in kept) if kept else 0.0


def read(name: str) -> float:
    """A constant by its knob's name: NAME, NAME[key] or FAMILY|FAMILY.field."""
    families, _, field = name.partition(".")
    if field:
        return float(getattr(constants.FAMILIES[families.split("|")[0]], field))
    table, _, key = name.partition("[")
    found = getattr(constants, table)
    return float(found[key.rstrip("]")] if key else found)


def write(name: str, value: float) -> None:
    """Changes a constant in the loaded module."""
    families, _, field = name.partition(".")
    table, _, key = name.partition("[")
    if field:
        for family in families.split("|"):
            kept = constants.FAMILIES[family]._asdict()
            constants.FAMILIES[family] = constants.Family(**{**kept, field: value})
    elif key:
        getattr(constants, table)[key.rstrip("]")] = value
    else:
        setattr(constants, name, value)


def forget() -> None:
    """Drops what was worked out with other constants."""
    for cached in (compute.product_seconds, compute.rates, group_of, family_of, layer_work, head_work):
        cached.cache_clear()


if __name__ == "__main__":
    raise SystemExit(main())
