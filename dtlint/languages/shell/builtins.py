"""The builtin commands of the shell."""

from __future__ import annotations

import posixpath
from collections.abc import Callable

from dtlint.languages.shell.call import Call
from dtlint.languages.shell.declaring import run_declare, run_export, run_unset
from dtlint.languages.shell.flow import ExitShell, LeaveLoop, NextRound, ReturnFromFunction
from dtlint.languages.shell.state import Positional, Verdict
from dtlint.languages.shell.text import Text, cut, flat, literal, unknown
from dtlint.languages.shell.variables import assign, positional_of, read_text
from dtlint.languages.traced import Piece, Word, is_elsewhere, path_from_folder

WITHOUT_TRACE_WRITTEN = """
wait shopt ulimit umask alias unalias jobs kill disown times enable history bind caller
"""
WITHOUT_TRACE = frozenset(WITHOUT_TRACE_WRITTEN.split())


def _nothing(call: Call) -> None:
    """Commands that leave no trace in what runs start."""


def _test(call: Call) -> None:
    from dtlint.languages.shell.conditions import test_words

    words = call.words[1:]
    if call.words[0].text == "[":
        words = words[:-1] if words and words[-1].text == "]" else words
    call.shell.status = test_words(call.shell, words, call.place)


def _true(call: Call) -> None:
    call.shell.status = Verdict(True)


def _false(call: Call) -> None:
    call.shell.status = Verdict(False)


def _echo(call: Call) -> None:
    words, ending, escapes = call.words[1:], True, False
    while (
        words and (text := words[0].text) is not None and text[:1] == "-" and text[1:] and set(text[1:]) <= set("neE")
    ):
        ending, escapes = ending and "n" not in text, "e" in text or escapes
        words = words[1:]
    pieces: list[Piece] = []
    for number, word in enumerate(words):
        pieces.extend(literal(" ", call.place) if number else ())
        pieces.extend(word.pieces)
    output = with_escapes(tuple(pieces)) if escapes else tuple(pieces)
    call.shell.emit((*output, *literal("\n", call.place)) if ending else output)


def with_escapes(text: Text) -> Text:
    """A text with its backslash escapes replaced by what they stand for."""
    characters = flat(text)
    if "\\" not in characters:
        return text
    from dtlint.languages.shell.ansi import escape_at

    pieces: list[Piece] = []
    at = 0
    while at < len(characters):
        backslash = characters.find("\\", at)
        backslash = len(characters) if backslash < 0 else backslash
        pieces.extend(cut(text, at, backslash))
        at = backslash
        if at < len(characters):
            yielded, length = escape_at(characters, at)
            pieces.append(cut(text, at, at + 1)[0]._replace(text=yielded))
            at += length
    return tuple(pieces)


def _printf(call: Call) -> None:
    from dtlint.languages.shell.formats import printf_text

    words = call.words[1:]
    if words and words[0].text == "--":
        words = words[1:]
    if len(words) > 2 and words[0].text == "-v" and words[1].text is not None:
        assign(call.shell, words[1].text, printf_text(words[2:], call.place))
    elif words:
        call.shell.emit(printf_text(words, call.place))


def _trap(call: Call) -> None:
    """`trap COMMANDS EXIT`: they run when the script ends; other signals do not come."""
    if len(call.words) > 2 and {"EXIT", "0"} & {word.text for word in call.words[2:]}:
        call.shell.exit_trap = call.words[1].pieces if call.words[1].text != "-" else ()


def _set(call: Call) -> None:
    """`set`: options, each `o` among their letters with the name that follows, then the positional parameters."""
    words = call.words[1:]
    number = 0
    while number < len(words):
        text = words[number].text
        if text in ("-", "--") or text is None or text[:1] not in ("-", "+"):
            rest = words[number + (text in ("-", "--")) :]
            call.shell.positional = positional_of(rest) if rest or text == "--" else call.shell.positional
            return
        named = words[number + 1 : number + 1 + text.count("o")]
        if "a" in text or any(name.text == "allexport" for name in named):
            call.shell.exports_all = text[0] == "-"
        number += 1 + len(named)


