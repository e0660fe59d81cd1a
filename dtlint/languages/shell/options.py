"""The builtin that takes options out of the arguments one by one: getopts."""

from __future__ import annotations

from dtlint.languages.shell.call import Call
from dtlint.languages.shell.state import Array, Shell, Verdict
from dtlint.languages.shell.text import Text, cut, flat, known, literal, unknown
from dtlint.languages.shell.variables import assign

WITHIN = "OPTIND within a word"
"""The name under which the place inside a word such as `-abc` is kept; no variable can have it."""


def run_getopts(call: Call) -> None:
    """`getopts LETTERS NAME`: the next option of the positional parameters; what is not given is not there."""
    shell = call.shell
    letters, name = (call.texts[0], call.texts[1]) if len(call.texts) > 1 else (None, None)
    index, inside = _place(shell, "OPTIND"), _place(shell, WITHIN)
    words = shell.positional.words
    if letters is None or name is None or index > len(words):
        shell.status = Verdict(False)
        return
    text = words[index - 1]
    characters = flat(text)
    if not inside and (len(characters) < 2 or characters[0] != "-" or characters == "--"):
        _go_to(call, index + (characters == "--"), 0)
        shell.status = Verdict(None if known(text) is None else False)
        return
    inside = inside or 1
    letter = characters[inside]
    option = letter if letter in letters.replace(":", "") else "?"
    assign(shell, name, literal(option, call.place))
    if letters.partition(letter)[2][:1] == ":" and option != "?":
        _take_value(call, index, cut(text, inside + 1, len(characters)))
    elif inside + 1 < len(characters):
        _go_to(call, index, inside + 1)
    else:
        _go_to(call, index + 1, 0)
    shell.status = Verdict(True)


def _take_value(call: Call, index: int, rest: Text) -> None:
    """The value of an option: the rest of its word, or the next word."""
    shell = call.shell
    words = shell.positional.words
    if rest:
        assign(shell, "OPTARG", rest)
        _go_to(call, index + 1, 0)
        return
    missing = unknown(call.place, "an option of the script has no value")
    assign(shell, "OPTARG", words[index] if index < len(words) else missing)
    _go_to(call, index + 2, 0)


def _place(shell: Shell, name: str) -> int:
    value = shell.variables.get(name)
    text = None if value is None or isinstance(value, Array) else known(value)
    return int(text) if text and text.isdecimal() and len(text) < 6 else int(name == "OPTIND")


def _go_to(call: Call, index: int, inside: int) -> None:
    assign(call.shell, "OPTIND", literal(str(index), call.place))
    assign(call.shell, WITHIN, literal(str(inside), call.place))
