"""Filters of lines: head, tail, wc, cut, tr, grep, sort, uniq."""

from __future__ import annotations

import re

from dtlint.languages.shell.call import Call
from dtlint.languages.shell.inputs import input_of, read_options
from dtlint.languages.shell.patterns import affordable, compiled, posix_pattern
from dtlint.languages.shell.state import Verdict
from dtlint.languages.shell.text import Text, cut, derived, flat, known, lines, literal
from dtlint.languages.traced import UNKNOWN_CHARACTER, Piece

RANGE = re.compile(r"(\d*)(?:(-)(\d*))?")
SET_RANGE = re.compile(r"(.)-(.)")
SET_CLASSES = {
    "[:upper:]": "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "[:lower:]": "abcdefghijklmnopqrstuvwxyz",
    "[:digit:]": "0123456789",
    "[:space:]": " \t\n\r\f\v",
    "[:blank:]": " \t",
}


def with_line_ends(texts: list[Text], call: Call) -> Text:
    """Lines as they are printed."""
    return tuple(piece for text in texts for piece in (*text, *literal("\n", call.place)))


def _known_lines(call: Call, text: Text | None) -> list[Text] | None:
    """The lines of an input whose number of lines is certain."""
    if text is None:
        return None
    result = lines(text)
    return None if any(known(line) is None and len(line) == 1 for line in result) else result


def _count(call: Call, default: int) -> int | None:
    """The N of head and tail, from `-n N`, `-nN` and `-N`."""
    options = read_options(call, "nc")
    if options is None or "c" in options.values:
        return None
    if "n" in options.values:
        text = options.text("n")
        return int(text) if text is not None and re.fullmatch(r"[-+]?\d{1,9}", text) else None
    digits = "".join(name for name in options.values if name.isdecimal())
    return int(digits) if digits and len(digits) < 9 else default


def _files(call: Call, with_value: str) -> Text | None:
    options = read_options(call, with_value)
    return None if options is None else input_of(call, options.operands)


def run_head(call: Call) -> Text | None:
    """The first lines."""
    text, count = _files(call, "nc"), _count(call, 10)
    kept = _known_lines(call, text)
    return None if kept is None or count is None else with_line_ends(kept[:count], call)


def run_tail(call: Call) -> Text | None:
    """The last lines, or with `-n +N` those from number N on."""
    text, count = _files(call, "nc"), _count(call, 10)
    kept = _known_lines(call, text)
    if kept is None or count is None:
        return None
    options = read_options(call, "nc")
    from_start = options is not None and (options.text("n") or "").startswith("+")
    return with_line_ends(kept[max(count - 1, 0) :] if from_start else kept[-abs(count) :] if count else [], call)


def run_wc(call: Call) -> Text | None:
    """Counts of lines, words or characters."""
    options = read_options(call, "")
    text = None if options is None else input_of(call, options.operands)
    if options is None or text is None or known(text) is None:
        return None
    characters = known(text) or ""
    counts = {
        "l": characters.count("\n"),
        "w": len(characters.split()),
        "c": len(characters.encode()),
        "m": len(characters),
    }
    asked = [name for name in ("l", "w", "m", "c") if name in options.values] or ["l", "w", "c"]
    names = "".join(f" {word.shown}" for word in options.operands)
    shown = " ".join(str(counts[name]) for name in asked) + names
    return (derived(shown + "\n", text),) if text else literal(shown + "\n", call.place)


def run_cut(call: Call) -> Text | None:
    """Fields (`-d , -f 1`) or characters (`-c 1-4`) of each line."""
    options = read_options(call, "dfcbs")
    text = None if options is None else input_of(call, options.operands)
    if options is None or text is None:
        return None
    delimiter = options.text("d") or "\t"
    wanted = options.text("f") or options.text("c") or options.text("b")
    if wanted is None or (known(text) is None and "f" not in options.values):
        return None
    pick = _pick_fields if "f" in options.values else _pick_characters
    picked = [pick(line, delimiter[0], wanted) for line in lines(text)]
    if any(each is None for each in picked):
        return None
    return with_line_ends([each for each in picked if each is not None], call)


def _numbers(wanted: str, size: int) -> list[int] | None:
    """The numbers from 1 that a list such as `1,3-` picks out of `size`."""
    numbers: set[int] = set()
    for part in wanted.split(","):
        match = RANGE.fullmatch(part)
        if not match or not (match[1] or match[3]) or len(part) > 12:
            return None
        first = int(match[1] or 1)
        last = first if not match[2] else int(match[3] or size)
        numbers.update(range(first, min(last, size) + 1))
    return sorted(numbers)


def _pick_fields(line: Text, delimiter: str, wanted: str) -> Text | None:
    characters = flat(line)
    if delimiter not in characters:
        return None if UNKNOWN_CHARACTER in characters else line
    starts = [0, *(index + 1 for index, char in enumerate(characters) if char == delimiter)]
    ends = [*(start - 1 for start in starts[1:]), len(characters)]
    numbers = _numbers(wanted, len(starts))
    if numbers is None or UNKNOWN_CHARACTER in characters[: ends[numbers[-1] - 1] if numbers else 0]:
        return None
    pieces: list[Piece] = []
    for position, number in enumerate(numbers):
        if position:
            pieces.extend(cut(line, starts[number - 1] - 1, starts[number - 1]))
        pieces.extend(cut(line, starts[number - 1], ends[number - 1]))
    return tuple(pieces)


