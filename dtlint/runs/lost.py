"""Words of a launch that a broken continuation cuts off."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from dtlint.frameworks import Member, Reading
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.interpreter import LAUNCHERS
from dtlint.frameworks.options import CUT, is_cut, literal_place
from dtlint.languages.shell.reader import has_windows_line_ends
from dtlint.languages.shell.simple import BACKSLASH
from dtlint.languages.traced import Lost, Word
from dtlint.runs.launches import LAUNCHER_MODULES, MANAGERS, Found
from dtlint.source import Span


def lost_words(lost: Sequence[Lost], launch: Found, starts: Collection[Span]) -> Iterator[Reading]:
    """The words that a launch loses, one of those at `starts`, as a reading with the collection `launch.lost`: `words`,
    `cause` (comment; blank; carriage; empty line; remark, a comment behind a backslash and a blank), and `part`:
    arguments; program, where the launcher loses that too; front, where the launch loses what stands before it,
    variables or a command that is no launch. What is lost first tells it: nothing behind it reaches the command. A
    script all of whose lines end in CR LF is refused as that.
    """
    found = _first(lost, launch.launch.place, starts, launch.launch.env)
    if found is None:
        yield from _without_program(launch)
    elif not (_is_carriage(found.cause) and has_windows_line_ends(found.cause.source)):
        in_front = _same(found.words, launch.launch.place)
        words = found.command if in_front else found.words
        part = "front" if in_front else "arguments" if _has_program(launch) else "program"
        fields = texts(words, words=_shown(words), part=part) | texts(found.cause, cause=_cause(found.cause))
        yield _reading(Member(found.cause, fields, () if in_front else ((found.words, "these words are lost"),)))


def _without_program(launch: Found) -> Iterator[Reading]:
    """The same where the continuation is broken in a text, which the script expands or hands to another shell."""
    words = launch.launch.argv
    at = next((index for index, word in enumerate(words) if is_cut(word)), None)
    if at is None or _has_program(launch) or not any(reading.open == CUT for reading in launch.readings):
        return
    place = literal_place(words[at])
    if has_windows_line_ends(place.source):
        return
    behind = " ".join(word.shown for word in words[at + 1 :])[:_LONGEST] or "the next line"
    yield _reading(Member(place, texts(place, words=behind, cause="blank", part="program")))


def _reading(member: Member) -> Reading:
    return Reading("lost", collections={"launch.lost": (member,)})


def _has_program(launch: Found) -> bool:
    return bool(launch.program) and launch.program[0].text not in LAUNCHER_MODULES


def is_cut_off(lost: Sequence[Lost], launch: Found) -> bool:
    """Whether a command that looks like a launch is none: a Python file at the start of its line, since the line above
    is cut off, or an srun or mpirun that loses something else than a training program.
    """
    place = launch.launch.place
    if any(_is_file_of_python(_names(each.words)[0]) for each in lost if _same(each.words, place)):
        return True
    managed = not launch.program and not any(each.layer not in (*MANAGERS, "environment") for each in launch.readings)
    names = [name for each in lost if _same(each.command, place) for name in _names(each.words)]
    return managed and not any(map(_starts_training, names))


def _names(words: Span) -> list[str]:
    return words.text.split()


def _is_file_of_python(word: str) -> bool:
    return word.endswith(".py")


def _starts_training(word: str) -> bool:
    name = PurePosixPath(word).name
    return _is_file_of_python(word) or name.startswith("python") or name in LAUNCHERS


def _first(lost: Sequence[Lost], launch: Span, starts: Collection[Span], env: Mapping[str, Word]) -> Lost | None:
    owned = next((each for each in lost if _same(each.command, launch)), None)
    in_front = (each for each in lost if _same(each.words, launch) and not _is_any(each.command, starts))
    return owned or next((each for each in in_front if _is_missed(each, env)), None)


_INHERITED = frozenset(("PATH", "LD_LIBRARY_PATH", "LIBRARY_PATH", "PYTHONPATH", "HOME", "CUDA_HOME"))
"""Variables that hardly an environment lacks: what is exported already takes a new value with it."""
_OF_SLURM = "CUDA_VISIBLE_DEVICES"
"""The variable that Slurm exports to a job."""
_ASSIGNED = r"(?:^|\s)([A-Za-z_]\w*)="
_NAMED = r"\b\w+\b(?!=)"


def _is_missed(lost: Lost, env: Mapping[str, Word]) -> bool:
    """Whether what stands before a launch is nothing to it. Variables alone are set in the shell all the same where an
    empty line ends the command: the launch has them if they are exported, or if something writes out their values.
    """
    if _cause(lost.cause) != "empty line":
        return True
    text = lost.command.source.text
    names = re.findall(_ASSIGNED, lost.command.text)
    taken = {*env, *_INHERITED, *((_OF_SLURM,) if "#SBATCH" in text else ())}
    return bool(names) and taken.union(re.findall(_NAMED, text)).isdisjoint(names)


def _is_any(command: Span, launches: Collection[Span]) -> bool:
    return any(_same(command, launch) for launch in launches)


def _same(command: Span, launch: Span) -> bool:
    return command.source is launch.source and command.start < launch.end and launch.start < command.end


_LONGEST = 60
"""Characters of lost words that are shown."""
_REDIRECTIONS = ("|", ">", "<", "&", "1>", "2>", ";", "\\")
"""Beginnings of words that no command is passed, and the backslash behind which it is broken once more."""


def _shown(lost: Span) -> str:
    """The first lost words, whole ones, up to what the shell keeps for itself; the first word however long."""
    first, *others = lost.text.replace("\\\n", " ").split() or [""]
    shown = first[:_LONGEST]
    for word in others:
        if word.startswith(_REDIRECTIONS) or len(shown) + 1 + len(word) > _LONGEST:
            break
        shown = f"{shown} {word}"
    return shown


def _cause(cut: Span) -> str:
    if cut.text.lstrip().startswith("#"):
        return "comment"
    if _is_carriage(cut):
        return "carriage"
    if cut.text == BACKSLASH:
        return "empty line"
    behind = cut.source.line_text(cut.line).rstrip().rpartition("\\")[2]
    return "remark" if behind.lstrip().startswith("#") else "blank"


def _is_carriage(cut: Span) -> bool:
    return cut.text.endswith("\r")
