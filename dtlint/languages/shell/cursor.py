"""Where the reader stands in a script, and what it has met so far."""

from __future__ import annotations

from collections.abc import Callable

from dtlint.languages.shell.syntax import Redirection, Sequence, Simple, WordSyntax
from dtlint.languages.traced import Lost
from dtlint.source import Problem, Source, Span

MAX_NESTING = 60
"""Deepest nesting of commands, quotes and expansions that is read."""


class Cursor:
    """A reading position in `text`, with the heredocs whose bodies begin at the next line end.

    `text` is that of `source` as it is read (see `readable`), or its beginning where the reading ends earlier.

    `read_commands` reads the commands of a substitution up to its closing parenthesis; the grammar sets it, so that
    words need not know the grammar.
    """

    __slots__ = (
        "at",
        "cause",
        "cut",
        "depth",
        "end",
        "faults",
        "heredocs",
        "lost",
        "not_arithmetic",
        "problems",
        "read_commands",
        "source",
        "text",
    )

    def __init__(self, source: Source, read_commands: Callable[[Cursor], Sequence], text: str, start: int = 0) -> None:
        self.source = source
        self.text = text
        self.at = start
        self.end = len(text)
        self.read_commands = read_commands
        self.heredocs: list[tuple[Redirection, str, bool]] = []
        self.problems: list[Problem] = []
        self.lost: list[Lost] = []
        self.cause: Span | None = None
        self.cut: tuple[Simple, Span] | None = None
        self.not_arithmetic: set[int] = set()
        self.faults = 0
        self.depth = 0

    def peek(self, length: int = 1) -> str:
        """The next characters, "" at the end."""
        return self.text[self.at : self.at + length]

    def span(self, start: int) -> Span:
        """From `start` to the reading position."""
        return Span(self.source, start, self.at)

    def word(self, start: int) -> WordSyntax:
        """An empty word at `start`."""
        return WordSyntax((), Span(self.source, start, start))

    def enter(self, start: int) -> None:
        """Go one level deeper; SyntaxFault at `start` where that is too deep."""
        self.depth += 1
        if self.depth > MAX_NESTING:
            raise SyntaxFault(start, f"nested more than {MAX_NESTING} levels deep")

    def problem(self, start: int, end: int, message: str) -> None:
        """Note a defect that bash takes."""
        self._note(Problem(Span(self.source, start, end), message, fatal=False))

    def refused(self, start: int, message: str, loader: str = "") -> None:
        """Note a defect for which bash refuses the script; the reading goes on behind it."""
        self._note(Problem(Span(self.source, start, min(start + 1, self.end)), message, fatal=True, loader=loader))

    def _note(self, problem: Problem) -> None:
        if len(self.problems) < 50:
            self.problems.append(problem)


class SyntaxFault(Exception):  # noqa: N818 - control flow of the reader: recovery continues at the next line
    """The text at `start` is not shell syntax."""

    def __init__(self, start: int, message: str) -> None:
        super().__init__(message)
        self.start = start
        self.message = message


def readable(text: str) -> str:
    """A script's text as it is read: a carriage return at a line's end is a blank, as its author means it.

    Every character keeps its place. Who reads a script asks once, and its parts are read in that text: asked again for
    each part, the time would grow with the square of the script's length.
    """
    return text.replace("\r\n", " \n")


def unexpected(character: str) -> str:
    """The sentence for a character that can not stand where it stands, "" for the end."""
    if character == "\r":
        return "the line ends with CR LF: bash takes the CR for a part of the last word"
    return f"{character or 'the end'} is not expected here"
