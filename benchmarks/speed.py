"""How long `dtlint check ds_config.json launch.sh` takes beside `python -c pass`, measured in one run.

    python benchmarks/speed.py [--repeats 20]

Prints the best and the median of each in milliseconds, and the ratio of the bests. Both run the interpreter that runs
this script, alternating, so that load on the machine meets both alike. Compiled Python is kept between runs, as it is
wherever dtlint is installed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

FIXTURE = Path(__file__).parent.parent / "fixtures" / "half-idle-pipeline"
LIMIT = 8.0


def main() -> int:
    """1 if the ratio is over the limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=20)
    repeats = parser.parse_args().repeats
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "dtlint --version": [_dtlint(), "--version"],
        "dtlint check ds_config.json launch.sh": [_dtlint(), "check", "ds_config.json", "launch.sh"],
    }
    times = _measure(commands, repeats)
    for name, taken in times.items():
        print(f"{name:40} best {min(taken) * 1000:7.1f} ms  median {median(taken) * 1000:7.1f} ms")
    floor, *_, check = (min(taken) for taken in times.values())
    print(f"ratio {check / floor:.1f} (limit {LIMIT:g})")
    return int(check / floor > LIMIT)


def _measure(commands: dict[str, list[str]], repeats: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in commands}
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for _ in range(repeats + 1):
        for name, command in commands.items():
            started = time.perf_counter()
            subprocess.run(command, cwd=FIXTURE, stdout=subprocess.DEVNULL, env=environment, check=False)
            times[name].append(time.perf_counter() - started)
    return {name: taken[1:] for name, taken in times.items()}


def _dtlint() -> str:
    return str(Path(sys.executable).with_name("dtlint"))


if __name__ == "__main__":
    sys.exit(main())
