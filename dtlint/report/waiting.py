"""A line that says what is going on, for whoever waits at a terminal longer than a moment."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threading import Event

PATIENCE_SECONDS = 1.0
"""How long nothing is said."""

CLEAR = "\r\x1b[K"


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """While the work lasts, once a second after the first, `what` and the seconds so far on standard error; the line is
    gone afterwards. Nothing where standard error is no terminal.
    """
    if not sys.stderr.isatty():
        yield
        return
    from threading import Event, Thread

    done = Event()
    teller = Thread(target=_tell, args=(what, done), daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()


def _tell(what: str, done: Event) -> None:
    seconds = 0
    while not done.wait(PATIENCE_SECONDS):
        seconds += 1
        sys.stderr.write(f"{CLEAR}{what}: {seconds} s")
        sys.stderr.flush()
    if seconds:
        sys.stderr.write(CLEAR)
        sys.stderr.flush()
