"""Which remedies of a fault help, and how much: differences of two whole plans, never of two shares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dtlint import interval
from dtlint.cost import Estimate, estimate
from dtlint.interval import Interval
from dtlint.plan import Plan
from dtlint.record import NamedTuple
from dtlint.rulebook.cures import Proposal, edits, proposals
from dtlint.rulebook.finding import Remedy, Saving
from dtlint.rulebook.ready import ReadyRule
from dtlint.rulebook.rule import SEVERITIES, Rule, Verdict
from dtlint.rulebook.scope import Scope
from dtlint.source import Edit
from dtlint.value import Unknown

LEAST_SAVING = 0.005
"""Share of a step below which a change counts as no help: the model's own noise is larger."""

MOST_REMEDIES = 4
"""Remedies that one finding offers."""

SEARCHES = ("pipeline.fewer_stages", "saving.")
"""Facts that price a whole series of other plans; rules that rest on them are not tried on remedied plans, for time."""


class Watch(NamedTuple):
    """The rules that a remedied plan is checked against, and the names of those that fire today."""

    rules: Sequence[ReadyRule]
    firing: frozenset[str]


class Priced(NamedTuple):
    """A proposal with what it saves, and the middle of that share of today's time (None where there is no estimate)."""

    proposal: Proposal
    saves: Saving
    middle: float | None


def priced_proposals(ready: ReadyRule, scope: Scope) -> list[Priced]:
    """Every proposal of a rule, priced on the whole plan."""
    return [price(proposal, scope.plan) for proposal in proposals(ready, scope)]


def remedies_of(
    ready: ReadyRule, verdict: Verdict, scope: Scope, priced: Iterable[Priced], watch: Watch
) -> tuple[Remedy, ...]:
    """The remedies that help, best first, mere texts last; those that raise an error only where every other does."""
    fails = SEVERITIES[verdict.outcome] == "error"
    rank = _mended if fails else _gained
    ranked = [(rank(each, ready, scope), each) for each in priced]
    helpful = sorted((pair for pair in ranked if pair[0] is not None), key=lambda pair: pair[0] or ())
    offered = [(each, raised(each.proposal.plan, watch)) for _, each in helpful[:MOST_REMEDIES]]
    harmless = [(each, new) for each, new in offered if not has_error(new)] or offered
    harmless.sort(key=lambda pair: pair[0].proposal.plan is None)
    remedies = tuple(_remedy(each, scope, new, _left(each, ready, scope)) for each, new in harmless)
    return tuple(map(_without_share, remedies)) if fails else remedies


def price(proposal: Proposal, today: Plan) -> Priced:
    """A proposal priced on the whole plan."""
    if proposal.plan is None:
        return Priced(proposal, Saving(), None)
    before, after = known_estimate(today), known_estimate(proposal.plan)
    return Priced(proposal, _saving(before, after), _middle(before, after))


def raised(plan: Plan | None, watch: Watch) -> Mapping[str, Verdict]:
    """The watched rules that fire on a changed plan with an error or warning, and do not fire today."""
    if plan is None:
        return {}
    asked = (rule for rule in watch.rules if rule.rule.name not in watch.firing and not searches(rule.rule))
    new = {rule.rule.name: rule.fires(plan) for rule in asked}
    return {name: found for name, found in new.items() if found is not None and SEVERITIES[found.outcome] != "note"}


def searches(rule: Rule) -> bool:
    """Whether looking at a plan with this rule prices a whole series of other plans."""
    return any(fact in verdict.when for fact in SEARCHES for verdict in rule.verdicts)


def has_error(verdicts: Mapping[str, Verdict]) -> bool:
    """Whether one of the verdicts is an error."""
    return any(SEVERITIES[found.outcome] == "error" for found in verdicts.values())


_TEXTS_LAST = 9.0


