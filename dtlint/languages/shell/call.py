"""A command about to run, as builtins, filters and launches get it."""

from __future__ import annotations

from collections.abc import Mapping

from dtlint.languages.shell.state import Shell
from dtlint.languages.shell.syntax import Simple
from dtlint.languages.shell.text import Text
from dtlint.languages.traced import Word
from dtlint.record import NamedTuple
from dtlint.source import Span


class Call(NamedTuple):
    """A command about to run: its expanded words, the first of them its name, and what is assigned before it."""

    shell: Shell
    node: Simple
    words: list[Word]
    place: Span
    environment: Mapping[str, Text]

    @property
    def texts(self) -> list[str | None]:
        """The arguments, None for each one that is not wholly known."""
        return [word.text for word in self.words[1:]]
