"""How many estimates one process makes in a second: of plans told anew, and of changed plans as a search makes them.

    python benchmarks/estimates.py [--seconds 2]

Prints estimates per second, and how long one takes in shares of a plain loop of 10^5 float multiplications, which says
the same on any machine. Processor time counts, so that other load on the machine does not.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from statistics import mean
from time import process_time

from measured_runs import measured_runs

from dtlint.cost import Estimate, estimate
from dtlint.plan import Infeasible, Plan
from dtlint.value import Plain

LIMIT = 2000.0
"""Estimates per second that make a search over plans practical."""

MULTIPLICATIONS = 100_000

CHANGES: tuple[dict[str, Plain], ...] = (
    {"batch.micro": 1},
    {"batch.micro": 2},
    {"checkpointing.activations": "full"},
    {"checkpointing.activations": "none"},
    {"parallel.tensor": 4},
    {"parallel.pipeline": 2},
    {"sharding.stage": 2},
)
"""Neighbours of a plan that a search asks for."""


def main() -> int:
    """1 if either kind of estimate is slower than the limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0, help="processor time for each kind")
    seconds = parser.parse_args().seconds
    told = [run.settings for run in measured_runs()]
    rates = {
        "plans told anew": per_second(fresh(told), seconds),
        "changed plans": per_second(changed(told), seconds),
    }
    for name, (rate, loop) in rates.items():
        print(f"{name}: {rate:,.0f} estimates/s; one takes {1 / rate / loop:.3f} loops of {loop * 1e3:.2f} ms")
    return int(min(rate for rate, _ in rates.values()) < LIMIT)


def loop_seconds() -> float:
    """Processor time of the plain loop."""
    start, product = process_time(), 1.0
    for _ in range(MULTIPLICATIONS):
        product *= 1.0000001
    return process_time() - start


def per_second(work: Iterator[Callable[[], object]], seconds: float) -> tuple[float, float]:
    """How often the work is done in a second, and what the loop takes in between, so that what slows the machine
    slows both; the first round, which reads the catalogs, does not count."""
    for task in islice(work, 1000):
        task()
    spent, count, loops = 0.0, 0, []
    while spent < seconds:
        start = process_time()
        for task in islice(work, 100):
            assert isinstance(task(), Estimate)
        spent, count = spent + process_time() - start, count + 100
        loops.append(loop_seconds())
    return count / spent, mean(loops)


def fresh(told: list[dict[str, Plain]]) -> Iterator[Callable[[], object]]:
    """Estimates of settings, from the beginning."""
    for settings in cycle(told):
        yield lambda settings=settings: estimate(Plan.of(settings))  # type: ignore[misc]


def changed(told: list[dict[str, Plain]]) -> Iterator[Callable[[], object]]:
    """Estimates of neighbours of plans that have an estimate themselves; neighbours that cannot be are left out."""
    plans = [Plan.of(settings) for settings in told]
    for plan in plans:
        estimate(plan)
    pairs = [(plan, change) for plan in plans for change in CHANGES if not isinstance(plan.but(change), Infeasible)]
    for plan, change in cycle(pairs):
        yield lambda plan=plan, change=change: estimate(plan.but(change))  # type: ignore[misc]


if __name__ == "__main__":
    raise SystemExit(main())
