"""The one-line awk programs that launch scripts use: fields of the lines, perhaps of those that fit a pattern; and
constant arithmetic.
"""

from __future__ import annotations

import re

from dtlint.languages.shell.call import Call
from dtlint.languages.shell.inputs import input_of, read_options
from dtlint.languages.shell.lines import with_line_ends
from dtlint.languages.shell.patterns import affordable, compiled, posix_pattern
from dtlint.languages.shell.text import Text, cut, derived, flat, known, lines, literal
from dtlint.languages.traced import Piece

PROGRAM = re.compile(
    r"(?:NR\s*==\s*(?P<row>\d+)|/(?P<pattern>(?:[^/\\]|\\.)*)/)?\s*(?:\{\s*print(?P<what>[^{}]*)\})?", re.DOTALL
)
ITEM = re.compile(r'\$(\d+|NF)|"((?:[^"\\]|\\.)*)"|(,)|(NF)\b')
MAX_PROGRAM = 1_000
"""Characters of a program beyond which it is no line of its own, and not followed."""


def run_awk(call: Call) -> Text | None:
    """What `awk 'PROGRAM'` prints; None for a program that is not followed."""
    options = read_options(call, "Ffv")
    if options is None or not options.operands or options.values.keys() - {"F"}:
        return None
    written = (options.operands[0].text or "?").strip()
    program = PROGRAM.fullmatch(written) if len(written) <= MAX_PROGRAM else None
    text = input_of(call, options.operands[1:])
    if (
        not program
        or text is None
        or known(text) is None
        or not (program["what"] is not None or program["row"] or program["pattern"])
    ):
        return None
    kept = _chosen(call, lines(text), program)
    what = _without_exit(program["what"] or "")
    items = ITEM.findall(what)
    if kept is None or ITEM.sub("", what).strip():
        return None
    separator = options.text("F")
    return with_line_ends([_printed(call, line, items, separator) for line in kept], call)


def _without_exit(what: str) -> str:
    """What is printed, without the `; exit` behind it."""
    bare = what.rstrip("; \t\n")
    before = bare.removesuffix("exit").rstrip()
    return before.rstrip("; \t\n") if bare.endswith("exit") and before.endswith(";") else bare


def _chosen(call: Call, texts: list[Text], program: re.Match[str]) -> list[Text] | None:
    if program["row"]:
        number = int(program["row"][:9])
        return texts[number - 1 : number]
    if program["pattern"] is None:
        return texts
    pattern = posix_pattern(program["pattern"], "E")
    matcher = compiled(call.shell.world, pattern)
    if matcher is None or not affordable(
        call.shell.world, pattern, max((len(flat(line)) for line in texts), default=0), len(texts)
    ):
        return None
    return [line for line in texts if matcher.search(flat(line))]


def _printed(call: Call, line: Text, items: list[tuple[str, str, str, str]], separator: str | None) -> Text:
    if not items:
        return line
    fields = _fields(call, line, separator)
    pieces: list[Piece] = []
    for field, constant, comma, count in items:
        if comma:
            pieces.extend(literal(" ", call.place))
        elif count:
            pieces.append(derived(str(len(fields)), line) if line else literal("0", call.place)[0])
        elif field:
            number = len(fields) if field == "NF" else int(field[:9])
            pieces.extend(line if number == 0 else fields[number - 1] if number <= len(fields) else ())
        else:
            pieces.extend(literal(constant, call.place))
    return tuple(pieces)


def _fields(call: Call, line: Text, separator: str | None) -> list[Text]:
    characters = flat(line)
    if separator in (None, " "):
        return [cut(line, *match.span()) for match in re.finditer(r"\S+", characters)]
    matcher = compiled(call.shell.world, re.escape(separator) if len(separator) == 1 else posix_pattern(separator, "E"))
    if matcher is None or len(separator) > 20 or not affordable(call.shell.world, matcher.pattern, len(characters)):
        return [line]
    fields: list[Text] = []
    at = 0
    for match in matcher.finditer(characters):
        if match.end() > match.start():
            fields.append(cut(line, at, match.start()))
            at = match.end()
    return [*fields, cut(line, at, len(characters))]