def _pick_characters(line: Text, delimiter: str, wanted: str) -> Text | None:
    numbers = _numbers(wanted, len(flat(line)))
    return None if numbers is None else tuple(piece for number in numbers for piece in cut(line, number - 1, number))


def _character_set(written: str) -> str:
    for name, members in SET_CLASSES.items():
        written = written.replace(name, members)
    written = written.replace("\\n", "\n").replace("\\t", "\t").replace("\\\\", "\\")
    return SET_RANGE.sub(
        lambda match: "".join(map(chr, range(ord(match[1]), min(ord(match[2]), ord(match[1]) + 300) + 1))), written
    )


def run_tr(call: Call) -> Text | None:
    """Characters replaced, or deleted with `-d`, or squeezed with `-s`."""
    options = read_options(call, "")
    text = call.shell.stdin
    if options is None or text is None or not options.operands or any(word.text is None for word in options.operands):
        return None
    first = _character_set(options.operands[0].text or "")
    if "c" in options.values or "C" in options.values:
        first = "".join(set(flat(text)) - set(first))
    second = _character_set(options.operands[1].text or "") if len(options.operands) > 1 else ""
    if known(text) is None or options.values.keys() - {"d", "s", "c", "C"}:
        return None
    if "d" in options.values:
        return _mapped(text, dict.fromkeys(first, ""))
    if "s" in options.values:
        return _squeezed(text, first) if not second else None
    second = second + second[-1:] * max(0, len(first) - len(second))
    return _mapped(text, dict(zip(first, second, strict=False)))


def _mapped(text: Text, replaced: dict[str, str]) -> Text:
    pieces: list[Piece] = []
    at = 0
    characters = flat(text)
    for index, char in enumerate(characters):
        if char in replaced:
            pieces.extend(cut(text, at, index))
            if replaced[char]:
                pieces.append(cut(text, index, index + 1)[0]._replace(text=replaced[char]))
            at = index + 1
    pieces.extend(cut(text, at, len(characters)))
    return tuple(pieces)


def _squeezed(text: Text, members: str) -> Text:
    characters = flat(text)
    kept = [
        index
        for index, char in enumerate(characters)
        if not (index and char in members and characters[index - 1] == char)
    ]
    return tuple(piece for index in kept for piece in cut(text, index, index + 1))


def run_grep(call: Call) -> Text | None:
    """The lines that fit a regular expression; `-c`, `-v`, `-o`, `-q`, `-i`, `-E`, `-F` and `-w` count."""
    options = read_options(call, "emABC")
    call.shell.status = Verdict(None)
    if options is None:
        return None
    expression, operands = options.text("e"), options.operands
    if expression is None and operands:
        expression, operands = operands[0].text, operands[1:]
    text = input_of(call, operands)
    if expression is None or text is None or known(text) is None or options.values.keys() - set("eEFcvoqiwhPx"):
        return None
    return _grep(call, lines(text), expression, options.values.keys())


def _grep(call: Call, texts: list[Text], expression: str, letters: object) -> Text | None:
    chosen = set(letters)  # type: ignore[call-overload]
    extended = "E" if chosen & {"E", "P"} or call.words[0].text == "egrep" else ""
    pattern = re.escape(expression) if "F" in chosen else posix_pattern(expression, extended)
    pattern = rf"\b(?:{pattern})\b" if "w" in chosen else pattern
    matcher = compiled(call.shell.world, ("(?i)" if "i" in chosen else "") + pattern)
    longest = max((len(flat(line)) for line in texts), default=0)
    if matcher is None or not affordable(call.shell.world, pattern, longest, len(texts)):
        return None
    fits = [line for line in texts if bool(matcher.search(flat(line))) is not ("v" in chosen)]
    call.shell.status = Verdict(bool(fits))
    if "c" in chosen:
        return literal(f"{len(fits)}\n", call.place)
    if "q" in chosen:
        return ()
    if "o" in chosen:
        fits = [cut(line, *match.span()) for line in fits for match in matcher.finditer(flat(line)) if match[0]]
    return with_line_ends(fits, call)


def run_sort(call: Call) -> Text | None:
    """The lines in order: as text, `-n` as numbers, `-r` reversed, `-u` without repeats."""
    options = read_options(call, "ktoT")
    text = None if options is None else input_of(call, options.operands)
    if options is None or text is None or known(text) is None or options.values.keys() - set("nru"):
        return None
    texts = sorted(lines(text), key=flat)
    if "n" in options.values:
        texts.sort(key=lambda line: _leading_number(flat(line)))
    if "r" in options.values:
        texts.reverse()
    return with_line_ends(_without_repeats(texts) if "u" in options.values else texts, call)


def _leading_number(characters: str) -> float:
    match = re.match(r"\s*-?\d+(?:\.\d+)?", characters)
    return float(match[0]) if match else 0.0


def _without_repeats(texts: list[Text]) -> list[Text]:
    return [line for number, line in enumerate(texts) if not number or flat(line) != flat(texts[number - 1])]


def run_uniq(call: Call) -> Text | None:
    """The lines without repeats."""
    text = call.shell.stdin
    if text is None or known(text) is None or len(call.words) > 1:
        return None
    return with_line_ends(_without_repeats(lines(text)), call)
