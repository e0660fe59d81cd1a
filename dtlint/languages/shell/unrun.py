"""How far bash comes in a script that it refuses: it runs each line of commands before it parses what follows."""

from __future__ import annotations

from collections.abc import Sequence

from dtlint.languages.shell.syntax import Function, Node
from dtlint.source import Problem, Source, Span


def with_unrun(source: Source, items: Sequence[Node], problems: Sequence[Problem]) -> list[Problem]:
    """The problems of a script, the first that bash refuses with the part of the script that is not run for it."""
    first = min((each for each in problems if each.fatal), key=lambda each: each.span.start, default=None)
    if first is None:
        return list(problems)
    part = _unrun(source, items, first.span.start)
    return [each._replace(unrun=part) if each is first else each for each in problems]


def _unrun(source: Source, items: Sequence[Node], fault: int) -> Span | None:
    """From the end of the last line of whole commands before a fault; None where a function from before it is named
    behind that end, for its commands would run there.
    """
    start = _last_whole_line(source.text, items, fault)
    part = Span(source, start, len(source.text))
    known = (item.name for item in items if isinstance(item, Function) and item.span.end <= start)
    return None if any(name in part.text for name in known) else part


def _last_whole_line(text: str, items: Sequence[Node], fault: int) -> int:
    """Where the last command ends that stands before a fault with its whole line."""
    for item in reversed(items):
        end = item.span.end
        line_end = text.find("\n", end, fault)
        if line_end >= 0 and _is_blank(text[end:line_end]):
            return end
    return 0


def _is_blank(rest: str) -> bool:
    """Whether no further command stands behind one on its line."""
    return not rest.partition(" #")[0].strip(" \t\r;&")
