"""Answers of `dtlint check` that were given before: said again where nothing that they rest on has changed.

An answer is what a run wrote, to which places, and its exit status. It is kept under all that the command was asked
with (its words, the current folder, what of the environment and the terminal shows in reports, dtlint, Python) and
together with everything that the run looked at on disk. Only an answer for which all of this is the same is given.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from dtlint import __version__
from dtlint.account import digest, keeping
from dtlint.record import NamedTuple
from dtlint.request import say
from dtlint.resting import Rest, rest_of, still
from dtlint.shelf import keep, taken
from dtlint.streams import put, put_end, put_file
from dtlint.user_cache import cache_folder

FORM = 1
"""Changes with the form of what is kept."""

SHOWN_IN_REPORTS = (
    "COLUMNS", "DTLINT_TRACEBACK", "FORCE_COLOR", "GITHUB_STEP_SUMMARY", "LANG", "LC_ALL", "LC_CTYPE", "NO_COLOR",
    "TERM",
)  # fmt: skip
"""Variables that dtlint, or Python for it, looks at while it checks."""


class Answer(NamedTuple):
    """What a run said, each text with where it went and the file if it is one; its exit status; what it rests on."""

    said: tuple[tuple[str, str, str], ...]
    status: int
    rest: Rest


def answered(words: Sequence[str], work: Callable[[], int]) -> int:
    """The exit status of a command line after its answer was given: the one that is kept, else that of `work`."""
    folder, question = cache_folder(), question_of(words)
    if folder is None or question is None:
        return work()
    shelf, name = folder / "answers", f"{digest(question.encode())}.json"
    kept = _read(taken(shelf, name), name, words)
    rest = None if kept is None else _still(kept.rest)
    if kept is not None and rest is not None:
        _say_again(kept)
        if rest != kept.rest:
            keep(shelf, name, _written(name, kept._replace(rest=rest)))
        return kept.status
    with keeping() as account:
        status = work()
    found = rest_of(account)
    if found is not None:
        keep(shelf, name, _written(name, Answer(tuple(account.said), status, found)))
    return status


def _still(rest: Rest) -> Rest | None:
    """What an answer rests on if it is as it was; None too for what no dtlint writes."""
    try:
        return still(rest)
    except (TypeError, ValueError, LookupError, AttributeError, OSError):
        return None


def question_of(words: Sequence[str]) -> str | None:
    """All that an answer depends on beside the disk, as a text; None where there is no current folder."""
    try:
        current = os.getcwd()  # noqa: PTH109
        return json.dumps((FORM, _dtlint(), sys.version, sys.path, _installed(), current, words, _shown(), _streams()))
    except OSError:
        return None


def _shown() -> list[str | None]:
    return [os.environ.get(name) for name in SHOWN_IN_REPORTS]


def _streams() -> list[object]:
    """What of standard output and error shows in what is written: terminal, columns, encoding."""
    streams = (sys.stdout, sys.stderr)
    return [[each.isatty(), each.encoding, each.errors, _columns(each.fileno)] for each in streams]


def _columns(number: Callable[[], int]) -> int:
    try:
        return os.get_terminal_size(number()).columns
    except (OSError, ValueError):
        return 0


def _dtlint() -> list[object]:
    """What tells this dtlint from another of the same version: of an installed one its compiled rules, in a checkout
    every file.
    """
    package = Path(__file__).parent
    compiled = package / "_compiled" / "rules.json"
    try:
        return [__version__, str(compiled), compiled.stat().st_mtime_ns, compiled.stat().st_size]
    except OSError:
        rules = package / "rules"
        state = [*_state(str(package)), *_state(str(rules if rules.is_dir() else package.parent / "rules"))]
        return [__version__, digest(repr(state).encode(errors="surrogateescape"))]


def _state(folder: str) -> Iterator[tuple[str, int, int]]:
    with os.scandir(folder) as found:
        for entry in found:
            if entry.is_dir() and entry.name != "__pycache__":
                yield from _state(entry.path)
            elif entry.is_file():
                status = entry.stat()
                yield entry.path, status.st_mtime_ns, status.st_size


def _installed() -> list[str]:
    """The names of the installed packages, each with its version."""
    folders = [folder for folder in sys.path if folder.endswith("-packages")]
    names = (name for folder in folders if os.path.isdir(folder) for name in os.listdir(folder))  # noqa: PTH112, PTH208
    return sorted(name for name in names if name.endswith((".dist-info", ".egg-info")))


def _written(name: str, answer: Answer) -> bytes:
    """An answer as it is kept: without the question, in which there may be a secret."""
    kept = [name, answer.said, answer.status, answer.rest.sights, answer.rest.listings]
    text = json.dumps(kept, separators=(",", ":"))
    return f"{digest(text.encode())}\n{text}".encode()


def _read(data: bytes | None, name: str, words: Sequence[str]) -> Answer | None:
    """The answer in a kept text; None for one that is not whole, or answers something else."""
    first, _, rest = (data or b"").partition(b"\n")
    if not rest or first.decode(errors="replace") != digest(rest):
        return None
    try:
        asked, said, status, sights, listings = json.loads(rest)
        answer = Answer(tuple((str(a), str(b), str(c)) for a, b, c in said), int(status), Rest(sights, listings))
    except (ValueError, TypeError, RecursionError):
        return None
    return answer if asked == name and _may_say(answer, words) else None


def _may_say(answer: Answer, words: Sequence[str]) -> bool:
    """Whether an answer writes nowhere but where the command line says."""
    named = {Path(word[place + 1 :]) for word in words for place, char in enumerate(word) if char == "="}
    places = {"out": (), "error": (), "file": named, "end": {Path(os.environ.get("GITHUB_STEP_SUMMARY", ""))}}
    return all(where in places and (not file or Path(file) in places[where]) for where, _, file in answer.said)


def _say_again(answer: Answer) -> None:
    for where, text, file in answer.said:
        if where == "out":
            put(text)
        elif where == "error":
            say(text.removesuffix("\n"))
        elif where == "file":
            put_file(Path(file), text)
        else:
            put_end(Path(file), text)
