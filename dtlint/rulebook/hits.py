"""Looks at runs and the tree with rules: which fire where, and which cannot be decided."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import cast

from dtlint.frameworks import Member
from dtlint.plan import Plan
from dtlint.record import NamedTuple
from dtlint.rulebook.confidence import needs_of
from dtlint.rulebook.cures import out_of_reach
from dtlint.rulebook.evidence import Anchor, anchor, nowhere
from dtlint.rulebook.finding import Undecided
from dtlint.rulebook.ready import ReadyRule
from dtlint.rulebook.rule import SEVERITIES, Outcome, Rule, Verdict
from dtlint.rulebook.scope import Scope
from dtlint.runs.model import NO_PYTHON, PYTHON, FileProblem, Run, RunSet
from dtlint.runs.roles import is_below_tests
from dtlint.source import Source, Span
from dtlint.value import Plain, Unknown, Value, default

PROBLEMS = "input.problems"
"""The collection of what is wrong with files as such: `message`, `fatal`, `loader`, whether a launch starts the file as
its program (`launched`), and the `frontend` that reads the file ("" where no run tells, or several differ; "unknown"
where the programs that may read it cannot be read).
"""
_UNKNOWN = "unknown"


class Hit(NamedTuple):
    """A rule that fires on one run (index; None for the tree), its verdict and place, and the scope that knows what
    was read. `certain` is what comes of it for certain, where that is less than the verdict says; `remark` is said
    behind the sentence.
    """

    ready: ReadyRule
    verdict: Verdict
    scope: Scope
    anchor: Anchor
    run: int | None
    certain: Outcome | None = None
    remark: str = ""

    @property
    def outcome(self) -> Outcome:
        """What is said to come of it."""
        return self.certain or self.verdict.outcome


class Around(NamedTuple):
    """What is known beside a hit: all runs, the files that were read, the runs that somebody asks about, and the files
    that are named.
    """

    runs: Sequence[Run]
    sources: Sequence[Source]
    asked: frozenset[int]
    named: frozenset[str]

    def run(self, hit: Hit) -> Run | None:
        """The run of a hit, None for one of the tree."""
        return None if hit.run is None else self.runs[hit.run]


class Open(NamedTuple):
    """A rule that could not be decided in one run."""

    rule: str
    run: int | None
    needs: tuple[str, ...]


def on_runs(runs: RunSet, rules: Sequence[ReadyRule]) -> Iterator[Hit | Open]:
    """What the rules about plans and runs say of every run that trains."""
    for index, run in enumerate(runs.runs):
        if run.role == "other":
            continue
        fallback = _fallback(run)
        for rule in rules:
            if rule.rule.scope != "tree":
                yield from _judged(rule, run.plan, index, fallback)


def on_tree(runs: RunSet, tree: Plan, rules: Sequence[ReadyRule]) -> Iterator[Hit | Open]:
    """What the rules about the tree say of its collections, which `tree` holds."""
    fallback = runs.sources[0].span(0, 0) if runs.sources else nowhere("")
    for rule in rules:
        if rule.rule.scope == "tree":
            yield from _judged(rule, tree, None, fallback)


def tree_of(runs: RunSet) -> Plan:
    """What rules about the tree can look at, but for the ignores, which are judged last."""
    unread = frozenset(problem.path for problem in runs.problems if problem.loader in (PYTHON, NO_PYTHON))
    return Plan({}, {PROBLEMS: tuple(_problem(problem, runs, unread) for problem in runs.problems)})


def by_cause(hits: Iterable[Hit]) -> Iterable[list[Hit]]:
    """Hits of one rule at one place in several runs belong together; several at one place within a run stay apart, and
    so do those whose member of a collection tells other values.
    """
    groups: dict[tuple[str, str, int, int, tuple[Plain, ...]], list[Hit]] = {}
    counts: dict[tuple[str, str, int, int | None], int] = {}
    for hit in hits:
        span, rule = hit.anchor.span, hit.ready.rule.id
        ordinal = counts.get((rule, span.path, span.start, hit.run), 0)
        counts[rule, span.path, span.start, hit.run] = ordinal + 1
        groups.setdefault((rule, span.path, span.start, ordinal, values_told(hit)), []).append(hit)
    return groups.values()


def values_told(hit: Hit) -> tuple[Plain, ...]:
    """The known values of the member that a hit is about."""
    member = hit.scope.member
    return () if member is None else tuple(each.value for each in member.fields.values() if isinstance(each, Value))


def undecided(marks: Iterable[Hit | Open]) -> tuple[Undecided, ...]:
    """The rules that could not be decided, each once, with the runs and all that is needed."""
    runs: dict[str, dict[int, None]] = {}
    needs: dict[str, dict[str, None]] = {}
    for mark in marks:
        if isinstance(mark, Open):
            runs.setdefault(mark.rule, {}).update({} if mark.run is None else {mark.run: None})
            needs.setdefault(mark.rule, {}).update(dict.fromkeys(mark.needs))
    return tuple(Undecided(rule, tuple(indexes), tuple(needs[rule])) for rule, indexes in runs.items())


def _judged(ready: ReadyRule, plan: Plan, run: int | None, fallback: Span) -> Iterator[Hit | Open]:
    for member in _members(ready.rule, plan):
        scope = ready.scope(plan, member)
        found = ready.judge(scope)
        if isinstance(found, Verdict):
            if SEVERITIES[found.outcome] != "error" and out_of_reach(ready, ready.scope(plan, member)):
                continue
            yield Hit(ready, found, scope, anchor(found.at or ready.rule.at, plan, member, fallback), run)
        elif isinstance(found, Unknown):
            yield Open(ready.rule.name, run, needs_of(found, scope))


def _members(rule: Rule, plan: Plan) -> tuple[Member | None, ...]:
    return cast("tuple[Member, ...]", plan.collection(rule.each.collection)) if rule.each else (None,)


def _problem(problem: FileProblem, runs: RunSet, unread: frozenset[str]) -> Member:
    fields: dict[str, Plain] = {"message": problem.message, "fatal": problem.fatal, "loader": problem.loader}
    fields |= {"frontend": _frontend(problem, runs, unread), "launched": _is_launched(problem, runs)}
    values = {name: default(value, "dtlint") for name, value in fields.items()}
    return Member(problem.span or nowhere(problem.path), values)


def _frontend(problem: FileProblem, runs: RunSet, unread: frozenset[str]) -> str:
    """The front end of the runs that read the file; what reads it is not known where their programs are not."""
    reading = [run for run in runs.runs if problem.path in run.files]
    read = [run for run in reading if unread.isdisjoint(run.files)]
    found = {run.plan.word("frontend") or "" for run in read}
    if reading and not read:
        return _UNKNOWN
    return found.pop() if len(found) == 1 else ""


def _is_launched(problem: FileProblem, runs: RunSet) -> bool:
    """Whether a launch starts the file as its program, whatever that does; tests may want it broken."""
    name = PurePosixPath(problem.path).name
    if is_below_tests(problem.path):
        return False
    launches = [run.launch for run in runs.runs if problem.path in run.files]
    words = (word for launch in launches if launch is not None for word in launch.argv)
    return any(PurePosixPath(word.shown).name == name for word in words)


def _fallback(run: Run) -> Span:
    if run.launch is not None:
        return run.launch.place
    place = next((reading.place for reading in run.readings if reading.place is not None), None)
    return place or (run.sources[0].span(0, 0) if run.sources else nowhere(""))