def _shift(call: Call) -> None:
    count = _number(call, call.words[1]) if len(call.words) > 1 else 1
    before = call.shell.positional
    if count is None or count < 0 or (count > len(before.words) and before.rest is None):
        call.shell.status = Verdict(False)
        return
    call.shell.positional = Positional(before.words[count:], before.rest, before.first + count)


def _let(call: Call) -> None:
    number: int | None = 0
    for word in call.words[1:]:
        number = _number(call, word)
    call.shell.status = Verdict(None if number is None else number != 0)


def _number(call: Call, word: Word) -> int | None:
    from dtlint.languages.shell.arithmetic import number_of

    return number_of(call.shell, word.pieces, call.place)


def _read(call: Call) -> None:
    from dtlint.languages.shell.reading import run_read

    run_read(call)


def _mapfile(call: Call) -> None:
    from dtlint.languages.shell.reading import run_mapfile

    run_mapfile(call)


def _exit(call: Call) -> None:
    _leave_with(call)
    raise ExitShell


def _return(call: Call) -> None:
    _leave_with(call)
    raise ReturnFromFunction


def _leave_with(call: Call) -> None:
    """Take over the status that `exit` and `return` name."""
    texts = call.texts
    if texts:
        told = texts[0] is not None and texts[0].isdecimal() and len(texts[0]) < 4
        call.shell.status = Verdict(texts[0] == "0", code=int(texts[0] or 0)) if told else Verdict(None)


def _levels(call: Call) -> int:
    text = call.texts[0] if call.texts else "1"
    return int(text) if text and text.isdecimal() and 0 < len(text) < 4 else 1


def _break(call: Call) -> None:
    raise LeaveLoop(_levels(call))


def _continue(call: Call) -> None:
    raise NextRound(_levels(call))


def _getopts(call: Call) -> None:
    from dtlint.languages.shell.options import run_getopts

    run_getopts(call)


def _cd(call: Call) -> None:
    """Where a path leads that is known from the folder of the start; of a path that leads elsewhere its words."""
    shell = call.shell
    path = path_from_folder(call.words[1].pieces, shell.folder) if len(call.words) == 2 else "-"
    shell.elsewhere = _elsewhere(shell.elsewhere, path)
    known = not path.startswith(("/", "-")) and "?" not in path
    folder = posixpath.normpath(path) if known else ""
    shell.folder = "" if folder == "." or (shell.elsewhere and folder.startswith("..")) else folder


def _elsewhere(before: str, path: str) -> str:
    """The folder of the machine to which `cd` leads, "" where it leads to none or its name is not known."""
    if path.startswith("-") or (not before and not is_elsewhere(path)):
        return ""
    folder = posixpath.normpath(path if is_elsewhere(path) else posixpath.join(before, path))
    return folder if is_elsewhere(folder) and not folder.endswith("?") else ""


def _pwd(call: Call) -> None:
    call.shell.emit((*read_text(call.shell, "PWD", call.place), *literal("\n", call.place)))


def _undecided(call: Call) -> None:
    call.shell.status = Verdict(None)
    call.shell.emit(unknown(call.place, f"the output of {call.words[0].shown} is known only when it runs"))


BUILTINS: dict[str, Callable[[Call], None]] = {
    "echo": _echo,
    "printf": _printf,
    "test": _test,
    "[": _test,
    "true": _true,
    ":": _true,
    "false": _false,
    "export": run_export,
    "declare": run_declare,
    "typeset": run_declare,
    "local": run_declare,
    "readonly": run_declare,
    "unset": run_unset,
    "set": _set,
    "shift": _shift,
    "trap": _trap,
    "read": _read,
    "mapfile": _mapfile,
    "readarray": _mapfile,
    "let": _let,
    "getopts": _getopts,
    "exit": _exit,
    "return": _return,
    "break": _break,
    "continue": _continue,
    "cd": _cd,
    "pushd": _cd,
    "popd": _cd,
    "pwd": _pwd,
    "type": _undecided,
    "hash": _undecided,
    **dict.fromkeys(WITHOUT_TRACE, _nothing),
}
