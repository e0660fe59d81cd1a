"""dtlint beside `python -c pass`, `git grep` and other linters, on the same files in the same run.

    python benchmarks/speed.py [--repeats 5] [--files 3000 30000] [--tools FOLDER]

The other linters are those that are installed, in FOLDER or on the path; each is given the files of its own kind, and
what a tool does not cover is not asked of it. The commands alternate, so that load meets all alike. For each: the best
and the median of wall time, the best of processor time (all processes), the peak memory of the largest process, and
the processor time as a multiple of that of `python -c pass` (of files) or of `git grep` (of trees); for trees of
several sizes how time grows with the files (the exponent).

dtlint is measured twice: the first time that it is asked, with its kept answers removed, and from the answer that it
keeps. Its tables are compiled beforehand, as in a wheel. The exit status is 1 if a ratio is over its limit.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from trees import make_tree

from dtlint.record import NamedTuple
from dtlint.runs.kinds import MARKERS

FIXTURES = Path(__file__).parent.parent / "fixtures"
PASS = "python -c pass"
GREP = "git grep -lF, all markers"
FIRST, KEPT = "dtlint, the first time", "dtlint, answer kept"
FILES, PROGRAM = "one JSON and one script", "a script and its Python program"
LIMITS = {(FILES, FIRST): 6.0, (FILES, KEPT): 6.0, (PROGRAM, FIRST): 22.0, (PROGRAM, KEPT): 22.0}
"""Most times `python -c pass` that dtlint takes."""
KEPT_LIMIT = 4.0
"""Most times `git grep` that a kept answer about a tree takes."""
MEGABYTE = 1024
"""Kilobytes, in which the system tells the peak memory."""


class Command(NamedTuple):
    """A command, where it runs, and the names of files that it is given on top."""

    words: tuple[str, ...]
    folder: Path
    files: tuple[str, ...] = ()


class Taken(NamedTuple):
    """Seconds and megabytes of one run."""

    wall: float
    processor: float
    peak: float


Times = Mapping[str, Sequence[Taken]]


def main() -> int:
    """Measure and print every table; 1 if a ratio is over its limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--files", type=int, nargs="*", default=[3000, 30000])
    parser.add_argument("--tools", type=Path, default=Path(sys.executable).parent)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        cache = Path(work, "cache")
        few = {FILES: _two_files(given.tools), PROGRAM: _program(given.tools)}
        small = {title: _measure(commands, cache, given.repeats * 3) for title, commands in few.items()}
        for title, times in small.items():
            _print(title, times, PASS)
        grown = {count: _tree(Path(work, str(count)), count, given, cache) for count in given.files}
    _print_growth(grown)
    over = any(_ratio(small[title], name, PASS) > limit for (title, name), limit in LIMITS.items())
    return int(over or any(_ratio(times, KEPT, GREP) > KEPT_LIMIT for times in grown.values()))


def _two_files(tools: Path) -> dict[str, Command]:
    folder = FIXTURES / "half-idle-pipeline"
    others = {
        "check-jsonschema (the JSON)": Command(
            (*_tool(tools, "check-jsonschema"), "--check-metaschema"), folder, ("ds_config.json",)
        ),
        "shellcheck (the script)": Command(_tool(tools, "shellcheck"), folder, ("launch.sh",)),
    }
    return {**_own(folder, ("check", "ds_config.json", "launch.sh")), **_present(others)}


def _program(tools: Path) -> dict[str, Command]:
    folder = FIXTURES / "silent-divergence"
    others = {
        "ruff (the program)": Command(
            (*_tool(tools, "ruff"), "check", "--isolated", "--no-cache", "-q"), folder, ("train.py",)
        ),
        "torchfix (the program)": Command(_tool(tools, "torchfix"), folder, ("train.py",)),
        "shellcheck (the script)": Command(_tool(tools, "shellcheck"), folder, ("launch.sh",)),
    }
    return {**_own(folder, ("check", "launch.sh", "train.py")), **_present(others)}


