"""How the time to read a launch script grows with its length: the exponent from 100 to 10,000 lines, per kind of line.

    python benchmarks/shell_growth.py [--repeats 3]

For each kind prints the milliseconds at each length and the slope of log(time) over log(lines) between the shortest
and the longest; 1 is linear. The exit status is 1 if an exponent is over the limit.
"""

from __future__ import annotations

import argparse
import gc
import math
import sys
import time

from dtlint.languages.shell.reader import read_tree
from dtlint.source import Source

LENGTHS = (100, 1_000, 10_000)
LIMIT = 1.1
KINDS = {
    "assignments": 'A_{n}="x $B" # note\n',
    "commands": 'torchrun --a $A "b c" $((1 + 2)) --n {n}\n',
    "one continued command": "  --flag-{n} value \\\n",
    "substitutions": "X=$(echo $(basename /a/b/{n}) | tr a b)\n",
    "backticks": "X=`echo {n}`\n",
    "conditions": 'if [ "$A" = {n} ]; then B={n}; else C={n}; fi\n',
    "one array": '  --flag-{n} "$A"\n',
    "heredocs": 'cat > f{n} <<EOF\n{{"a": $A}}\nEOF\n',
    "broken lines": "torchrun ) x {n}\n",
    "lost arguments": "torchrun --a {n} \\\n  # note\n  --b\n",
}
WRAPPED = {"one continued command": "torchrun \\\n{lines}", "one array": "A=(\n{lines})\n"}


def main() -> int:
    """1 if the reading of a kind grows faster than the limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    worst = 0.0
    for kind in KINDS:
        times = [_seconds(kind, lines, repeats) for lines in LENGTHS]
        exponent = math.log(times[-1] / times[0]) / math.log(LENGTHS[-1] / LENGTHS[0])
        worst = max(worst, exponent)
        shown = "  ".join(f"{taken * 1000:8.1f} ms" for taken in times)
        print(f"{kind:24} {shown}   exponent {exponent:.2f}")
    print(f"worst exponent {worst:.2f} (limit {LIMIT:g})")
    return int(worst > LIMIT)


def _seconds(kind: str, lines: int, repeats: int) -> float:
    """The best of some readings, in seconds of processor time, without garbage collection, as timeit measures."""
    body = "".join(KINDS[kind].format(n=number) for number in range(lines))
    source = Source("launch.sh", WRAPPED.get(kind, "{lines}").replace("{lines}", body))
    taken: list[float] = []
    gc.disable()
    for _ in range(repeats):
        started = time.process_time()
        read_tree(source)
        taken.append(time.process_time() - started)
    gc.enable()
    return min(taken)


if __name__ == "__main__":
    sys.exit(main())
