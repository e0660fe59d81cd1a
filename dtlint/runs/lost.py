"""Words of a launch that a broken continuation cuts off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dtlint.frameworks import Member, Reading
from dtlint.languages.shell.reader import has_windows_line_ends
from dtlint.languages.traced import Lost
from dtlint.source import Span
from dtlint.value import written


def lost_words(lost: Sequence[Lost], launch: Span) -> Iterator[Reading]:
    """The words that the command at `launch` loses, as a reading with the collection `launch.lost`: `words`, `cause`
    (comment; blank; carriage; remark, a comment behind a backslash and a blank). What is lost first tells it: nothing
    behind it reaches the command. A script all of whose lines end in CR LF is refused as that.
    """
    first = next((each for each in lost if _same(each.command, launch)), None)
    if first is not None and not (_is_carriage(first.cause) and has_windows_line_ends(first.cause.source)):
        yield Reading("lost", collections={"launch.lost": (_member(first),)})


def _same(command: Span, launch: Span) -> bool:
    return command.source is launch.source and command.start < launch.end and launch.start < command.end


def _member(lost: Lost) -> Member:
    fields = {"words": written(_shown(lost.words), lost.words), "cause": written(_cause(lost.cause), lost.cause)}
    return Member(lost.cause, fields, ((lost.words, "these words are lost"),))


_LONGEST = 60
"""Characters of lost words that are shown."""
_REDIRECTIONS = ("|", ">", "<", "&", "1>", "2>", ";")
"""Beginnings of words that no command is passed."""


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
    behind = cut.source.line_text(cut.line).rstrip().rpartition("\\")[2]
    return "remark" if behind.lstrip().startswith("#") else "blank"


def _is_carriage(cut: Span) -> bool:
    return cut.text.endswith("\r")
