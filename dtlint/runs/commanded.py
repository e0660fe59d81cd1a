"""Accelerate configs that no script of a tree takes, and that commands in its documents, notebooks and programs start:
what all of these give as an option counts before the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path, PurePosixPath

from dtlint.frameworks import Claim, Reading
from dtlint.record import NamedTuple
from dtlint.runs.beside import ACCELERATE
from dtlint.runs.kinds import bytes_of
from dtlint.runs.tree import MOST_SEARCHED, Tree
from dtlint.runs.unaccelerated import as_launched, trains_alone
from dtlint.source import Source, Unreadable
from dtlint.value import Unknown

LARGEST = 1_000_000
"""Largest file that is searched for commands, in bytes."""
_MOST_WORDS = 60
"""Most words of a launcher that are looked at."""
_TOLD_IN = frozenset((".md", ".rst", ".txt", ".ipynb", ".py"))
_START = re.compile(r"\baccelerate launch\b|\baccelerate[\"'],\s{0,99}[\"']launch\b")
_BETWEEN = re.compile(r"(?:\\\\)?\\n\",\s{1,99}\"|\\\r?\n|[\"'],\s{0,99}[\"']")
"""What stands between two words of one command: the end of a line of a notebook, a line that goes on, a list."""
_WORDS = re.compile(r"[^\s\"'`\[\](),]+")
_LENGTH = 6_000
"""Longest command that is looked at, in characters."""
_FILE = "config_file"


class Told(NamedTuple):
    """A command of a text: the file, the path and line of it, the options given to the launcher, with their values
    (""), and the program that it starts ("").
    """

    file: Path
    path: str
    line: int
    options: Mapping[str, str]
    program: str


def commands_for(alone: Iterable[Sequence[tuple[Source, Reading]]], tree: Tree) -> tuple[Told, ...]:
    """The commands in texts of the tree that start `accelerate launch`, read once for all configs that no launch names;
    none where none of these is Accelerate's.
    """
    if not any(map(_is_of_accelerate, alone)):
        return ()
    files = islice((file for file in tree.listing.files if file.suffix in _TOLD_IN), MOST_SEARCHED)
    speaking = (file for file in files if b"accelerate" in bytes_of(file, LARGEST))
    return tuple(told for file in speaking for told in _told(file, tree))


def _is_of_accelerate(parts: Sequence[tuple[Source, Reading]]) -> bool:
    return bool(parts) and parts[0][1].layer == ACCELERATE


def as_commanded(
    parts: Sequence[tuple[Source, Reading]], commands: Sequence[Told], tree: Tree
) -> list[tuple[Source, Reading]]:
    """A config that no launch names, without the settings that each command of a text gives which starts it, and
    without what nothing comes of in the programs that these start.
    """
    if not _is_of_accelerate(parts):
        return list(parts)
    told = [each for each in commands if _names(each, parts[0][0], tree)]
    if not told:
        return list(parts)
    given = frozenset.intersection(*(frozenset(each.options) for each in told))
    (source, reading), *others = parts
    claims = tuple(_open(claim, told[0]) if claim.name in given else claim for claim in reading.claims)
    found = [(source, reading._replace(claims=claims)), *others]
    programs = [_program(each, tree) for each in told]
    if not trains_alone([each for each in programs if each is not None], tree) or None in programs:
        return found
    return [(each, left) for each, reading in found for left in as_launched([reading])]


def _program(told: Told, tree: Tree) -> Source | None:
    file = tree.find(told.program, told.file.parent) if told.program else None
    return None if file is None else _source(file, tree)


def _open(claim: Claim, told: Told) -> Claim:
    why = f"{told.path}:{told.line} starts it with --{claim.name}, which counts before the file"
    return claim._replace(value=Unknown(why, f"--set {claim.setting}=..."))


def _names(told: Told, config: Source, tree: Tree) -> bool:
    """Whether a command names this config, and not another of its name."""
    path = told.options.get(_FILE, "")
    if PurePosixPath(path).name != PurePosixPath(config.path).name:
        return False
    found = tree.find(path, told.file.parent)
    return found is None or found == config.file


def _told(file: Path, tree: Tree) -> Iterator[Told]:
    source = _source(file, tree)
    for match in _START.finditer(source.text) if source is not None else ():
        assert source is not None
        text = source.text[match.end() : match.end() + _LENGTH]
        command = _BETWEEN.sub(" ", text).split("\n")[0].split("\\n")[0]
        options, program = _options(_WORDS.findall(command)[:_MOST_WORDS])
        yield Told(file, source.path, source.span(match.start(), match.end()).line, options, program)


def _source(file: Path, tree: Tree) -> Source | None:
    try:
        return tree.source(file)
    except Unreadable:
        return None


def _options(words: Sequence[str]) -> tuple[Mapping[str, str], str]:
    """The options before the program that is started, with their values, and the program."""
    found: dict[str, str] = {}
    name = ""
    for word in words:
        if word.startswith("--"):
            head, _, value = word.partition("=")
            name = head.lstrip("-").replace("-", "_")
            found[name] = value
        elif word.endswith(".py"):
            return found, word
        elif name and not found[name] and word != "-m":
            found[name] = word
        else:
            break
    return found, ""
