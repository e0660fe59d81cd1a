"""Writes remedies into the files: one after the other, each read again before it counts, until nothing more helps.

A remedy is taken if the changed files say what it wants, say nothing else anew, and raise no error or warning that was
not there. A safe one leaves the training mathematics unchanged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from dtlint.plan import Plan, vocabulary
from dtlint.record import NamedTuple
from dtlint.replacing import replace
from dtlint.rulebook.check import Report
from dtlint.rulebook.finding import Finding
from dtlint.rulebook.fixable import Fix, candidates
from dtlint.source import Edit, Source, Span
from dtlint.value import Plain

MOST_TRIES = 200
"""Remedies that are tried in one call: each takes a whole check."""

BATCH = ("parallel.data", "parallel.world_size", "batch.micro", "batch.accumulation")
"""What makes up the global batch."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

Texts = Mapping[Path, str]
"""Changed files by resolved path, with their whole text."""

Check = Callable[[Texts], Report]
"""Checks the files with the changed texts in place of what is on disk."""


class Fixed(NamedTuple):
    """What was done: the remedies in order, the texts of the files that changed, and what is left."""

    fixes: tuple[Fix, ...]
    texts: Texts
    report: Report


class Unwritable(Exception):  # noqa: N818 - a fact about a file, not a programming error
    """A file that could not be written, with the sentence that says why."""


def fix(check: Check, unsafe: bool) -> Fixed:
    """Take remedies until none is left to take; `unsafe` ones change the training too. Nothing is written."""
    fixed = Fixed((), {}, check({}))
    tried: set[tuple[str, str, str, int]] = set()
    while len(tried) < MOST_TRIES:
        candidate = next((each for each in candidates(fixed.report.findings, unsafe) if _key(each) not in tried), None)
        if candidate is None:
            break
        tried.add(_key(candidate))
        fixed = _taken(fixed, candidate, check, unsafe) or fixed
    return fixed


def applied(edits: Iterable[Edit], texts: Texts) -> Texts | None:
    """The texts after the edits; None where two of them overlap or one lies in no file."""
    by_file: dict[Path, list[Edit]] = {}
    for edit in edits:
        span = edit.span.original()
        if span.source.file is None:
            return None
        by_file.setdefault(span.source.file.resolve(), []).append(Edit(span, edit.text))
    changed = {file: _edited(found) for file, found in by_file.items()}
    whole = {file: text for file, text in changed.items() if text is not None}
    return {**texts, **whole} if len(whole) == len(changed) else None


def write(texts: Texts) -> None:
    """Replace the files by their new texts, each as a whole or not at all, mode and byte-order mark kept.

    Unwritable for the first that cannot be.
    """
    for file, text in texts.items():
        try:
            replace(file, _head(file) + text.encode("utf-8"))
        except OSError as error:
            raise Unwritable(f"cannot write {file}: {error.strerror}") from None


def diff(texts: Texts, shown: Callable[[Path], str]) -> str:
    """What `write` would change, as a patch; `shown` gives the path of a file in it."""
    return "".join(line for file, text in texts.items() for line in _patch(file, text, shown(file)))


def _taken(fixed: Fixed, candidate: Fix, check: Check, unsafe: bool) -> Fixed | None:
    """The state after a remedy, None if it does not do what it should."""
    if not all(_is_whole(edit.span.original().source) for edit in candidate.remedy.edits):
        return None
    texts = applied(candidate.remedy.edits, fixed.texts)
    if texts is None or texts == fixed.texts:
        return None
    after = check(texts)
    if not is_sound(fixed.report, after, candidate) or not (unsafe or trains_alike(fixed.report, after)):
        return None
    return Fixed((*fixed.fixes, candidate), texts, after)


def is_sound(before: Report, after: Report, taken: Fix) -> bool:
    """Whether the changed files say what the remedy wants and nothing else is another than before."""
    if len(before.runs) != len(after.runs) or not _says(after, taken):
        return False
    pairs = zip(before.runs, after.runs, strict=True)
    alone = all(not differing(one.plan, other.plan, taken.remedy.set) for one, other in pairs)
    return alone and not _raised(before, after) and _helps(before, after, taken)


