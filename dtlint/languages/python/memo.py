"""What has been found out about programs: about one, and about the files that several programs of a tree share."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

from dtlint.languages.python.tree import Module, Scope, Site
from dtlint.record import NamedTuple
from dtlint.source import Source

Found = TypeVar("Found")


class Question(NamedTuple):
    """What a finding asked of its program: `kind` of question, the file that it came up in, what it was about."""

    kind: str
    module: str
    top: Scope | None
    about: Hashable


Questions = dict[Question, object]
"""What was asked of a program, each with the answer by which another program is compared."""


class Answer(NamedTuple):
    """What was found out about a place, and all that it rests on beside the place's own file."""

    questions: Mapping[Question, object]
    found: object


class Definition(NamedTuple):
    """A function or class and the module that defines it."""

    module: Module
    scope: Scope


class Shared:
    """What is kept for all programs of a tree: the files by source and name, and answers about their places."""

    __slots__ = ("answers", "modules")

    def __init__(self) -> None:
        self.answers: dict[Hashable, list[Answer]] = {}
        self.modules: dict[tuple[Source, str], Module] = {}

    def module(self, source: Source, name: str, read: Callable[[Source], Module]) -> Module:
        """A file under the name that a program gives to it; each file is read once."""
        found = self.modules.get((source, name))
        if found is None:
            bare = self.module(source, "", read) if name else read(source)
            found = self.modules[source, name] = bare._replace(name=name) if name else bare
        return found


class Memo:
    """What has been found out about one program; `questions` collects what is being asked of it (None: nobody wants
    to know).
    """

    __slots__ = ("answers", "callers", "definitions", "located", "packages", "questions", "shared", "sites")

    def __init__(self, shared: Shared | None = None, of_files: Memo | None = None) -> None:
        """`of_files`: what the same files told before; what a launch gives is left behind."""
        self.callers: dict[Scope, tuple[tuple[Module, Site], ...]] = {} if of_files is None else of_files.callers
        self.definitions: dict[tuple[str, str], Definition | None] = {} if of_files is None else of_files.definitions
        self.located: dict[tuple[str, str], tuple[Module, str] | None] = {} if of_files is None else of_files.located
        self.sites: dict[str, tuple[tuple[Module, Site], ...]] = {} if of_files is None else of_files.sites
        self.packages: dict[str, bool] = {} if of_files is None else of_files.packages
        self.shared: Shared = (shared or Shared()) if of_files is None else of_files.shared
        self.answers: dict[Hashable, Answer] = {}
        self.questions: Questions | None = None

    def note(self, kind: str, module: Module | None, about: Hashable, said: object) -> None:
        """Remember that a question was asked, and by what another program's answer is told to be the same."""
        if self.questions is not None:
            name, top = ("", None) if module is None else (module.name, module.top)
            self.questions[Question(kind, name, top, about)] = said
