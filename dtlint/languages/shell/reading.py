"""The builtins that read lines: read and mapfile."""

from __future__ import annotations

from dtlint.languages.shell.call import Call
from dtlint.languages.shell.splitting import field_ranges, field_separators, split_fields
from dtlint.languages.shell.state import Array, Shell, Verdict
from dtlint.languages.shell.text import Text, cut, flat, known, lines, sole_unknown, unknown
from dtlint.languages.shell.variables import assign


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


def run_mapfile(call: Call) -> None:
    """`mapfile NAME`: the lines of the input as an array."""
    names = [text for text in call.texts if text and text.isidentifier()]
    name = names[-1] if names else "MAPFILE"
    stdin = call.shell.stdin
    if stdin is None or sole_unknown(stdin) is not None:
        doubt = unknown(call.place, f"{name} is read when the script runs")
        call.shell.variables[name] = Array({}, False, doubt[0])
        return
    call.shell.variables[name] = Array({str(number): line for number, line in enumerate(lines(stdin))})
