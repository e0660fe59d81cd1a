"""Copies of Megatron that are not in the tree: they may be forks, with flags of their own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from dtlint.account import content
from dtlint.frameworks import Member
from dtlint.frameworks.arguments import texts
from dtlint.languages.traced import Word
from dtlint.runs.kinds import kind_of
from dtlint.runs.tree import MOST_SEARCHED, Tree
from dtlint.source import Source, Unreadable
from dtlint.value import Value

UNKNOWN = "config.unknown"
_SECTION = "Megatron-LM"
_FORK = re.compile(r"git\s{1,4}clone\b[^\n]{0,200}?[/:](?!NVIDIA/)[\w.-]{1,80}/Megatron", re.IGNORECASE)
"""A command that fetches a Megatron of somebody else."""
_LARGEST = 200_000
"""Largest script in which such a command is looked for, in bytes."""


def as_of_a_fork(
    members: Sequence[Member], tree: Tree, argv: Sequence[Word], sources: Sequence[Source]
) -> list[Member]:
    """The unknown flags of a run, those of Megatron with the effect `elsewhere` where the program that the words start
    is not here and may be a fork's: it lies in a folder that is not here, or a script fetches a fork.
    """
    asked = [member for member in members if _is_guessed(member)]
    if not asked or not _is_absent(argv, sources) or not (_in_a_folder(argv) or _fetches_fork(tree)):
        return list(members)
    return [_elsewhere(member) if member in asked else member for member in members]


def _is_guessed(member: Member) -> bool:
    """Whether a flag is only like another; one that is another's but for `_` in it no fork has."""
    section, key, near = (_text(member, name) for name in ("section", "key", "suggestion"))
    return section == _SECTION and key.replace("_", "-") != near


def _elsewhere(member: Member) -> Member:
    return member._replace(fields={**member.fields, **texts(member.place, effect="elsewhere", suggestion="")})


def _is_absent(argv: Sequence[Word], sources: Sequence[Source]) -> bool:
    return any(_is_program(word) for word in argv) and not any(source.path.endswith(".py") for source in sources)


def _is_program(word: Word) -> bool:
    return word.shown.endswith(".py")


def _in_a_folder(argv: Sequence[Word]) -> bool:
    """Whether the program is named in a folder; without one it is where the script is started, which is not known."""
    program = next(word for word in argv if _is_program(word))
    return "/" in program.shown.removeprefix("./")


def _fetches_fork(tree: Tree) -> bool:
    scripts = (file for file in tree.listing.files if kind_of(file) == "shell" or "dockerfile" in file.name.lower())
    return any(_FORK.search(_told(tree, file)) for file in islice(scripts, MOST_SEARCHED))


def _told(tree: Tree, file: Path) -> str:
    """The text of a script, nothing of one that is too large or cannot be read."""
    try:
        return tree.source(file).text if content(file, 0, 0)[0] < _LARGEST else ""
    except (OSError, Unreadable):
        return ""


def _text(member: Member, field: str) -> str:
    found = member.fields.get(field)
    return str(found.value) if isinstance(found, Value) else ""
