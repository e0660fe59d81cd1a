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
    r"\s*(?:NR\s*==\s*(?P<row>\d+)|/(?P<pattern>(?:[^/\\]|\\.)*)/)?\s*(?:\{\s*print\s*(?P<what>[^{}]*?);?\s*(?:;\s*exit;?)?\s*\})?\s*$"
)
ITEM = re.compile(r'\s*(?:\$(\d+|NF)|"((?:[^"\\]|\\.)*)"|(,)|(NF)\b)')


def run_awk(call: Call) -> Text | None:
    """What `awk 'PROGRAM'` prints; None for a program that is not followed."""
    options = read_options(call, "Ffv")
    if options is None or not options.operands or options.values.keys() - {"F"}:
        return None
    program = PROGRAM.match(options.operands[0].text or "?")
    text = input_of(call, options.operands[1:])
    if (
        not program
        or text is None
        or known(text) is None
        or not (program["what"] is not None or program["row"] or program["pattern"])
    ):
        return None
    kept = _chosen(lines(text), program)
    items = ITEM.findall(program["what"] or "")
    if (
        kept is None
        or "".join(match[0] for match in ITEM.finditer(program["what"] or "")).strip()
        != (program["what"] or "").strip()
    ):
        return None
    separator = options.text("F")
    return with_line_ends([_printed(call, line, items, separator) for line in kept], call)


def _chosen(texts: list[Text], program: re.Match[str]) -> list[Text] | None:
    if program["row"]:
        number = int(program["row"][:9])
        return texts[number - 1 : number]
    if program["pattern"] is None:
        return texts
    pattern = posix_pattern(program["pattern"], "E")
    matcher = compiled(pattern)
    if matcher is None or not affordable(pattern, max((len(flat(line)) for line in texts), default=0)):
        return None
    return [line for line in texts if matcher.search(flat(line))]


def _printed(call: Call, line: Text, items: list[tuple[str, str, str, str]], separator: str | None) -> Text:
    if not items:
        return line
    fields = _fields(line, separator)
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


def _fields(line: Text, separator: str | None) -> list[Text]:
    characters = flat(line)
    if separator in (None, " "):
        return [cut(line, *match.span()) for match in re.finditer(r"\S+", characters)]
    matcher = compiled(re.escape(separator) if len(separator) == 1 else posix_pattern(separator, "E"))
    if matcher is None or len(separator) > 20 or not affordable(matcher.pattern, len(characters)):
        return [line]
    fields: list[Text] = []
    at = 0
    for match in matcher.finditer(characters):
        if match.end() > match.start():
            fields.append(cut(line, at, match.start()))
            at = match.end()
    return [*fields, cut(line, at, len(characters))]
