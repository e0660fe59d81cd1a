"""Settings with their reason written beside them: somebody measured or met something there that no rule can see."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from dtlint.catalog import gpu
from dtlint.frameworks import Member
from dtlint.rulebook.hits import Around, Hit
from dtlint.source import Source, Span

SAID = "a comment gives a reason"
DEAD = "config.inert"

REASON = re.compile(
    r"\b(do not|don'?t) (remove|delete|touch|change|unset)|\b(do|does) ?n[o']t (have|support|work)|\bno infiniband\b"
    r"|\bhang(s|ing)?\b|\bcrash|\bdeadlock|\berrors?\b.{0,40}\bwithout\b|\bwithout\b.{0,40}\berrors?\b"
    r"|\bfail(s|ed|ing|ure)?\b.{0,40}\b(without|otherwise|unless)\b|\bwork[- ]?arounds?\b"
    r"|(?<!not )(?<!no )\bneed(s|ed)?\b|\b(required|requires|necessary|because|otherwise)\b"
    r"|\bto avoid\b|\b(bugs?|issues?)\b|\bmemory leaks?\b|\bout of memory\b|\boom\b|\btime-?outs?\b|\bno effect\b"
    r"|\berror (reports?|reporting|handling|messages?)\b|\bstack ?traces?\b|\bto (see|find|tell|show) where\b"
    r"|\breproducib|\bdetermini|\bfor stability\b|\bRTX\b|\b[345]0[6-9]0(ti)?\b"
    r"|避免|防止|解决|否则|不支持|报错|卡住|卡死|死锁|超时|必须|需要",
    re.IGNORECASE,
)
"""Words by which a comment says why a setting stands there, in English and in Chinese: what it avoids, works around or
is needed for, the card that asks for it.
"""

ENDING = re.compile(r"hang(s|ing)?|time-?outs?|out of memory|oom|卡住|卡死|超时", re.IGNORECASE)
"""Those of these words that ask for the end of a run which does not go on."""

COMMENT = re.compile(r"(?:^|(?<=\s))(?:#+|//+)(?!!)\s*(.*)$")
OWN_WORDS = re.compile(r"(?:SBATCH|PBS|dtlint)\b|dtlint:")
"""Beginnings of comments that a program reads."""

KEY = re.compile(r'\s*"([^"]+)"\s*:')
REMARK = re.compile(r'\s*"(?:[_#]|//|\$?comment|note|reason)[^"]*"\s*:\s*"([^"]*)"', re.IGNORECASE)
"""A key that no program reads, where the file has no comments: its text is one (`"_comment": "..."`, `"//": "..."`)."""

WORD = re.compile(r"\w+")

CARD = re.compile(r"\b(?:RTX[ -]?)?[A-Z]{0,2}\d{1,4}[A-Z]{0,2}\b", re.IGNORECASE)
"""What can be the name of a card in a comment; the catalog knows whether it is."""

VARIABLE = re.compile(r"\s*(?:export\s+|-\s+|ENV\s+)?[A-Z][A-Z0-9_]+\s*[=:]|\s*os\.environ\[")
"""A line that sets a variable of the environment: lines of that kind under one comment share it."""

FREEING = re.compile(r"del\s|gc\.collect\(")
"""A line that gives memory back: what does so below under one comment shares it."""

MOST_LINES = 4
"""Lines of a comment that are read, the nearest ones, and lines of variables that share it. What a licence requires
stands further above.
"""


def with_a_reason(hit: Hit, around: Around) -> str | None:
    """What is said of a hit where a comment gives a reason for what is written there, or for the same variable with the
    same value in another of the files; None where none does.
    """
    if not hit.anchor.written or _is_dead(hit):
        return None
    card = hit.scope.plan.word("cluster.gpu")
    places, served = (hit.anchor.span, *_same(hit.anchor.span, around.sources)), _is_served(hit)
    return SAID if any(_has_reason(place, card, served) for place in places) else None


def _is_dead(hit: Hit) -> bool:
    """Whether what is written there has no effect: a comment then says what it should do, and it does not."""
    each = hit.ready.rule.each
    return each is not None and each.collection == DEAD


def _is_served(hit: Hit) -> bool:
    """Whether a run that hangs is ended without what is written there, so that this is no reason for it."""
    member = hit.scope.member
    return isinstance(member, Member) and "instead" in member.fields


def _has_reason(span: Span, card: str | None, served: bool) -> bool:
    """Whether comments at a place give a reason that holds for this card: one that names cards speaks of those."""
    said = [comment for comment in (*_comments(span), *_remarks(span)) if not OWN_WORDS.match(comment)]
    words = (found[0] for comment in said for found in REASON.finditer(comment))
    if not any(not served or not ENDING.fullmatch(word) for word in words):
        return False
    own = (card or "").partition("-")[0]
    named = {name for comment in said for name in _cards(comment)}
    return not own or not named or own in named


def _cards(text: str) -> Iterator[str]:
    """The kinds of cards that a text names, of those in the catalog."""
    for word in CARD.findall(text):
        found = gpu(word) or gpu(f"RTX {word}")
        if found is not None:
            yield found.name.partition("-")[0]


def _comments(span: Span) -> Iterator[str]:
    """The comment behind a place on its line, and the lines of comment right above it."""
    source, line = span.source, span.line
    ending = source.line_text(span.end_line)[span.end_column - 1 :]
    yield from COMMENT.findall(ending)
    above = [source.line_text(number) for number in range(line - 1, max(0, line - 1 - 2 * MOST_LINES), -1)]
    shared = VARIABLE if VARIABLE.match(source.line_text(line)) else FREEING
    above = above[_leading(above, shared) :]
    yield from (found for text in above[: _leading(above, COMMENT)] for found in COMMENT.findall(text))


def _remarks(span: Span) -> Iterator[str]:
    """The texts of keys that stand for comments: of those right above a place, and of those that name its key."""
    lines, own = span.source.text.splitlines(), span.line - 1
    key = KEY.match(span.source.line_text(span.line))
    if key is None:
        return
    above = lines[max(0, own - MOST_LINES) : own][::-1]
    yield from _said(above[: _leading(above, REMARK)])
    yield from (text for text in _said(lines) if key[1] in WORD.findall(text))


def _said(lines: Iterable[str]) -> Iterator[str]:
    return (found[1] for line in lines if (found := REMARK.match(line)))


def _leading(lines: Sequence[str], form: re.Pattern[str]) -> int:
    """How many of the first lines have a form, MOST_LINES at most."""
    count = next((index for index, text in enumerate(lines) if not form.match(text.lstrip())), len(lines))
    return min(count, MOST_LINES)


def _same(span: Span, sources: Sequence[Source]) -> Iterator[Span]:
    """The places in other files of a line that sets a variable: the same one to the same value."""
    line = span.source.line_text(span.line).strip()
    if not VARIABLE.match(line) or COMMENT.search(line):
        return
    for source in sources:
        at = source.text.find(line) if source.path != span.path else -1
        while at >= 0:
            if _stands_alone(source, at, line):
                yield source.span(at, at + len(line))
            at = source.text.find(line, at + len(line))


def _stands_alone(source: Source, at: int, line: str) -> bool:
    """Whether a text is all that its line says, but for a comment."""
    whole = source.line_text(source.position(at)[0])
    return COMMENT.sub("", whole).strip() == line
