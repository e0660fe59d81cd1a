"""What reading yields: launches, runs, and what could not be read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from dtlint.frameworks import Member, Reading
from dtlint.languages.traced import Word
from dtlint.plan import Plan
from dtlint.record import NamedTuple
from dtlint.source import Problem, Source, Span
from dtlint.value import Value

OWN_PARSER = "own-parser"
"""The layer of a program whose command line is all its own."""

OWN_FILES = "program-files"
"""The layer of a program that loads files of settings itself, and has no parser of a front end."""

PYTHON, NO_PYTHON = "python", "no-python"
"""The loaders of problems of programs: that some release of Python may take, and that none does."""


class Options(NamedTuple):
    """What the user adds to the files: settings (override them), the cluster of dtlint.toml (fills gaps), the
    script's caller.

    `texts` stand for what is on disk, by resolved path: changes not yet written. `expected` are values that every plan
    has to have. `clusters` are clusters for the files below a pattern, which is relative to `folder`; the first that
    fits takes the place of `cluster`. `run` are such patterns of files that are asked about as if they were named.
    `current` is what printed paths are relative to, None for the current folder.
    """

    settings: Mapping[str, Value] = {}
    cluster: Mapping[str, Value] = {}
    arguments: Mapping[str, str] = {}
    environment: Mapping[str, str] = {}
    texts: Mapping[Path, str] = {}
    expected: Mapping[str, Value] = {}
    clusters: tuple[tuple[str, Mapping[str, Value]], ...] = ()
    folder: Path | None = None
    current: Path | None = None
    run: tuple[str, ...] = ()

    def at(self, file: Path | None) -> Options:
        """The options for what a file starts: with the cluster that its path chooses."""
        path = self._below(file)
        if path is None:
            return self
        found = next((cluster for pattern, cluster in self.clusters if fnmatchcase(path, pattern)), None)
        return self if found is None else self._replace(cluster=found)

    def is_run(self, file: Path) -> bool:
        """Whether the team says that it runs a file."""
        path = self._below(file) if self.run else None
        return path is not None and any(fnmatchcase(path, pattern) for pattern in self.run)

    def _below(self, file: Path | None) -> str | None:
        """The path that patterns are held against; None for a file outside of their folder."""
        if file is None or self.folder is None or not file.is_relative_to(self.folder):
            return None
        return file.relative_to(self.folder).as_posix()


class Launch(NamedTuple):
    """One command that starts training processes: its words from the launcher on, and what its environment adds.

    `callers` are the paths of the scripts that start the one in which it stands.
    """

    place: Span
    argv: tuple[Word, ...]
    env: Mapping[str, Word]
    callers: tuple[str, ...] = ()


class Run(NamedTuple):
    """One plan and the files that it was read from. `launch` is None for a config that nothing launches.

    `branch` is the condition under which a forked plan holds; `assumptions` are sentences on how the files were joined.
    `spare` is a config of an engine that the launches beside it do not take (spare.py). `left_over` is why the
    program does not start of a launch that is left over from where its script was copied (left_over.py). `single` says
    which script starts a program as one process, where all do, and `apart` are the places that only several reach
    (plain_starts.py).
    """

    launch: Launch | None
    role: str
    branch: str | None
    sources: tuple[Source, ...]
    readings: tuple[Reading, ...]
    plan: Plan
    assumptions: tuple[str, ...] = ()
    spare: bool = False
    left_over: str = ""
    single: str = ""
    apart: frozenset[Span] = frozenset()

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of the files that the plan was read from, the launch's first."""
        return tuple(
            dict.fromkeys(source.path for source in self.sources if source.file is not None or source.path[:1] == "<")
        )

    @property
    def told_of(self) -> Mapping[str, Source]:
        """The files by path that the collections of the plan tell of: also modules that its program imports, and that
        say nothing of the plan itself.
        """
        members = (member for found in self.plan.collections.values() for member in found)
        places = (member.place for member in members if isinstance(member, Member))
        return {place.path: place.source for place in places}


class FileProblem(NamedTuple):
    """Something wrong with a file itself. `span` is None when it has no text (missing, binary); `unrun` is the part of
    a script that is not run for it, None where that is not known.
    """

    path: str
    span: Span | None
    message: str
    fatal: bool = True
    loader: str = ""
    unrun: Span | None = None


def file_problem(problem: Problem) -> FileProblem:
    """A reader's problem as one of the file that it stands in."""
    return FileProblem(problem.span.path, problem.span, problem.message, problem.fatal, problem.loader, problem.unrun)


OTHER_SHELLS = re.compile(r"#!.*\b(zsh|fish|t?csh|ksh)\b")
"""First lines that name a shell with a syntax of its own."""


def script_problems(source: Source, problems: Sequence[Problem]) -> list[FileProblem]:
    """The problems without those that follow from the first one that bash would stop at; what bash would not take is
    no problem of a script for another shell.
    """
    if OTHER_SHELLS.match(source.text):
        return []
    first = min((problem for problem in problems if problem.fatal), key=lambda each: each.span.start, default=None)
    return [file_problem(problem) for problem in problems if not problem.fatal or problem is first]


class RunSet(NamedTuple):
    """Everything that was read: the runs, what could not be read, the sources in order, and the focus (paths that
    findings may lie in). `asked` are the files that the user names, and not only a folder above them;
    `listed` counts all files below the folders that the user names.
    """

    runs: tuple[Run, ...]
    problems: tuple[FileProblem, ...]
    sources: tuple[Source, ...]
    focus: frozenset[str]
    remarks: tuple[str, ...] = ()
    asked: frozenset[str] = frozenset()
    listed: int = 0
