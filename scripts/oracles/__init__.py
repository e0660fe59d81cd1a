"""What a question to a framework's own parser is, and how its answers are kept as test data."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from random import Random
from typing import NamedTuple, Protocol, TypeVar

ANSWERS = Path(__file__).parents[2] / "tests" / "data" / "oracles"
"""One file per framework: what it was asked and what it said."""

VALID = "valid"
"""The kind of the questions that the framework is expected to accept."""

Case = TypeVar("Case")
"""What a question is made of, as the module of its questions has it."""

Plain = bool | int | float | str | None


class Question(NamedTuple):
    """Files as a user would have them.

    `kind` is `valid`, or the mistake that was made in them on purpose, by the name of dtlint's rule about it where
    there is one. `files` maps a path to its text; `settings` is what dtlint has to be told beside them (`--set`), such
    as the number of ranks and the version.
    """

    name: str
    kind: str
    files: Mapping[str, str]
    settings: Mapping[str, Plain]


class Answer(NamedTuple):
    """`refused` is the first line of the framework's error, None where it accepts.

    `derived` are the values that it settles on, by the names of dtlint's vocabulary; {} where it refuses.
    """

    refused: str | None
    derived: Mapping[str, Plain]


class Oracle(Protocol):
    """A module of this package: questions and how to ask them.

    `PACKAGES` are the distributions whose versions are kept with the answers. A framework that is a repository has
    `CHECKOUTS` too: its name and the variable that says where it lies; its commit is kept. One whose answers are held
    against something else than a plan has an `ANSWERS` folder of its own. `EXPLAINED` maps the name
    of a question to why dtlint rightly says something else than the framework.
    """

    PACKAGES: tuple[str, ...]
    EXPLAINED: Mapping[str, str]

    def questions(self) -> list[Question]:
        """The same list at each call."""

    def ask(self, question: Question) -> Answer:
        """What the framework says."""


def with_mutants(
    valid: Sequence[Case],
    kinds: Mapping[str, Callable[[list[Case], Random], Iterable[Case]]],
    question: Callable[[str, str, Case], Question],
) -> list[Question]:
    """The valid cases first, then for each mistake what it makes of them; the same at each call."""
    random, cases = Random(0), list(valid)
    asked = [question(f"{VALID}-{index}", VALID, case) for index, case in enumerate(cases)]
    for kind, mutants in kinds.items():
        asked.extend(question(f"{kind}-{index}", kind, case) for index, case in enumerate(mutants(cases, random)))
    return asked


@contextmanager
def at_hand(files: Mapping[str, str]) -> Iterator[StringIO]:
    """A question's files in a folder of their own, which is the current one; yields what is said on standard error."""
    said = StringIO()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        for name, text in files.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        stack.callback(os.chdir, Path.cwd())
        os.chdir(folder)
        stack.enter_context(redirect_stderr(said))
        stack.enter_context(redirect_stdout(StringIO()))
        yield said


def keep(
    name: str,
    versions: Mapping[str, str],
    rows: list[tuple[Question, Answer]],
    explained: Mapping[str, str],
    folder: Path = ANSWERS,
) -> Path:
    """Write what was asked and answered, a line each, so that a change of answers is a readable diff."""
    head = json.dumps({"versions": dict(sorted(versions.items()))})
    lines = [head, *(json.dumps(_row(question, answer, explained)) for question, answer in rows)]
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _row(question: Question, answer: Answer, explained: Mapping[str, str]) -> dict[str, object]:
    why = {"explained": explained[question.name]} if question.name in explained else {}
    return {**question._asdict(), **answer._asdict(), **why}
