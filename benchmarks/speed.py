"""How long a check takes beside `python -c pass`, measured in one run.

    python benchmarks/speed.py [--repeats 20]

Prints for each command the best and the median of wall time and of processor time in milliseconds, and the ratio of the
best processor times: on a machine that others load, wall time tells of them too. All run the interpreter that runs this
script, alternating, so that load meets all alike. Compiled Python is kept between runs, as it is wherever dtlint is
installed.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from dtlint.record import NamedTuple

FIXTURES = Path(__file__).parent.parent / "fixtures"
FLOOR = "python -c pass"
CONFIGS = "check ds_config.json launch.sh"
PROGRAM = "check launch.sh train.py"
LIMITS = {CONFIGS: 8.0, PROGRAM: 22.0}
"""Most times `python -c pass`: of a config and its script, and of a script and its program."""


class Taken(NamedTuple):
    """Seconds of one run."""

    wall: float
    processor: float


def main() -> int:
    """1 if a ratio is over its limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=20)
    times = _measure(parser.parse_args().repeats)
    floor = min(taken.processor for taken in times[FLOOR])
    over = 0
    for name, taken in times.items():
        ratio, limit = min(each.processor for each in taken) / floor, LIMITS.get(name)
        over += int(limit is not None and ratio > limit)
        print(f"{name:34} {_told(taken)}  ratio {ratio:4.1f}" + (f" (limit {limit:g})" if limit else ""))
    return int(over > 0)


def _told(taken: list[Taken]) -> str:
    walls, processors = ([each[index] * 1000 for each in taken] for index in (0, 1))
    return (
        f"wall best {min(walls):6.1f} ms median {median(walls):6.1f} ms  "
        f"processor best {min(processors):6.1f} ms median {median(processors):6.1f} ms"
    )


def _measure(repeats: int) -> dict[str, list[Taken]]:
    dtlint = str(Path(sys.executable).with_name("dtlint"))
    commands = {
        FLOOR: ([sys.executable, "-c", "pass"], FIXTURES),
        "--version": ([dtlint, "--version"], FIXTURES),
        CONFIGS: ([dtlint, *CONFIGS.split()], FIXTURES / "half-idle-pipeline"),
        PROGRAM: ([dtlint, *PROGRAM.split()], FIXTURES / "silent-divergence"),
    }
    times: dict[str, list[Taken]] = {name: [] for name in commands}
    for _ in range(repeats + 1):
        for name, (command, folder) in commands.items():
            times[name].append(_run(command, folder))
    return {name: taken[1:] for name, taken in times.items()}


def _run(command: list[str], folder: Path) -> Taken:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before, started = _processor_seconds(), time.perf_counter()
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, env=environment, check=False)
    return Taken(time.perf_counter() - started, _processor_seconds() - before)


def _processor_seconds() -> float:
    """What the processes that this one has started and awaited have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
