"""What has been found out about programs: about one, and about the files that several programs of a tree share."""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, TypeVar

from dtlint.languages.json_tree import Node
from dtlint.languages.python.imported import Late
from dtlint.languages.python.recent import Recent
from dtlint.languages.python.tree import Module, Scope, Site
from dtlint.record import NamedTuple
from dtlint.source import Source

if TYPE_CHECKING:
    from dtlint.languages.python.program import Program

Found = TypeVar("Found")


class Question(NamedTuple):
    """What a finding asked of its program: `kind` of question, the file that it came up in, what it was about."""

    kind: str
    module: str
    top: Scope | None
    about: Hashable


Questions = dict[Question, object]
"""What was asked of a program, each with the answer by which another program is compared."""


MOST_CHARACTERS = 1_000_000
"""Most text that is read before what was not used meanwhile is dropped; the syntax tree of a character takes some 35
bytes.
"""

Sites = tuple[tuple[Module, Site], ...]
"""Places in files, each with its file."""


class Answer(NamedTuple):
    """What was found out about a place, and all that it rests on beside the place's own file."""

    questions: Mapping[Question, object]
    found: object


class Definition(NamedTuple):
    """A function or class and the module that defines it."""

    module: Module
    scope: Scope


class Shared:
    """What is kept for the programs of a tree that come next: themselves by entry script and name, the files, the
    config files that they load, what follows from a file alone (`of_files`), and answers about places.
    """

    __slots__ = ("answers", "configs", "dropped", "modules", "of_files", "programs", "read")

    def __init__(self) -> None:
        self.answers: Recent[Hashable, list[Answer]] = Recent()
        self.configs: dict[Source, Node | None] = {}
        self.modules: Recent[tuple[Source, str], Module] = Recent()
        self.of_files: Recent[tuple[str, Hashable], tuple[object]] = Recent()
        self.programs: Recent[tuple[Source, str], Program] = Recent()
        self.read = 0
        self.dropped = 0

    def module(self, source: Source, name: str, read: Callable[[Source], Module]) -> Module:
        """A file under the name that a program gives to it; each file is read once."""
        bare = self.modules.get((source, "")) or self._read(source, read)
        if not name:
            return bare
        return self.modules.get((source, name)) or self.modules.keep((source, name), bare._replace(name=name))

    def _read(self, source: Source, read: Callable[[Source], Module]) -> Module:
        self.read += len(source.text)
        return self.modules.keep((source, ""), read(source))

    def config(self, source: Source, read: Callable[[Source], Node | None]) -> Node | None:
        """The tree of a config file, read once: programs that load the same file are told the same."""
        if source not in self.configs:
            self.configs[source] = read(source)
        return self.configs[source]

    def forget_older(self) -> None:
        """Drop what the programs of late have not used, when so much text was read that memory could run short."""
        if self.read <= MOST_CHARACTERS:
            return
        self.read = 0
        self.answers.forget_older()
        self.of_files.forget_older()
        self.programs.forget_older()
        dropped = self.modules.forget_older()
        self.dropped += sum(len(module.source.text) for module in dropped if not module.name)
        if self.dropped > MOST_CHARACTERS:
            self.dropped = 0
            gc.collect()


class Files:
    """What the files of one program tell, however it is launched; `late` and `configs` read more of them."""

    __slots__ = (
        "callers", "configs", "definitions", "handed_over", "late", "located",
        "packages", "shared", "sites", "subclasses",
    )  # fmt: skip

    def __init__(
        self,
        shared: Shared | None = None,
        late: Late | None = None,
        configs: Callable[[str], Node | None] | None = None,
    ) -> None:
        """`configs` gives the tree of a config file by its path as the program names it."""
        self.shared = shared or Shared()
        self.late = late
        self.configs = configs
        self.callers: dict[Scope, Sites] = {}
        self.handed_over: dict[Scope, Sites] = {}
        self.definitions: dict[tuple[str, str], Definition | None] = {}
        self.located: dict[tuple[str, str], tuple[Module, str] | None] = {}
        self.sites: dict[str, Sites] = {}
        self.packages: dict[str, bool] = {}
        self.subclasses: Mapping[str, tuple[Scope, ...]] | None = None


class Memo:
    """What has been found out about one program; `questions` collects what is being asked of it (None: nobody wants
    to know). What a launch gives decides on `answers`, not on what the `files` tell.
    """

    __slots__ = ("answers", "files", "questions")

    def __init__(self, files: Files) -> None:
        self.files = files
        self.answers: dict[Hashable, Answer] = {}
        self.questions: Questions | None = None

    def note(self, kind: str, module: Module | None, about: Hashable, said: object) -> None:
        """Remember that a question was asked, and by what another program's answer is told to be the same."""
        if self.questions is not None:
            name, top = ("", None) if module is None else (module.name, module.top)
            self.questions[Question(kind, name, top, about)] = said
