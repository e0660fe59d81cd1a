"""The `dtlint` entry point: runs a command line and ends the process with its status, never with a traceback.

The command line is read by click, whose import takes longer than a check. What hooks call, `dtlint check` and paths
without an option, is told apart by one look and goes to the check directly; a test holds that both ways ask for the
same.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from io import TextIOWrapper
from typing import NoReturn

FAILED = 2
"""Exit status for bad usage and for a crash; findings end with 1, so that the two are never confused."""

OBJECTS_BETWEEN_COLLECTIONS = 1_000_000
"""Python looks for cyclic garbage every 700 objects. While modules load and files are parsed, objects come by the
hundred thousand and stay: looking for garbage among them took a third of the time of a check.
"""

COMPLETION = "_DTLINT_COMPLETE"
"""The variable by which a shell asks for completions of a line."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line of this process, or `arguments`, and end the process."""
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    words = sys.argv[1:] if arguments is None else arguments
    _leave(_guarded(partial(_answer, words) if may_be_kept(words) else partial(_work, words)))


def run(arguments: Sequence[str]) -> int:
    """Run a command line and return its exit status."""
    return _guarded(partial(_work, arguments))


def _guarded(work: Callable[[], int]) -> int:
    """The exit status of some work, however it ends."""
    from dtlint.request import INTERRUPTED, Ended, Refusal, say

    try:
        return work()
    except Refusal as refusal:
        say(f"dtlint: {refusal}")
        return FAILED
    except Ended as ended:
        return ended.status
    except (KeyboardInterrupt, EOFError):
        say("\ninterrupted")
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last line of defence: a crash must not end with 1, which means findings
        return _crashed(error)


def _work(arguments: Sequence[str]) -> int:
    return _check(arguments[1:]) if is_plain_check(arguments) else _command(arguments)


def _answer(arguments: Sequence[str]) -> int:
    from dtlint.answers import answered

    return answered(arguments, partial(_work, arguments))


def may_be_kept(arguments: Sequence[str]) -> bool:
    """Whether the answer to a command line may be one that was given before."""
    return COMPLETION not in os.environ and list(arguments[:1]) == ["check"] and "--no-cache" not in arguments


def is_plain_check(arguments: Sequence[str]) -> bool:
    """Whether a command line is `check` and paths, without any option."""
    if COMPLETION in os.environ or not arguments or arguments[0] != "check":
        return False
    return not any(word.startswith("-") for word in arguments[1:])


def _check(paths: Sequence[str]) -> int:
    from dtlint.commands import Choice, check_files
    from dtlint.request import Destination, Reading

    return check_files(Reading(tuple(paths)), Choice(), (Destination(),))


def _command(arguments: Sequence[str]) -> int:
    from dtlint.cli_commands import run_command

    return run_command(arguments)


def _leave(status: int) -> NoReturn:
    """End the process as it is: Python would take every module and object apart first, a tenth of the whole run."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        sys.exit(status)
    os._exit(status)


def _crashed(error: Exception) -> int:
    from pathlib import Path

    from dtlint.report.terminal import printable
    from dtlint.request import say

    if os.environ.get("DTLINT_TRACEBACK"):
        raise error
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f" at {Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace else ""
    say(f"dtlint: a fault in dtlint itself: {type(error).__name__}: {printable(str(error))}{where}")
    say("Set DTLINT_TRACEBACK=1 to see all of it; please report it with the file that it was about.")
    return FAILED
