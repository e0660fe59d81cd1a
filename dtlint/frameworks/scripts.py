"""The script that a command starts in a shell of its own, directly or through what wraps it: its path, its arguments,
and what reaches its environment.
"""

from __future__ import annotations

from collections.abc import Mapping

from dtlint.frameworks.interpreter import program_name
from dtlint.frameworks.options import Grammar, Split, is_hidden, split_options
from dtlint.frameworks.wrappers import unwrap_all
from dtlint.languages.shell.handed import exported, handed
from dtlint.languages.shell.nested import SCRIPT_SUFFIXES, SHELLS
from dtlint.languages.traced import Command, Piece, Word
from dtlint.record import NamedTuple

_XARGS = Grammar(
    {
        "max-args": 1, "max-procs": 1, "replace": 1, "max-lines": 1, "arg-file": 1, "delimiter": 1, "max-chars": 1,
        "null": 0, "no-run-if-empty": 0, "verbose": 0, "exit": 0,
    },
    {
        "n": "max-args", "P": "max-procs", "I": "replace", "L": "max-lines", "a": "arg-file", "d": "delimiter",
        "s": "max-chars", "0": "null", "r": "no-run-if-empty", "t": "verbose", "x": "exit",
    },
)  # fmt: skip
_SHELL_VALUES = ("-o", "-O", "+o", "+O", "--rcfile", "--init-file")


class Start(NamedTuple):
    """A script that a command starts. `variables` is its environment; `job` are the options of the command that
    submits it as a job of its own, None where it runs in that of the caller.
    """

    path: Word
    arguments: tuple[Word, ...]
    variables: Mapping[str, Word]
    job: tuple[Word, ...] | None = None


def started_script(command: Command) -> Start | None:
    """The script that a command would start, if it has the form of one that starts some."""
    inside = unwrap_all(command.argv)[1]
    outside = command.argv[: len(command.argv) - len(inside)]
    if not inside:
        return None
    variables = handed(outside, command.env)
    name = program_name(inside[0])
    if name == "sbatch":
        return _submitted(inside, variables)
    if name == "xargs":
        inside = _with_inputs(split_options(inside[1:], _XARGS))
        name = program_name(inside[0]) if inside else ""
    words = _behind_shell(inside[1:]) if name in SHELLS else inside
    if not words or not (name in SHELLS or _is_path(words[0])):
        return None
    return Start(words[0], words[1:], variables)


def _is_path(word: Word) -> bool:
    """Whether a word may be a script's path: by its ending, or by a folder in front."""
    return word.shown.endswith(SCRIPT_SUFFIXES) or ("/" in word.shown and "." not in program_name(word))


def _behind_shell(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """The script of a shell and its arguments, () where the shell reads no file."""
    number = 0
    while number < len(words):
        text = words[number].text
        if text is None or text[:1] not in ("-", "+"):
            return words[number:]
        if text == "-" or (not text.startswith("--") and {"c", "s"} & set(text[1:])):
            return ()
        number += 2 if text in _SHELL_VALUES else 1
    return ()


def _submitted(words: tuple[Word, ...], variables: dict[str, Word]) -> Start | None:
    """The script that sbatch is given, also behind options that are not known; what it wraps or reads is none."""
    from dtlint.frameworks.slurm.grammar import OF_SBATCH

    split = split_options(words[1:], OF_SBATCH)
    if not split.rest or is_hidden(split.rest[0]) or split.last("wrap") is not None:
        return None
    options = words[1 : len(words) - len(split.rest)]
    export = split.last("export")
    if export is not None and export.value is not None:
        variables = exported(export.value, variables)
    return Start(split.rest[0], split.rest[1:], variables, options)


def _with_inputs(split: Split) -> tuple[Word, ...]:
    """The command that xargs runs: a word stands for what it adds, at the end or in place of a mark."""
    if not split.rest:
        return ()
    place = split.rest[0].place
    input_ = Word((Piece(None, place, unknown="what xargs reads is known only when it runs"),), place)
    option = split.last("replace")
    mark = option.value.text if option is not None and option.value is not None else None
    if mark is None:
        return (*split.rest, input_._replace(many=True))
    return tuple(input_ if mark in word.shown else word for word in split.rest)
