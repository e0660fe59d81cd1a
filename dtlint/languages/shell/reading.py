"""The builtins that read lines: read and mapfile."""

from __future__ import annotations

from dtlint.languages.shell.call import Call
from dtlint.languages.shell.splitting import field_ranges, field_separators, split_fields
from dtlint.languages.shell.state import Array, Shell, Verdict
from dtlint.languages.shell.text import (
    MAX_LENGTH,
    Text,
    cut,
    cut_all,
    first_unknown,
    flat,
    known,
    sole_unknown,
    unknown,
)
from dtlint.languages.shell.variables import assign
from dtlint.languages.traced import Piece
from dtlint.record import NamedTuple

MOST_DIGITS = 6
"""Most digits of a number of lines."""


def run_read(call: Call) -> None:
    """`read NAME...`: a line of the input, split; without input the names become unknown."""
    shell = call.shell
    names, options = _read_options(call)
    if shell.stdin is None or sole_unknown(shell.stdin) is not None:
        for name in names or ["REPLY"]:
            assign(shell, name, unknown(call.place, f"{name} is read when the script runs"))
        shell.status = Verdict(None)
        return
    if "d" in options:
        line, shell.stdin, ended = shell.stdin, (), False
    else:
        line, shell.stdin, ended = _take_line(shell.stdin)
    shell.status = Verdict(ended)
    separators = known(call.environment["IFS"]) if "IFS" in call.environment else field_separators(shell)
    if "a" in options:
        fields = [field for field in split_fields(line, separators or "") if field is not None]
        shell.variables[names[0] if names else "REPLY"] = Array(
            {str(number): field for number, field in enumerate(fields)}
        )
        return
    _assign_fields(shell, names or ["REPLY"], line, separators or "")


def _read_options(call: Call) -> tuple[list[str], str]:
    names: list[str] = []
    options = ""
    texts = call.texts
    number = 0
    while number < len(texts):
        text = texts[number] or ""
        if text[:1] == "-" and not names:
            options += text[1:]
            number += 1 if text[-1:] in ("p", "d", "t", "n", "N", "u", "i") else 0
        elif text.isidentifier():
            names.append(text)
        number += 1
    return names, options


def _take_line(text: Text) -> tuple[Text, Text, bool]:
    """The first line, what is behind it, and whether there was one with a line end."""
    characters = flat(text)
    line_end = characters.find("\n")
    if line_end < 0:
        return text, (), False
    return cut(text, 0, line_end), cut(text, line_end + 1, len(characters)), True


def _assign_fields(shell: Shell, names: list[str], line: Text, separators: str) -> None:
    """Give each name a field, the last one the rest of the line."""
    characters = flat(line)
    if len(names) == 1:
        start = len(characters) - len(characters.lstrip("".join(c for c in separators if c in " \t\n") or "\0"))
        end = len(characters.rstrip("".join(c for c in separators if c in " \t\n") or "\0"))
        assign(shell, names[0], cut(line, start, max(start, end)))
        return
    fields = [field for field in split_fields(line, separators) if field is not None]
    for number, name in enumerate(names):
        if number < len(names) - 1 or len(fields) <= len(names):
            assign(shell, name, fields[number] if number < len(fields) else ())
        else:
            end = len(characters.rstrip("".join(char for char in separators if char in " \t\n") or "\0"))
            assign(shell, name, cut(line, field_ranges(characters, separators)[0][number][0], end))


class _Wanted(NamedTuple):
    """What a `mapfile` asks for: `end` is the character behind each element, "" for NUL; None where an option is not
    known.
    """

    name: str
    end: str | None = "\n"
    stripped: bool = False
    skipped: int | None = 0
    most: int | None = 0
    origin: int | None = None
    standard: bool = True


def run_mapfile(call: Call) -> None:
    """`mapfile NAME`: the lines of the input as an array, or what stands between other characters (`-d`)."""
    wanted, shell = _mapfile_options(call), call.shell
    stdin = shell.stdin if wanted.standard else None
    before = shell.variables.get(wanted.name) if wanted.origin is not None else None
    items = dict(before.items) if isinstance(before, Array) else {}
    if stdin is None or wanted.end is None or wanted.skipped is None or wanted.most is None:
        doubt = unknown(call.place, f"{wanted.name} is read when the script runs")
        shell.variables[wanted.name] = Array(items, False, doubt[0])
        return
    elements, rest, end = _elements(stdin, wanted.end, wanted.skipped + wanted.most if wanted.most else MAX_LENGTH)
    taken = elements[wanted.skipped :]
    if wanted.stripped and wanted.end:
        taken = [_without_end(element, wanted.end) for element in taken]
    items.update({str(number): element for number, element in enumerate(taken, wanted.origin or 0)})
    shell.variables[wanted.name] = Array(items, False, rest)
    if wanted.most:
        shell.stdin = cut(stdin, end, len(flat(stdin)))


def _mapfile_options(call: Call) -> _Wanted:
    """The options of bash's mapfile: `d:u:n:O:tC:c:s:` (builtins/mapfile.def)."""
    wanted = _Wanted("MAPFILE")
    texts = call.texts
    while texts and (text := texts[0] or "")[:1] == "-" and text != "-":
        texts = texts[1:]
        if text == "--":
            break
        flags, letter, value = _cluster(text[1:])
        wanted = wanted._replace(stripped=wanted.stripped or "t" in flags)
        if letter and not value:
            given, texts = (texts[0], texts[1:]) if texts else (None, texts)
        else:
            given = value
        wanted = _with_option(wanted, letter, given)
    return wanted._replace(name=texts[0] or "") if texts else wanted


def _cluster(letters: str) -> tuple[str, str, str]:
    """The switches of a word of options, the option behind them that takes a value, and the value if it is there."""
    at = next((at for at, letter in enumerate(letters) if letter in "dunOCcs"), len(letters))
    return letters[:at], letters[at : at + 1], letters[at + 1 :]


def _with_option(wanted: _Wanted, letter: str, value: str | None) -> _Wanted:
    number = int(value) if value is not None and value.isdecimal() and len(value) <= MOST_DIGITS else None
    if letter == "d":
        return wanted._replace(end=None if value is None else value[:1])
    if letter == "n":
        return wanted._replace(most=number)
    if letter == "s":
        return wanted._replace(skipped=number)
    if letter == "O":
        return wanted._replace(origin=number or 0, end=wanted.end if number is not None else None)
    return wanted._replace(standard=value == "0") if letter == "u" else wanted


def _elements(text: Text, end: str, most: int) -> tuple[list[Text], Piece | None, int]:
    """At most so many elements with what ends them, what may follow them, and where they end. An unknown stretch may
    hold the end of any number of elements; in the midst of a line it holds none.
    """
    characters = flat(text)
    ranges: list[tuple[int, int]] = []
    at = 0
    while at < len(characters) and len(ranges) < most:
        found = characters.find(end, at) if end else -1
        ranges.append((at, found + 1 if found >= 0 else len(characters)))
        at = ranges[-1][1]
    elements = cut_all(text, ranges)
    for number, element in enumerate(elements):
        doubt = sole_unknown(_without_end(element, end)) if end == "\n" else first_unknown(element)
        if doubt is not None and end:
            return elements[:number], doubt, len(characters)
    return elements, None, at


def _without_end(element: Text, end: str) -> Text:
    characters = flat(element)
    return cut(element, 0, len(characters) - 1) if characters.endswith(end) else element
