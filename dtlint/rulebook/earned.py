"""The severity that a rule has earned: what one that was not nearly always right in repositories that were new to it
finds in a repository checked as a whole is a note. Copies, demonstrations, forks and scripts of long ago stand there
beside what is run, and what makes a finding moot often stands in none of the files. Who names a file, or a small folder
with one launch, asks about that, and so does a team that says what it runs.
"""

from __future__ import annotations

from collections.abc import Iterator

from dtlint.rulebook.finding import Finding
from dtlint.rulebook.rule import Rule
from dtlint.runs.model import Run, RunSet
from dtlint.source import Span

LEAST_JUDGED = 3
"""Findings that must have been judged before their share of right ones says something."""

LEAST_RIGHT = 9 / 10
"""The share of right ones, of the latest that were judged, from which on a rule is told as it stands. Rules that had it
before a look at new repositories were right there in 50 of 51 findings, the others in 176 of 317; with four in five it
were 52 of 59 of the first 338 (docs/precision.md, scripts/look_back.py).
"""


MOST_LISTED = 6
"""Most files of a folder that is about its one launch; a choice: of 452 public training repositories 8 have no more. In
those of up to twenty what was told by this was right in four of thirteen findings (docs/precision.md)."""


def has_earned(rule: Rule) -> bool:
    """Whether a rule was right often enough; one of a team is not asked."""
    if rule.judged is None:
        return True
    return rule.judged.of >= LEAST_JUDGED and rule.judged.right >= LEAST_RIGHT * rule.judged.of


def asked_runs(runs: RunSet) -> frozenset[int]:
    """The runs that somebody asks about: those with a file that is named, all where there is one launch, or one config
    without a launch, in a small folder.
    """
    starts = [run for run in runs.runs if run.role != "other"]
    own = {_start(run) for run in starts if not any(_is_part(run, other) for other in starts)}
    if runs.listed <= MOST_LISTED and len(own) <= 1:
        return frozenset(range(len(runs.runs)))
    return frozenset(index for index, run in enumerate(runs.runs) if not runs.asked.isdisjoint(run.files))


def as_earned(finding: Finding, rule: Rule, asked: frozenset[int], named: frozenset[str]) -> Finding:
    """The finding with the severity that its rule has earned, where nobody asks about its runs or names its files."""
    if finding.severity == "note" or has_earned(rule) or not asked.isdisjoint(finding.runs):
        return finding
    own = (finding.span.path, *(related.span.path for related in finding.related))
    return finding if not named.isdisjoint(own) else finding._replace(severity="note")


def remark(lowered: int) -> Iterator[str]:
    """What is said of findings that are notes by their rules' past alone."""
    if lowered:
        what = "1 finding is a note" if lowered == 1 else f"{lowered} findings are notes"
        yield f"{what}, for not all here may be run; name a file, or say under `run` in dtlint.toml what is"


def _is_part(run: Run, other: Run) -> bool:
    """Whether the file that a run without a launch was read of is a module of another run's program alone."""
    first = run.files[:1]
    return run.launch is None and bool(first) and first[0] in other.told_of and first[0] not in other.files


def _start(run: Run) -> Span | tuple[str, ...]:
    return run.launch.place if run.launch is not None else run.files[:1]
