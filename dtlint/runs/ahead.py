"""Has a second process read a share of a tree's programs while this one reads the others.

Reading a program takes most of the time of a large tree, and what it tells follows from its files and the words of its
launch alone. The programs keep their order, in which those of one folder stand together: the first half is read here,
the second half there. What comes back equals what this process would have found, and it reads itself what the other one
does not answer.
"""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
from collections.abc import Iterable, Sequence
from io import BytesIO
from itertools import accumulate
from pathlib import Path
from typing import IO, cast

from dtlint.cli import OBJECTS_BETWEEN_COLLECTIONS
from dtlint.runs.follow import LEAST_SCRIPTS
from dtlint.runs.programs import Started, Told, read_program
from dtlint.runs.tree import Tree
from dtlint.source import Source

SWITCH = "DTLINT_PROCESSES"
"""The environment variable that keeps dtlint to one process where it is 1."""

_COMMAND = "import sys; sys.path[:] = {path!r}; from dtlint.runs.ahead import answer; answer()"


class Ahead:
    """The programs of a tree that a second process reads: the second half of those that are on disk."""

    def __init__(self, programs: Iterable[Started], tree: Tree) -> None:
        packed = {each: data for each in dict.fromkeys(programs) if (data := _packed(each, tree))}
        theirs = _second_half(tuple(packed))
        self._places = {each: number for number, each in enumerate(theirs)}
        self._tree = tree
        self._told: Sequence[bytes] | None = None
        self._process = _process((tree.root, tree.current, [packed[each] for each in theirs]))

    def told(self, program: Started) -> Told | None:
        """What a program tells, None where it is left to this process."""
        if program not in self._places:
            return None
        if self._told is None:
            self._told = _received(self._process) if self._process is not None else ()
        packed = self._told[self._places[program]] if self._told else b""
        return cast("Told", _unpacked(packed, self._tree)) if packed else None


def _second_half(programs: Sequence[Started]) -> Sequence[Started]:
    """The programs behind the middle of the text of all their scripts, which tells how long they take."""
    ends = list(accumulate(len(entry.text) for entry, _ in programs))
    return [each for each, end in zip(programs, ends, strict=True) if 2 * end > ends[-1]]


def pays(programs: Iterable[Started]) -> bool:
    """Whether programs are so many that a second process is worth its start, and one may be started."""
    if os.environ.get(SWITCH) == "1" or (os.cpu_count() or 1) < 2 or getattr(sys, "frozen", False):
        return False
    return bool(sys.executable) and len({entry for entry, _ in programs}) >= LEAST_SCRIPTS


def _process(order: object) -> subprocess.Popen[bytes] | None:
    """The process that `answer`s an order; None where the system starts none."""
    command = [sys.executable, "-I", "-c", _COMMAND.format(path=sys.path)]
    try:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert process.stdin is not None
        with process.stdin as stream:
            pickle.dump(order, stream)
    except OSError:
        return None
    return process


def _received(process: subprocess.Popen[bytes]) -> Sequence[bytes]:
    """What the process answers, program by program; () where it failed."""
    assert process.stdout is not None
    with process, process.stdout as stream:
        data = stream.read()
    return cast("Sequence[bytes]", pickle.loads(data)) if process.returncode == 0 else ()


def answer() -> None:
    """What the second process does: read the programs that it is asked for, and write what they tell."""
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    root, current, programs = pickle.load(sys.stdin.buffer)
    tree = Tree(root, current)
    pickle.dump(
        [_packed(read_program(cast("Started", _unpacked(each, tree)), tree), tree) for each in programs],
        sys.stdout.buffer,
    )


def _packed(each: object, tree: Tree) -> bytes:
    """An object as bytes, its files by name; b"" for one with places in a text that no file of the tree holds."""
    stream = BytesIO()
    try:
        _Pickler(stream, tree).dump(each)
    except pickle.PicklingError:
        return b""
    return stream.getvalue()


def _unpacked(data: bytes, tree: Tree) -> object:
    return _Unpickler(data, tree).load()


class _Pickler(pickle.Pickler):
    def __init__(self, stream: IO[bytes], tree: Tree) -> None:
        super().__init__(stream, pickle.HIGHEST_PROTOCOL)
        self._tree = tree

    def persistent_id(self, each: object) -> str | None:
        if not isinstance(each, Source):
            return None
        if each.file is None or self._tree.source(each.file) is not each:
            raise pickle.PicklingError(each.path)
        return str(each.file)


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: bytes, tree: Tree) -> None:
        super().__init__(BytesIO(data))
        self._tree = tree

    def persistent_load(self, name: object) -> Source:
        return self._tree.source(Path(str(name)))
