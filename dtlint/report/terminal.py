"""Text for terminals: what a character shows as and how wide it is, wrapping, and when colour is wanted."""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from typing import TextIO

NARROWEST = 40
"""Columns below which text is not wrapped any further."""

WIDEST = 120
"""Columns beyond which sentences get hard to read."""

WITHOUT_TERMINAL = 80
"""Columns where the output goes into a file or pipe."""

TAB_STOP = 4
"""Columns from one tab stop to the next in shown code."""

_COLOURS = {"red": "31", "yellow": "33", "blue": "34", "cyan": "36"}
_CODES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")

NO_BREAK = "\N{NO-BREAK SPACE}"
"""A blank at which `wrap` does not break a line."""


def terminal_width() -> int:
    """Columns of the terminal (80 where there is none), at least 40, at most 120 so that sentences stay readable."""
    return max(NARROWEST, min(_columns_there(), WIDEST))


def _columns_there() -> int:
    stated = os.environ.get("COLUMNS", "")
    if stated.isdecimal() and int(stated) > 0:
        return int(stated)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns if sys.__stdout__ else WITHOUT_TERMINAL
    except (OSError, ValueError):
        return WITHOUT_TERMINAL


def styled(text: str, fg: str = "", bold: bool = False, dim: bool = False) -> str:
    """`text` with the codes by which a terminal shows it in a colour, bold or dim."""
    codes = [_COLOURS[fg]] if fg else []
    codes += [code for code, wanted in (("1", bold), ("2", dim)) if wanted]
    return "".join(f"\x1b[{code}m" for code in codes) + text + "\x1b[0m"


def unstyled(text: str) -> str:
    """`text` without the codes of colours and styles."""
    return _CODES.sub("", text) if "\x1b" in text else text


def colour_wanted(stream: TextIO) -> bool:
    """Whether `stream` gets colours: NO_COLOR forbids, FORCE_COLOR asks for them, else a terminal gets them."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def printable(text: str) -> str:
    """`text` with control and direction-changing characters as escapes, so that no file can steer a terminal."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_shown, text))


def width(text: str) -> int:
    """How many columns `text` takes: 2 for a wide character, none for one that combines with the one before it."""
    if text.isascii():
        return len(text)
    return sum(map(_columns, text))


def cells(line: str) -> Iterator[str]:
    """What each character of a line of code shows as: a tab as blanks, what is unprintable as an escape."""
    column = 0
    for character in line:
        cell = " " * (TAB_STOP - column % TAB_STOP) if character == "\t" else _shown(character)
        column += width(cell)
        yield cell


def wrap(text: str, first: str, rest: str, columns: int) -> list[str]:
    """`text` broken at blanks into lines of at most `columns`; the first begins with `first`, the others with `rest`.

    A word that is longer than a line is left whole, and what a no-break space joins: it may be there to be copied.
    """
    lines: list[str] = []
    line, used = first, width(first)
    empty = True
    for word in text.replace("\n", " ").split(" "):
        if not word:
            continue
        needed = width(word) + (0 if empty else 1)
        if not empty and used + needed > columns:
            lines.append(line)
            line, used, empty, needed = rest, width(rest), True, width(word)
        line += word if empty else " " + word
        used += needed
        empty = False
    return [each.replace(NO_BREAK, " ") for each in (*lines, line)]


def paragraphs(text: str, indent: str, columns: int) -> list[str]:
    """A text of several paragraphs, wrapped; lines that begin with a blank (formulas, code) are kept as they are."""
    lines: list[str] = []
    for paragraph in _paragraphs(text.strip("\n").splitlines()):
        if not paragraph or paragraph[0].isspace():
            lines.append((indent + printable(paragraph)).rstrip())
        else:
            lines.extend(wrap(printable(paragraph), indent, indent, columns))
    return lines


def _paragraphs(lines: Iterable[str]) -> Iterator[str]:
    joined = ""
    for line in lines:
        if line.strip() and not line[0].isspace():
            joined = f"{joined} {line}" if joined else line
            continue
        if joined:
            yield joined
            joined = ""
        yield line.rstrip()
    if joined:
        yield joined


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    if unicodedata.category(character) == "Zs":
        return " "
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def _columns(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
