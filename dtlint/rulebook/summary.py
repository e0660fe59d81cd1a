"""The plan after every remedy that pays: applied one after the other, for what they save does not add up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dtlint.cost import estimate
from dtlint.interval import Interval
from dtlint.plan import Plan
from dtlint.rulebook.cures import Proposal
from dtlint.rulebook.finding import Summary
from dtlint.rulebook.operands import shown
from dtlint.rulebook.price import LEAST_SAVING, Priced, Watch, has_error, priced_proposals, raised, searches
from dtlint.rulebook.ready import ReadyRule
from dtlint.rulebook.rule import SEVERITIES, Verdict
from dtlint.value import Plain, Unknown

MOST_CHANGES = 10
"""Settings changed, after which no further remedy is looked for."""


def summary_of(plan: Plan, rules: Sequence[ReadyRule], priced: Iterable[Priced]) -> Summary | None:
    """Again and again the remedy that saves most, leaves the training mathematics unchanged and raises no new error,
    until nothing gains; None where the plan has no estimate or nothing gains.

    `priced` are today's proposals of the rules that fire.
    """
    today = _seconds(plan)
    failing = [rule for rule in rules if _can_fail(rule)]
    curing = [rule for rule in rules if rule.rule.cures and not searches(rule.rule)]
    applied: dict[str, Plain] = {}
    current, gains = plan, _worthwhile(priced)
    while gains and len(applied) < MOST_CHANGES:
        best = _best(current, failing, gains)
        if best is None or best.plan is None:
            break
        applied.update(best.set)
        current = best.plan
        gains = _worthwhile(found for rule in curing for found in _proposed(rule, current))
    if today is None or not applied:
        return None
    return Summary(tuple(f"{name}={shown(value)}" for name, value in applied.items()), _seconds(current), today)


def _worthwhile(priced: Iterable[Priced]) -> list[Priced]:
    """What saves time and keeps the mathematics, the largest saving first."""
    kept = [
        each
        for each in priced
        if each.middle is not None and each.middle >= LEAST_SAVING and not each.proposal.cure.changes_training
    ]
    return sorted(kept, key=lambda each: -(each.middle or 0.0))


def _proposed(rule: ReadyRule, plan: Plan) -> list[Priced]:
    scope = rule.scope(plan)
    return priced_proposals(rule, scope) if isinstance(rule.judge(scope), Verdict) else []


def _best(plan: Plan, failing: Sequence[ReadyRule], gains: Iterable[Priced]) -> Proposal | None:
    """The first that raises no error."""
    firing = frozenset(rule.rule.name for rule in failing if rule.fires(plan) is not None)
    watch = Watch(failing, firing)
    return next((each.proposal for each in gains if not has_error(raised(each.proposal.plan, watch))), None)


def _can_fail(rule: ReadyRule) -> bool:
    return any(SEVERITIES[verdict.outcome] == "error" for verdict in rule.rule.verdicts)


def _seconds(plan: Plan) -> Interval | None:
    found = estimate(plan)
    return None if isinstance(found, Unknown) else Interval(found.low.step_seconds, found.high.step_seconds)