def _tree(folder: Path, count: int, given: argparse.Namespace, cache: Path) -> Times:
    make_tree(folder, count)
    tools: Path = given.tools
    others = {
        "ruff (Python)": Command((*_tool(tools, "ruff"), "check", "--isolated", "--no-cache", "-q", "."), folder),
        "torchfix (Python)": Command((*_tool(tools, "torchfix"), "."), folder),
        "yamllint (YAML)": Command((*_tool(tools, "yamllint"), "-f", "parsable", "."), folder),
        "check-jsonschema (JSON)": Command(
            (*_tool(tools, "check-jsonschema"), "--check-metaschema"), folder, _names(folder, "*.json")
        ),
        "shellcheck (scripts)": Command(_tool(tools, "shellcheck"), folder, _names(folder, "*.sh")),
    }
    words = sorted({mark.decode() for marks in MARKERS.values() for mark in marks})
    grep = ("git", "grep", "-lF", *(part for word in words for part in ("-e", word)))
    commands = {GREP: Command(grep, folder), **_own(folder, ("check", ".")), **_present(others)}
    repeats = given.repeats if count <= 5000 else max(2, given.repeats // 2)
    times = _measure(commands, cache, repeats)
    _print(f"a tree of {count:,} files", times, GREP)
    shutil.rmtree(folder)
    return times


def _own(folder: Path, words: tuple[str, ...]) -> dict[str, Command]:
    dtlint = (str(Path(sys.executable).with_name("dtlint")), *words)
    return {
        PASS: Command((sys.executable, "-c", "pass"), folder),
        FIRST: Command(dtlint, folder),
        KEPT: Command(dtlint, folder),
    }


def _tool(tools: Path, name: str) -> tuple[str, ...]:
    """The command of a tool, nothing where it is not installed."""
    beside = tools / name
    found = str(beside) if beside.exists() else shutil.which(name)
    return (found,) if found else ()


def _present(commands: Mapping[str, Command]) -> dict[str, Command]:
    """The commands whose tool is installed, and that have files to look at."""
    return {
        name: command
        for name, command in commands.items()
        if command.words and command.words[0].startswith("/") and (command.files or "." in command.words)
    }


def _names(folder: Path, pattern: str) -> tuple[str, ...]:
    return tuple(str(file.relative_to(folder)) for file in sorted(folder.rglob(pattern)))


def _measure(commands: Mapping[str, Command], cache: Path, repeats: int) -> Times:
    """The runs of each command; one more goes before, in which tables are compiled and files come into memory."""
    times: dict[str, list[Taken]] = {name: [] for name in commands}
    for _ in range(repeats + 1):
        for name, command in commands.items():
            if name == FIRST:
                shutil.rmtree(cache / "dtlint" / "answers", ignore_errors=True)
            times[name].append(_run(command, cache))
    return {name: taken[1:] for name, taken in times.items()}


def _run(command: Command, cache: Path) -> Taken:
    hidden = ("PYTHONDONTWRITEBYTECODE",)
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment["XDG_CACHE_HOME"] = str(cache)
    started = time.perf_counter()
    process = subprocess.Popen(
        (*command.words, *command.files),
        cwd=command.folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, _, used = os.wait4(process.pid, 0)
    process.returncode = 0
    return Taken(time.perf_counter() - started, used.ru_utime + used.ru_stime, used.ru_maxrss / MEGABYTE)


def _print(title: str, times: Times, floor: str) -> None:
    print(f"\n{title}\n{'':32}{'wall best':>11}{'median':>9}{'processor':>11}{'peak':>9}{'ratio':>7}   to {floor}")
    for name, taken in times.items():
        walls = [each.wall * 1000 for each in taken]
        processor = _processor(times, name) * 1000
        peak = max(each.peak for each in taken)
        wall = f"{min(walls):8.0f} ms{median(walls):6.0f} ms"
        print(f"{name:32}{wall}{processor:8.0f} ms{peak:6.0f} MB{_ratio(times, name, floor):7.1f}")


def _ratio(times: Times, name: str, floor: str) -> float:
    return _processor(times, name) / _processor(times, floor)


def _processor(times: Times, name: str) -> float:
    """The best processor time of a command, in seconds."""
    return min(each.processor for each in times[name])


def _print_growth(grown: Mapping[int, Times]) -> None:
    """How processor time grows with the files: the exponent between the smallest and the largest tree."""
    if len(grown) < 2:
        return
    small, large = min(grown), max(grown)
    print(f"\ngrowth from {small:,} to {large:,} files (exponent of processor time)")
    for name in grown[small]:
        if name != PASS and name in grown[large]:
            before, after = (_processor(grown[count], name) for count in (small, large))
            print(f"{name:32}{math.log(after / before) / math.log(large / small):6.2f}")


if __name__ == "__main__":
    sys.exit(main())
