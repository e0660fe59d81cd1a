"""Ignores in the files themselves: `# dtlint: ignore[rule] reason`, `# dtlint: ignore-file[rule] reason`, a
"//dtlint" key in JSON.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import islice

from dtlint.config import Config
from dtlint.frameworks import Member
from dtlint.record import NamedTuple
from dtlint.rulebook.expressions import suggestion
from dtlint.rulebook.finding import Finding
from dtlint.rulebook.rule import Rule
from dtlint.source import Source, Span
from dtlint.value import Plain, default

MARK = "dtlint"
"""Text that every ignore has in it."""

MOST = 200
"""Ignores that are read in one file; a file that needs more of them is left out in dtlint.toml."""

MOST_LINES = 500
"""Lines of the longest statement that a comment above it covers."""

MOST_KEYS = 5
"""Places in a JSON text that are tried as the "//dtlint" key; a document has one."""

COLLECTIONS = ("input.ignores", "input.unused_ignores")
"""What rules about ignores look at, all of them and those that hide nothing: `rule`, `reason`, `problem` (why it is
idle)."""

_COMMENT = r"(?m)(?:^|(?<=\s))(?:#|//)[ \t]*dtlint:[ \t]*ignore(-file)?\[([^\[\]\n]*)\][ \t]*:?[ \t]*([^\n]*)"
_KEY = r'"//dtlint"\s*:\s*'
_IN_TEXT = r"(?s)ignore(?:-file)?\[([^\]]*)\]\s*:?\s*(.*)"


class Ignore(NamedTuple):
    """A wish to leave one rule out, by name or id: where it stands, the lines of its file that it covers (None for
    all), and why.
    """

    span: Span
    rule: str
    lines: range | None
    reason: str


def ignores_in(sources: Iterable[Source]) -> list[Ignore]:
    """Every ignore of the files, one for each rule named."""
    return [ignore for source in sources if MARK in source.text for ignore in islice(_of(source), MOST)]


def standing_before(ignores: Iterable[Ignore], text_before: Callable[[Source], str | None]) -> list[bool]:
    """For each ignore whether its file already had it, with the same rule and reason: one more of a kind is new."""
    left: Counter[tuple[str, str, str]] = Counter()
    read: set[str] = set()
    found: list[bool] = []
    for ignore in ignores:
        source = ignore.span.source
        if source.path not in read:
            read.add(source.path)
            before = Source(source.path, text_before(source) or "")
            left.update((source.path, each.rule, each.reason) for each in ignores_in([before]))
        key = (source.path, ignore.rule, ignore.reason)
        found.append(left[key] > 0)
        left[key] -= 1
    return found


def covers(ignore: Ignore, finding: Finding) -> bool:
    """Whether the finding has a place, its own or a related one, where the ignore holds."""
    if ignore.rule not in (finding.rule, finding.id):
        return False
    places = [finding.span, *(related.span for related in finding.related)]
    here = [place for place in places if place.path == ignore.span.path]
    return any(ignore.lines is None or place.line in ignore.lines for place in here)


def hiding(ignores: Iterable[Ignore], finding: Finding) -> list[Ignore]:
    """The ignores that hide a finding."""
    return [ignore for ignore in ignores if covers(ignore, finding)]


def left_out(finding: Finding, config: Config) -> bool:
    """Whether dtlint.toml leaves the rule out in the finding's file."""
    file = finding.span.source.file
    if file is None or config.folder is None or not config.file_ignores:
        return False
    resolved = file.resolve()
    path = (
        resolved.relative_to(config.folder).as_posix()
        if resolved.is_relative_to(config.folder)
        else resolved.as_posix()
    )
    return any(
        fnmatchcase(path, pattern) and (finding.rule in rules or finding.id in rules)
        for pattern, rules in config.file_ignores
    )


def collections_of(
    ignores: Iterable[Ignore], unused: Iterable[Ignore], known: Iterable[Rule], decided: Iterable[str]
) -> Mapping[str, tuple[Member, ...]]:
    """COLLECTIONS: every ignore, and those that hide nothing though their rule was decided, or that name no rule."""
    names = {word: rule.name for rule in known for word in (rule.name, rule.id)}
    settled = set(decided)
    idle = [
        _member(ignore, _problem(ignore, names))
        for ignore in unused
        if ignore.rule not in names or names[ignore.rule] in settled
    ]
    return dict(zip(COLLECTIONS, (tuple(map(_member, ignores)), tuple(idle)), strict=True))


def _problem(ignore: Ignore, names: Mapping[str, str]) -> str:
    if ignore.rule in names:
        return "nothing is found here"
    return f"no rule has this name{suggestion(ignore.rule, names)}"


def _member(ignore: Ignore, problem: str = "") -> Member:
    fields: dict[str, Plain] = {"rule": ignore.rule, "reason": ignore.reason, "problem": problem}
    return Member(ignore.span, {name: default(value, MARK) for name, value in fields.items()})


def _of(source: Source) -> Iterator[Ignore]:
    for match in re.finditer(_COMMENT, source.text):
        span = source.span(match.start(), match.end()).original()
        lines = None if match.group(1) else _covered(span)
        yield from _each(span, match.group(2), lines, match.group(3))
    if source.text.lstrip()[:1] == "{":
        yield from _in_json(source)


def _each(span: Span, names: str, lines: range | None, reason: str) -> Iterator[Ignore]:
    words = [name.strip() for name in names.split(",") if name.strip()]
    return (Ignore(span, word, lines, reason.strip()) for word in words)


def _covered(span: Span) -> range:
    """The line of the comment; for a comment on a line of its own also the statement that follows, over its `\\`
    continuations.
    """
    source, line = span.source, span.line
    last = line
    if not source.line_text(line)[: span.column - 1].strip():
        last = min(line + 1, source.line_count())
        end = min(source.line_count(), line + MOST_LINES)
        while last < end and source.line_text(last).endswith("\\"):
            last += 1
    return range(line, last + 1)


def _in_json(source: Source) -> Iterator[Ignore]:
    for match in islice(re.finditer(_KEY, source.text), MOST_KEYS):
        span = source.span(match.start(), match.start() + len('"//dtlint"'))
        try:
            value, _ = json.JSONDecoder().raw_decode(source.text, match.end())
        except (ValueError, RecursionError):
            continue
        for names, reason in _pairs(value):
            yield from _each(span, names, None, reason)


def _pairs(value: object) -> Iterator[tuple[str, str]]:
    """The rules and reasons of {"rule": "reason"}, of "ignore[rule] reason", or of a list of such texts."""
    if isinstance(value, dict):
        yield from ((name, reason if isinstance(reason, str) else "") for name, reason in value.items())
    for text in value if isinstance(value, list) else [value]:
        found = re.match(_IN_TEXT, text.strip()) if isinstance(text, str) else None
        if found is not None:
            yield found.group(1), found.group(2)
