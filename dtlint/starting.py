"""Starts a program and takes what it prints, without what makes the standard library's way slower to load than git."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping

AT_ONCE = 1 << 16
"""Bytes that are read at a time: what a pipe holds."""


def start(words: tuple[str, ...], environment: Mapping[str, str], patience: float) -> Callable[[], bytes | None]:
    """Start a program, without input; what comes back waits for all that it prints to standard output.

    That is None for a program that cannot be started, takes longer than `patience` seconds, or ends with a failure.
    """
    if sys.platform == "win32":
        return lambda: _run(words, environment, patience)
    end = time.monotonic() + patience
    reading, writing = os.pipe()
    nothing = os.open(os.devnull, os.O_RDWR)
    ways = [(os.POSIX_SPAWN_DUP2, source, target) for target, source in enumerate((nothing, writing, nothing))]
    try:
        process = os.posix_spawnp(words[0], words, environment, file_actions=ways)
    except (OSError, ValueError):
        os.close(reading)
        return lambda: None
    finally:
        os.close(nothing)
        os.close(writing)
    return lambda: _printed(process, reading, end)


def _run(words: tuple[str, ...], environment: Mapping[str, str], patience: float) -> bytes | None:
    import subprocess

    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, check=False, env=environment, timeout=patience
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return None if done.returncode else done.stdout


def _printed(process: int, reading: int, end: float) -> bytes | None:
    """What a process prints until `end`, a time of the monotonic clock; it is killed if it takes longer."""
    data = _read(reading, end)
    os.close(reading)
    if data is None:
        from signal import SIGKILL

        os.kill(process, SIGKILL)
    try:
        _, status = os.waitpid(process, 0)
    except ChildProcessError:
        return None
    return None if os.waitstatus_to_exitcode(status) else data


def _read(reading: int, end: float) -> bytes | None:
    from select import POLLIN, poll

    waiting = poll()
    waiting.register(reading, POLLIN)
    pieces: list[bytes] = []
    while waiting.poll(max(0.0, end - time.monotonic()) * 1000):
        piece = os.read(reading, AT_ONCE)
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)
    return None