def _gained(priced: Priced, ready: ReadyRule, scope: Scope) -> tuple[float, ...] | None:
    """The rank of a remedy of what costs time, by what it saves; None if the step gets longer, or no shorter while
    the fault stays.
    """
    if priced.proposal.plan is None:
        return (_TEXTS_LAST,)
    middle = priced.middle or 0.0
    helps = priced.middle is None or middle >= LEAST_SAVING
    return (-middle,) if helps or (middle > -LEAST_SAVING and _left(priced, ready, scope) < 2) else None


def _mended(priced: Priced, ready: ReadyRule, scope: Scope) -> tuple[float, ...] | None:
    """The rank of a remedy of a failure: surely gone, perhaps gone, less memory wanted; then what leaves training as
    it is, then speed.
    """
    if priced.proposal.plan is None:
        return (_TEXTS_LAST,)
    left = _left(priced, ready, scope)
    if left == 2 and not _frees_memory(priced):
        return None
    return left, priced.proposal.cure.changes_training, -(priced.middle or 0.0)


def _left(priced: Priced, ready: ReadyRule, scope: Scope) -> int:
    """Of the fault on the changed plan: 0 nothing, 1 not decided, 2 it is still there."""
    if priced.proposal.plan is None:
        return 2
    found = ready.judge(ready.scope(priced.proposal.plan, scope.member))
    return 2 if isinstance(found, Verdict) else int(found is not None)


def _frees_memory(priced: Priced) -> bool:
    before, after = priced.saves.memory_before, priced.saves.memory_bytes
    return before is not None and after is not None and after.middle < 0.99 * before.middle


def _remedy(priced: Priced, scope: Scope, new: Mapping[str, Verdict], left: int) -> Remedy:
    proposal = priced.proposal
    return Remedy(
        proposal.set,
        proposal.text,
        priced.saves,
        proposal.cure.changes_training,
        tuple(new),
        _edits(proposal, scope),
        None if proposal.plan is None else _ENOUGH[left],
    )


_ENOUGH = (True, None, False)
"""Whether a remedy is enough, by what is left of its fault."""


def _edits(proposal: Proposal, scope: Scope) -> tuple[Edit, ...]:
    """The edits that bring a change about: those of its settings, or of the code that a member speaks of."""
    if proposal.cure.by_hand:
        return ()
    if proposal.set:
        return edits(scope.plan, proposal.set)
    return scope.member.edits.get(proposal.cure.edit, ()) if scope.member is not None else ()


def _without_share(remedy: Remedy) -> Remedy:
    """A plan that fails has no step of which a remedy could save a share."""
    return remedy._replace(saves=remedy.saves._replace(share_of_step=None))


def _saving(before: Estimate | None, after: Estimate | None) -> Saving:
    if before is None or after is None:
        return Saving()
    return Saving(
        saved_share(before, after),
        Interval(after.low.step_seconds, after.high.step_seconds),
        Interval(after.low.memory.device_bytes, after.high.memory.device_bytes),
        Interval(before.low.memory.device_bytes, before.high.memory.device_bytes),
    )


def saved_share(before: Estimate, after: Estimate) -> Interval | None:
    """The share of today's time for one token that is saved, over the completions of what both plans leave open."""
    if after.tokens_per_step <= 0:
        return None
    alike = len(before.completions) == len(after.completions)
    pairs = zip(before.completions, after.completions, strict=True) if alike else [(before.middle, after.middle)]
    ratio = before.tokens_per_step / after.tokens_per_step
    shares = [1 - then.step_seconds * ratio / today.step_seconds for today, then in pairs if today.step_seconds > 0]
    return interval.hull(shares) if shares else None


def _middle(before: Estimate | None, after: Estimate | None) -> float | None:
    """The share of today's time for one token that the change saves, at the middle of both estimates."""
    if before is None or after is None or before.step_seconds <= 0 or after.tokens_per_step <= 0:
        return None
    today, then = before.step_seconds / before.tokens_per_step, after.step_seconds / after.tokens_per_step
    return 1 - then / today


def known_estimate(plan: Plan) -> Estimate | None:
    """The estimate of a plan, None where a setting that it needs is missing."""
    found = estimate(plan)
    return None if isinstance(found, Unknown) else found
