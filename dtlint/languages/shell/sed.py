"""sed: substitutions, deletions and printing by line, with every character's origin kept."""

from __future__ import annotations

import re

from dtlint.languages.shell.call import Call
from dtlint.languages.shell.files import read_file, write_file
from dtlint.languages.shell.inputs import input_of, read_options
from dtlint.languages.shell.lines import with_line_ends
from dtlint.languages.shell.patterns import affordable, compiled, posix_pattern
from dtlint.languages.shell.text import Text, cut, flat, joined, lines, literal
from dtlint.languages.traced import Piece
from dtlint.record import NamedTuple

ADDRESS = re.compile(r"\s*(?:(\d{1,9}|\$)(?:\s*,\s*(\d{1,9}|\$))?)?\s*")
FLAGS = re.compile(r"[gIip\d]*")


class Step(NamedTuple):
    """One command of a script: on which lines (or those that fit `selects`), what, and for `s` its pattern,
    replacement and flags.
    """

    first: str
    last: str
    selects: re.Pattern[str] | None
    action: str
    pattern: re.Pattern[str] | None = None
    replacement: Text = ()
    flags: str = ""


def run_sed(call: Call) -> Text | None:
    """What sed prints, or with `-i` nothing, the file being rewritten; None for a script that is not followed."""
    options = read_options(call, "ef")
    if options is None or options.values.keys() - set("eErniz") - {
        "quiet",
        "silent",
        "in-place",
        "regexp-extended",
        "expression",
    }:
        return None
    scripts, operands = _scripts(call)
    extended = "E" if options.values.keys() & {"E", "r", "regexp-extended"} else ""
    program: list[Step] = []
    for script in scripts:
        steps = _read_script(call, script, extended)
        if steps is None:
            return None
        program.extend(steps)
    if not program:
        return None
    if not options.values.keys() & {"i", "in-place"}:
        text = input_of(call, [word for word in call.words if any(word is operand for operand in operands)])
        return None if text is None else _edited(call, text, program, "n" in options.values)
    return _rewrite(call, operands, program)


def _rewrite(call: Call, operands: list[object], program: list[Step]) -> Text | None:
    for word in call.words:
        if any(word is operand for operand in operands):
            text = read_file(call.shell, word.pieces, call.place)
            edited = None if text is None else _edited(call, text, program, False)
            if edited is None:
                return None
            write_file(call.shell, word.pieces, edited)
    return ()


def _scripts(call: Call) -> tuple[list[Text], list[object]]:
    """The scripts (each `-e`, else the first operand) and the files."""
    scripts: list[Text] = []
    operands: list[object] = []
    words = call.words[1:]
    number = 0
    while number < len(words):
        shown = words[number].shown
        number += 1
        if shown in ("-e", "--expression") and number < len(words):
            scripts.append(words[number].pieces)
            number += 1
        elif shown.startswith("--expression="):
            scripts.append(words[number - 1].part(len("--expression=")).pieces)
        elif not shown.startswith("-") or shown == "-":
            operands.append(words[number - 1])
        elif shown[1] != "-" and shown.endswith("e") and number < len(words):
            scripts.append(words[number].pieces)
            number += 1
    if not scripts and operands:
        first = next(word for word in words if word is operands[0])
        return [first.pieces], operands[1:]
    return scripts, operands


def _read_script(call: Call, script: Text, extended: str) -> list[Step] | None:
    """The commands of a script; None for one that is not followed."""
    script = tuple(map(_as_told, script))
    characters = flat(script)
    steps: list[Step] = []
    at = 0
    while at < len(characters):
        if characters[at] in "; \n\t":
            at += 1
            continue
        step, at = _read_step(call, script, characters, at, extended)
        if step is None:
            return None
        steps.append(step)
    return steps


def _as_told(piece: Piece) -> Piece:
    """A piece of a script; one that is only supposed to be empty is not known, as a template is filled with values."""
    if piece.text != "" or not piece.assumed or not piece.how:
        return piece
    return piece._replace(text=None, assumed="", unknown=piece.assumed)


def _read_step(call: Call, script: Text, characters: str, at: int, extended: str) -> tuple[Step | None, int]:
    selects = None
    if characters[at] == "/":
        close = _closing(characters, at + 1, "/")
        selects = compiled(call.shell.world, posix_pattern(characters[at + 1 : close], extended))
        at = close + 1
        if selects is None:
            return None, at
    address = ADDRESS.match(characters, at)
    assert address is not None
    first, last, at = address[1] or "", address[2] or address[1] or "", address.end()
    action = characters[at : at + 1]
    if action in ("d", "p"):
        return Step(first, last, selects, action), at + 1
    if action != "s" or at + 1 >= len(characters):
        return None, at
    return _read_substitution(call, script, characters, at, extended, Step(first, last, selects, "s"))


