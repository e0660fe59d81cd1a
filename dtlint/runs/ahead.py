"""Has a second process read programs of a tree from the last one on, while this one reads them from the first one on.

Reading the programs takes most of the time of a large tree, and what one tells follows from its files and the words of
its launch alone: what the second process answers equals what this one would have found, and where the two meet depends
on the machine without any effect on the outcome. Programs of one folder stand together, so that each process reads
few files that the other one reads too.
"""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
from collections.abc import Iterable, Sequence
from io import BytesIO
from pathlib import Path
from threading import Condition, Thread
from typing import IO, cast

from dtlint.account import Account, include, keeping
from dtlint.runs.follow import LEAST_PROGRAMS
from dtlint.runs.programs import Started, Told, read_program
from dtlint.runs.tree import Tree
from dtlint.source import Source

SWITCH = "DTLINT_PROCESSES"
"""The environment variable that keeps dtlint to one process where it is 1."""

_COMMAND = "import sys; sys.path[:] = {path!r}; from dtlint.runs.ahead import answer; answer()"


Order = tuple[tuple[int, int, int], Path, Path, tuple[bytes, ...]]
"""What the second process is asked for: when it looks for garbage, `root` and `current` as in Tree, the programs."""


class Ahead:
    """What a second process tells of programs, which this one asks for in their order; `process` runs `answer`."""

    def __init__(self, programs: Iterable[Started], tree: Tree, process: subprocess.Popen[bytes]) -> None:
        packed = {each: data for each in dict.fromkeys(programs) if (data := _packed(each, tree))}
        self._tree = tree
        self._numbers = {each: number for number, each in enumerate(packed)}
        self._answers: dict[int, bytes] = {}
        self._looks: list[Account] = []
        self._arrival = Condition()
        self._awaited = len(packed) - 1
        self._process = process
        order: Order = gc.get_threshold(), tree.root, tree.current, tuple(packed.values())[::-1]
        Thread(target=self._exchange, args=(pickle.dumps(order),), daemon=True).start()

    def told(self, program: Started) -> Told | None:
        """What a program tells, None where it is left to this process."""
        number = self._numbers.get(program, -1)
        if 0 <= self._awaited <= number:
            with self._arrival:
                self._arrival.wait_for(lambda: self._awaited < number or self._awaited < 0)
            self.close()
        answer = self._answers.get(number)
        if not answer:
            return None
        self._take_looks()
        return cast("Told", _unpacked(answer, self._tree))

    def _take_looks(self) -> None:
        """Note what the second process looked at as looks of this one."""
        with self._arrival:
            looks, self._looks = self._looks, []
        for account in looks:
            include(account)

    def close(self) -> None:
        """End the second process: what it has not read yet was read here."""
        self._process.kill()
        self._process.wait()

    def _exchange(self, order: bytes) -> None:
        """Hand the order over and take in the answers, from the last program on, until the process ends."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        try:
            with stdin:
                stdin.write(order)
            with stdout:
                while self._awaited >= 0:
                    self._arrived(*pickle.load(stdout))
        except (OSError, EOFError, pickle.UnpicklingError):
            self._arrived(None)

    def _arrived(self, answer: bytes | None, looks: Account | None = None) -> None:
        with self._arrival:
            if answer is not None:
                self._answers[self._awaited] = answer
            if looks is not None:
                self._looks.append(looks)
            self._awaited = self._awaited - 1 if answer is not None else -1
            self._arrival.notify_all()


def started(programs: Sequence[Started], tree: Tree) -> Ahead | None:
    """A second process that reads programs; None where they are too few for its start, or where none can be started."""
    if os.environ.get(SWITCH) == "1" or (os.cpu_count() or 1) < 2 or getattr(sys, "frozen", False):
        return None
    if not sys.executable or len(set(programs)) < LEAST_PROGRAMS:
        return None
    command = [sys.executable, "-I", "-c", _COMMAND.format(path=sys.path)]
    try:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except OSError:
        return None
    return Ahead(programs, tree, process)


def answer() -> None:
    """What the second process does: read the programs that it is asked for, and write what each tells, with the account
    of what it looked at for it and not for one before.
    """
    order: Order = pickle.load(sys.stdin.buffer)
    threshold, root, current, programs = order
    gc.set_threshold(*threshold)
    tree = Tree(root, current)
    for each in programs:
        with keeping() as account:
            told = read_program(cast("Started", _unpacked(each, tree)), tree)
        pickle.dump((_packed(told, tree), account), sys.stdout.buffer)
        sys.stdout.buffer.flush()


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
