"""How long dtlint takes for the Python training code of a tree, in processor time for each candidate file.

    python benchmarks/python_speed.py FOLDER...

A candidate is a Python file that holds a word of `dtlint.runs.kinds.MARKERS`. Each is read as `dtlint check FOLDER`
reads one that nothing launches: as a program of its own, with the files of the tree that it imports. Prints for every
folder the candidates, their size, the files that were parsed (each once), and milliseconds a candidate for

    parse     ast.parse of the candidates and of what they import
    collect   scopes, names and calls of each file, and what the readers of frameworks ask of each program
    rules     settings joined to plans, and the rules on them

and the ratio of the whole to `ast.parse` alone, which does not depend on the machine. Then the exponent with which the
time grows between the smallest and the largest part of each folder (a quarter and all of its candidates).

Then `dtlint check FOLDER` with one process and with two: seconds on the clock, seconds of processor time of all
processes, and the peak of memory of the largest one.
"""

from __future__ import annotations

import argparse
import ast
import gc
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from math import log
from pathlib import Path
from unittest.mock import patch

from dtlint.api import check_set
from dtlint.cli import OBJECTS_BETWEEN_COLLECTIONS
from dtlint.config import Config
from dtlint.record import NamedTuple
from dtlint.runs.ahead import SWITCH
from dtlint.runs.follow import Follower
from dtlint.runs.join import Joiner
from dtlint.runs.kinds import relevant
from dtlint.runs.listing import walk
from dtlint.runs.model import Options
from dtlint.runs.tree import Tree

LEAST_FOR_GROWTH = 24
"""Candidates below which nothing is said of growth."""


_MEASURED = """
import resource, subprocess, sys, time
started = time.perf_counter()
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(time.perf_counter() - started, used.ru_utime + used.ru_stime, used.ru_maxrss)
"""
"""Runs a command and prints seconds, seconds of processor time, and kilobytes of its largest process."""


class Measured(NamedTuple):
    """Seconds of processor time, and how many files were parsed."""

    parse: float
    collect: float
    rules: float
    parsed: int

    @property
    def whole(self) -> float:
        """All of it."""
        return self.parse + self.collect + self.rules


class _Clock:
    """Adds up the processor time of functions while they are replaced."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.calls: dict[str, int] = {}

    def timed(self, name: str, function: Callable[..., object]) -> Callable[..., object]:
        """The function with its time added to `name`."""

        def run(*arguments: object, **options: object) -> object:
            started = time.process_time()
            try:
                return function(*arguments, **options)
            finally:
                self.seconds[name] = self.seconds.get(name, 0.0) + time.process_time() - started
                self.calls[name] = self.calls.get(name, 0) + 1

        return run


def main() -> int:
    """Measure the folders given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    folders = [folder.resolve() for folder in parser.parse_args().folders]
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    os.environ[SWITCH] = "1"
    measure(folders[0], candidates(folders[0]))  # loads the modules, which is no part of what is measured
    print("folder                   files    KB parsed  parse collect  rules     ms  ratio")
    for folder in folders:
        _print(folder, candidates(folder))
    print("\nfolder                   processes  seconds  processor  peak MB")
    for folder in folders:
        for processes in ("1", "2"):
            _print_whole(folder, processes)
    return 0


def candidates(folder: Path) -> list[Path]:
    """The Python files of a folder that are read without being named."""
    return [file for file in walk(folder, folder) if file.suffix == ".py" and relevant(file, "python")]


def measure(folder: Path, files: Sequence[Path]) -> Measured:
    """The times of one check of these files."""
    clock = _Clock()
    program = clock.timed("program", Follower._program)
    with patch.object(ast, "parse", clock.timed("parse", ast.parse)), patch.object(Follower, "_program", program):
        started = time.process_time()
        _check(folder, files)
        whole = time.process_time() - started
    parsing, programs = clock.seconds.get("parse", 0.0), clock.seconds.get("program", 0.0)
    return Measured(parsing, programs - parsing, whole - programs, clock.calls.get("parse", 0))


def _check(folder: Path, files: Sequence[Path]) -> None:
    tree = Tree(folder, folder)
    joiner = Joiner(tree, Options())
    for file in files:
        joiner.add_program(tree.source(file))
    check_set(joiner.finish((), frozenset(map(tree.shown, files))), Config())


def _print(folder: Path, files: Sequence[Path]) -> None:
    count = len(files)
    if not count:
        print(f"{folder.name:24}     0")
        return
    found = measure(folder, files)
    size = sum(file.stat().st_size for file in files) / 1024 / count
    parse, collect, rules, whole = (
        seconds * 1000 / count for seconds in (found.parse, found.collect, found.rules, found.whole)
    )
    print(
        f"{folder.name:24} {count:5} {size:5.1f} {found.parsed:6} {parse:6.2f} {collect:7.2f} {rules:6.2f} {whole:6.2f}"
        f" {found.whole / found.parse:6.1f}{_growth(folder, files, found)}",
        flush=True,
    )


def _print_whole(folder: Path, processes: str) -> None:
    """A process of its own starts the check: one that this large process starts counts its memory too."""
    command = [
        sys.executable,
        "-c",
        _MEASURED,
        sys.executable,
        "-c",
        "from dtlint.cli import main; main()",
        "check",
        ".",
    ]
    environment = {**os.environ, SWITCH: processes}
    told = subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True).stdout
    seconds, processor, kilobytes = map(float, told.split())
    print(f"{folder.name:24} {processes:>9} {seconds:8.2f} {processor:10.2f} {kilobytes / 1024:8.0f}", flush=True)


def _growth(folder: Path, files: Sequence[Path], found: Measured) -> str:
    """How the time grows from every fourth candidate to all of them."""
    part = files[::4]
    if len(files) < LEAST_FOR_GROWTH:
        return ""
    return f"  grows with exponent {log(found.whole / measure(folder, part).whole) / log(len(files) / len(part)):.2f}"


if __name__ == "__main__":
    sys.exit(main())