def _closing(characters: str, at: int, delimiter: str) -> int:
    while at < len(characters) and characters[at] != delimiter:
        at += 2 if characters[at] == "\\" else 1
    return min(at, len(characters))


def _read_substitution(
    call: Call, script: Text, characters: str, at: int, extended: str, step: Step
) -> tuple[Step | None, int]:
    delimiter = characters[at + 1]
    middle = _closing(characters, at + 2, delimiter)
    end = _closing(characters, middle + 1, delimiter)
    if end >= len(characters) or end <= middle:
        return None, len(characters)
    expression = characters[at + 2 : middle]
    if delimiter != "/":
        expression = expression.replace("\\" + delimiter, delimiter)
    expression = expression.replace("\\/", "/")
    flags = FLAGS.match(characters, end + 1)
    assert flags is not None
    if "\ue000" in expression:
        return None, flags.end()
    pattern = compiled(
        call.shell.world, ("(?i)" if "i" in flags[0].lower() else "") + posix_pattern(expression, extended)
    )
    if pattern is None:
        return None, flags.end()
    replacement = cut(script, middle + 1, end)
    return step._replace(pattern=pattern, replacement=_unescaped(replacement, delimiter), flags=flags[0]), flags.end()


def _unescaped(replacement: Text, delimiter: str) -> Text:
    """The replacement with the delimiter's backslashes dropped."""
    characters = flat(replacement)
    pieces: list[Piece] = []
    at = 0
    for match in re.finditer(re.escape("\\" + delimiter), characters):
        pieces.extend(cut(replacement, at, match.start()))
        at = match.start() + 1
    pieces.extend(cut(replacement, at, len(characters)))
    return tuple(pieces)


def _edited(call: Call, text: Text, program: list[Step], quiet: bool) -> Text | None:
    result: list[Text] = []
    all_lines = lines(text)
    for number, line in enumerate(all_lines, 1):
        current: Text | None = line
        for step in program:
            if current is None:
                break
            if not _is_affordable(call, step.selects, current):
                return None
            if not _applies(step, number, len(all_lines), current):
                continue
            if step.action == "d":
                current = None
            elif step.action == "p":
                result.append(current)
            elif step.pattern is not None:
                if not _is_affordable(call, step.pattern, current):
                    return None
                current = _substituted(current, step)
        if current is not None and not quiet:
            result.append(current)
    if flat(text)[-1:] == "\n":
        return with_line_ends(result, call)
    return joined(result, literal("\n", call.place))


def _is_affordable(call: Call, pattern: re.Pattern[str] | None, line: Text) -> bool:
    return pattern is None or affordable(call.shell.world, pattern.pattern, len(flat(line)))


def _applies(step: Step, number: int, count: int, line: Text) -> bool:
    if step.selects is not None and not step.selects.search(flat(line)):
        return False
    if not step.first:
        return True
    first, last = (count if end == "$" else int(end) for end in (step.first, step.last))
    return first <= number <= max(first, last)


def _substituted(line: Text, step: Step) -> Text:
    assert step.pattern is not None
    characters = flat(line)
    pieces: list[Piece] = []
    at = 0
    wanted = int(digits) if (digits := "".join(char for char in step.flags if char.isdecimal()))[:6] else 1
    for count, match in enumerate(step.pattern.finditer(characters), 1):
        if count < wanted:
            continue
        pieces.extend(cut(line, at, match.start()))
        pieces.extend(_filled(step.replacement, line, match))
        at = match.end()
        if "g" not in step.flags:
            break
    pieces.extend(cut(line, at, len(characters)))
    return tuple(pieces)


def _filled(replacement: Text, line: Text, match: re.Match[str]) -> Text:
    """The replacement with `&` and `\\1` filled in."""
    characters = flat(replacement)
    if "&" not in characters and "\\" not in characters:
        return replacement
    pieces: list[Piece] = []
    at = 0
    for special in re.finditer(r"&|\\(\d)|\\(.)", characters):
        pieces.extend(cut(replacement, at, special.start()))
        at = special.end()
        if special[2]:
            character = {"n": "\n", "t": "\t"}.get(special[2], special[2])
            pieces.append(cut(replacement, special.start(), special.start() + 1)[0]._replace(text=character))
            continue
        group = int(special[1] or 0)
        if group <= (match.re.groups or 0) and match.start(group) >= 0:
            pieces.extend(cut(line, match.start(group), match.end(group)))
    pieces.extend(cut(replacement, at, len(characters)))
    return tuple(pieces)