def trains_alike(before: Report, after: Report) -> bool:
    """Whether every run takes as many sequences to a step as before; where that is unknown, as many in each rank and
    on as many ranks.
    """
    pairs = zip(before.runs, after.runs, strict=True)
    return all(_batch(one.plan) == _batch(other.plan) for one, other in pairs)


def _batch(plan: Plan) -> tuple[Plain, ...]:
    whole = plan.value("batch.global")
    return (whole,) if whole is not None else tuple(map(plan.value, BATCH))


def differing(before: Plan, after: Plan, wanted: Mapping[str, Plain]) -> list[str]:
    """The settings that the files state otherwise than before, but for `wanted` ones, those that the same literal
    states, and those that have to follow (no sequence parallelism over one tensor-parallel rank).
    """
    names = [name for name in vocabulary() if name not in wanted and _differs(name, before, after)]
    apart = [name for name in names if not (_together(name, before, wanted) or _together(name, after, wanted))]
    meant = before.but(wanted) if apart else None
    return [name for name in apart if not isinstance(meant, Plan) or meant.value(name) != after.value(name)]


def _differs(name: str, before: Plan, after: Plan) -> bool:
    one, other = before.stated(name), after.stated(name)
    if one is None or other is None:
        return one is not other
    return one.value != other.value


def _together(name: str, plan: Plan, wanted: Iterable[str]) -> bool:
    span = _place(plan, name)
    return span is not None and any(_place(plan, each) == span for each in wanted)


def _place(plan: Plan, name: str) -> Span | None:
    found = plan.stated(name)
    return found.origin.span if found is not None else None


def _says(after: Report, taken: Fix) -> bool:
    plans = [after.runs[index].plan for index in taken.finding.runs]
    return all(plan.value(name) == value for plan in plans for name, value in taken.remedy.set.items())


def _raised(before: Report, after: Report) -> bool:
    """Whether a rule finds more than it did, what was moot included: a launch that starts has a speed to speak of."""
    return bool(_serious((*after.findings, *after.moot)) - _serious((*before.findings, *before.moot)))


def _serious(findings: Iterable[Finding]) -> Counter[str]:
    return Counter(finding.rule for finding in findings if finding.severity != "note")


def _helps(before: Report, after: Report, taken: Fix) -> bool:
    """Whether an error is gone; a warning may be left, smaller than it was. Of what is wrong at several places of the
    code, one is gone.
    """
    left = _alike(after, taken.finding)
    if not taken.remedy.set:
        return len(left) < len(_alike(before, taken.finding))
    return taken.finding.severity != "error" or not any(each.severity == "error" for each in left)


def _alike(report: Report, finding: Finding) -> list[Finding]:
    """The findings of the same rule in the same runs."""
    return [each for each in report.findings if each.rule == finding.rule and set(each.runs) & set(finding.runs)]


def _key(candidate: Fix) -> tuple[str, str, str, int]:
    """What is tried once: a change of settings for a file, a change of code for the place that it is found at."""
    span = candidate.finding.span.original()
    place = 0 if candidate.remedy.set else span.line
    return candidate.finding.rule, span.path, candidate.remedy.text, place


def _edited(edits: Sequence[Edit]) -> str | None:
    """The text of a file after edits that do not overlap; what is inserted at one place keeps its order."""
    ordered = sorted(edits, key=lambda edit: (edit.span.start, edit.span.end))
    text, at, parts = ordered[0].span.source.text, 0, []
    for span, new in ordered:
        if span.start < at:
            return None
        parts += [text[at : span.start], new]
        at = span.end
    return "".join([*parts, text[at:]])


def _is_whole(source: Source) -> bool:
    """Whether the text is what the file holds, and not what is left of bytes that are not UTF-8."""
    return "\N{REPLACEMENT CHARACTER}" not in source.text


def _head(file: Path) -> bytes:
    with file.open("rb") as opened:
        return BYTE_ORDER_MARK if opened.read(len(BYTE_ORDER_MARK)) == BYTE_ORDER_MARK else b""


def _patch(file: Path, text: str, path: str) -> Iterator[str]:
    from difflib import unified_diff

    before = file.read_bytes().decode("utf-8-sig").splitlines(keepends=True)
    lines = unified_diff(before, text.splitlines(keepends=True), f"a/{path}", f"b/{path}")
    for line in lines:
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
