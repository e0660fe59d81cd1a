"""How a script is started by another: what it sees of its caller, and in which words that is told."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dtlint.frameworks.scripts import Start
from dtlint.languages.shell.state import Caller, Positional
from dtlint.languages.shell.text import soften
from dtlint.languages.shell.variables import positional_of
from dtlint.languages.traced import Command, Piece, Script, Word, literal_word, path_from_folder
from dtlint.source import Source

LONGEST_SHOWN = 60
"""Longest list of arguments that tells starts of one script apart, in code points."""


def caller_of(start: Start, command: Command, script: Script, folder: Path, source: Source) -> Caller:
    """The caller of a script as the script sees it; `script` holds the command, whose paths begin in `folder`."""
    submitted = start.job is not None
    return Caller(
        {name: word.pieces for name, word in start.variables.items()},
        _arguments(start.arguments),
        _name(start.path, folder, source),
        command.folder,
        (command,) if submitted else (*command.wrapper, command),
        None if submitted else script.directives,
        start.job or (),
    )


def _arguments(words: Sequence[Word]) -> Positional:
    """The arguments; what may follow them is counted as the caller counts its own."""
    found = positional_of(list(words))
    return found._replace(first=1 - len(found.words)) if found.rest is not None else found


def _name(path: Word, folder: Path, source: Source) -> tuple[Piece, ...]:
    """`$0`: the path as it is written; of a path that is not wholly known, the way to the file that was found."""
    if source.file is None or path_from_folder(path.pieces).find("?") < 0:
        return path.pieces
    import os

    way = Path(os.path.relpath(source.file, folder)).as_posix()
    return soften(literal_word(way, path.place).pieces, "the folder of the script is not known", path.place)


def signature(caller: Caller) -> tuple[object, ...]:
    """What is equal for starts that read alike."""
    positional = caller.positional or Positional(())
    return (
        tuple((name, _plain(text)) for name, text in sorted(caller.variables.items())),
        tuple(map(_plain, positional.words)),
        positional.rest is None,
        _plain(caller.name or ()),
        caller.folder,
        tuple(tuple(word.shown for word in each.argv) for each in caller.wrapper),
        None if caller.directives is None else tuple((word.shown, word.place.path) for word in caller.directives),
    )


def _plain(text: Sequence[Piece]) -> tuple[str | None, ...]:
    return tuple(piece.text if piece.text is not None else f"\0{piece.unknown}" for piece in text)


def told(caller: Source, start: Start) -> str:
    """How a script is started, in words that hold when the caller's lines move."""
    arguments = " ".join(word.shown for word in start.arguments)
    if not arguments:
        return f"{caller.path} starts it"
    shown = arguments if len(arguments) <= LONGEST_SHOWN else f"{arguments[:LONGEST_SHOWN]}..."
    return f"{caller.path} starts it with {shown}"
