"""The environment behind the words of wrappers: what `env`, `mpirun -x`, `docker -e` and `srun --export` set for the
command that they start, and what they let through.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dtlint.languages.shell.nested import program_name
from dtlint.languages.traced import Word

_SEALED = frozenset(("docker", "podman", "nerdctl", "nvidia-docker"))
"""Containers that see no variable but those that the command line hands them."""

_ENV = ("-e", "-x", "-E", "--env", "-env", "-genv", "env")
"""What stands before a variable that a wrapper hands on."""
_NAME_AND_VALUE = ("-env", "-genv")
"""Options of MPICH's mpiexec, which takes the value as a word of its own too."""
_LISTS = frozenset(("singularity", "apptainer"))
"""Containers whose `--env` takes any number of variables between commas."""


def handed(outside: Sequence[Word], env: Mapping[str, Word]) -> dict[str, Word]:
    """The environment behind the words of wrappers: what they set, over what they let through of `env`."""
    sealed = any(program_name(word) in _SEALED for word in outside)
    found = {} if sealed else dict(env)
    lists = any(program_name(word) in _LISTS for word in outside)
    for option, word, after in _values(outside):
        if option == "--export":
            found = exported(word, found)
        elif option in _NAME_AND_VALUE and after is not None and word.shown.isidentifier():
            found[word.shown] = after
        elif option in _ENV:
            for entry in entries(word) if lists else (word,):
                found |= _variable(entry, env)
    return found


def exported(export: Word, variables: Mapping[str, Word]) -> dict[str, Word]:
    """What `--export` of Slurm lets through of `variables`: everything with ALL, else what it lists."""
    listed = list(entries(export))
    open_ = any(entry.text is None for entry in listed)
    found = dict(variables) if open_ or any(entry.shown == "ALL" for entry in listed) else {}
    for entry in listed:
        found |= _variable(entry, variables)
    return found


def entries(word: Word) -> Iterator[Word]:
    """The parts of a list with commas."""
    start = 0
    for part in word.shown.split(","):
        yield word.part(start, start + len(part))
        start += len(part) + 1


def _values(outside: Sequence[Word]) -> Iterator[tuple[str, Word, Word | None]]:
    """Each word with the option that it is the value of, and the word after it. All words that `env` sets follow it."""
    before = ""
    for number, word in enumerate(outside):
        option, equals, _ = word.shown.partition("=")
        if equals and option in ("--env", "--export"):
            yield option, word.part(len(option) + 1), None
        else:
            yield before, word, next(iter(outside[number + 1 : number + 2]), None)
        chained = before == "env" and equals
        before = "env" if chained or program_name(word) == "env" else word.shown


def _variable(word: Word, env: Mapping[str, Word]) -> dict[str, Word]:
    """`NAME=VALUE`, or `NAME` with the value that it has outside."""
    name, equals, _ = word.shown.partition("=")
    if equals and name.isidentifier():
        return {name: word.part(len(name) + 1)}
    return {name: env[name]} if name in env else {}
