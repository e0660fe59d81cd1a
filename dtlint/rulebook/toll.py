"""What a fault costs today: a part of the estimate, a share of the step, or what a failure brings to nothing."""

from __future__ import annotations

from collections.abc import Iterator

from dtlint import interval
from dtlint.cost import Estimate, estimate
from dtlint.interval import Interval
from dtlint.plan import Plan
from dtlint.rulebook.confidence import assumptions, leading, settable
from dtlint.rulebook.finding import Amount, Cost, Stop
from dtlint.rulebook.lesser import answers_prompts
from dtlint.rulebook.operands import as_interval
from dtlint.rulebook.price import known_estimate
from dtlint.rulebook.ready import ReadyRule
from dtlint.rulebook.rule import SEVERITIES, STOPS, Stops, Verdict
from dtlint.rulebook.scope import Scope
from dtlint.value import Unknown, Value

PRICE = "cluster.usd_per_gpu_hour"

HOURS_PER_DAY = 24


def cost_of(ready: ReadyRule, verdict: Verdict, scope: Scope) -> Cost:
    """What the fault takes today, from the rule's `share`, `cost` and `stops` and the estimate of the plan."""
    found = known_estimate(scope.plan)
    if SEVERITIES[verdict.outcome] == "error":
        return _cost_of_failure(ready, verdict, scope, found)
    seconds = seconds_of(ready, scope)
    share = _range(ready, ready.rule.share, scope) or _share(seconds, found)
    hours = _gpu_hours(share, scope.plan)
    memory = _range(ready, ready.rule.cost.get("memory_bytes", ""), scope)
    return Cost(
        share,
        seconds,
        memory,
        hours,
        _money(hours, scope.plan),
        None,
        tuple(dict.fromkeys(_needs(scope.plan, seconds, hours))),
        _assumed(scope, found) if seconds is not None else assumptions(scope),
        _amount(ready, scope) if share is None and seconds is None and memory is None else None,
    )


def seconds_of(ready: ReadyRule, scope: Scope) -> Interval | None:
    """What the fault takes of each step: told by the rule, or its share of the estimated step."""
    told = _range(ready, ready.rule.cost.get("seconds_per_step", ""), scope)
    share = _range(ready, ready.rule.share, scope) if told is None else None
    found = known_estimate(scope.plan) if share is not None else None
    if share is None or found is None:
        return told
    return Interval(share.low * found.low.step_seconds, share.high * found.high.step_seconds)


def cost_of_tree(ready: ReadyRule, verdict: Verdict, scope: Scope) -> Cost:
    """What a fault of the files as such takes: there is no plan of which it could take a part."""
    if SEVERITIES[verdict.outcome] == "error":
        return Cost(stops=Stop(ready.rule.stops or STOPS[verdict.outcome]))
    return Cost(amount=_amount(ready, scope))


def _cost_of_failure(ready: ReadyRule, verdict: Verdict, scope: Scope, found: Estimate | None) -> Cost:
    """What a failure brings to nothing, and the memory that it wants if that is the matter."""
    stop = _stop(ready.rule.stops or STOPS[verdict.outcome], scope.plan, found)
    if verdict.outcome == "hangs" and stop.what == "run":
        stop = stop._replace(waiting=_waiting(scope.plan))
    wanted = _range(ready, ready.rule.cost.get("memory_bytes", ""), scope)
    if verdict.outcome != "out-of-memory":
        return Cost(memory_bytes=wanted, stops=stop, assumed=assumptions(scope))
    if wanted is None and found is not None:
        wanted = Interval(found.low.memory.device_bytes, found.high.memory.device_bytes)
    return Cost(memory_bytes=wanted, stops=stop, assumed=_assumed(scope, found))


def _amount(ready: ReadyRule, scope: Scope) -> Amount | None:
    size = _range(ready, ready.rule.cost.get("amount", ""), scope)
    return None if size is None else Amount(size, ready.sentence(ready.rule.cost.get("unit", ""), scope))


def _range(ready: ReadyRule, text: str, scope: Scope) -> Interval | None:
    return as_interval(ready.value(text, scope)) if text else None


def _share(seconds: Interval | None, found: Estimate | None) -> Interval | None:
    if seconds is None or found is None or found.low.step_seconds <= 0:
        return None
    return interval.hull((seconds.low / found.low.step_seconds, seconds.high / found.high.step_seconds))


def _gpu_hours(share: Interval | None, plan: Plan) -> Interval | None:
    """GPU-hours of a day that a share of the step takes; None where the run does more than steps."""
    world = plan.number("parallel.world_size")
    if share is None or world is None or answers_prompts(plan):
        return None
    return interval.scale(share, world * HOURS_PER_DAY)


def _money(hours: Interval | None, plan: Plan) -> Interval | None:
    price_ = plan.number(PRICE)
    return None if hours is None or price_ is None else interval.scale(hours, price_)


def _stop(what: Stops, plan: Plan, found: Estimate | None) -> Stop:
    steps = plan.number("run.steps")
    seconds = None
    if what == "run" and steps is not None and found is not None:
        seconds = Interval(steps * found.low.step_seconds, steps * found.high.step_seconds)
    return Stop(what, plan.integer("parallel.world_size"), seconds)


def _waiting(plan: Plan) -> float | None:
    """GPU-hours until the watchdog stops ranks that wait for a missing one: all ranks for the timeout."""
    world, timeout = plan.integer("parallel.world_size"), plan.number("launch.timeout_seconds")
    return None if world is None or timeout is None else world * timeout / 3600


def _needs(plan: Plan, seconds: Interval | None, hours: Interval | None) -> Iterator[str]:
    if seconds is None:
        found = estimate(plan)
        needed = settable(found) if isinstance(found, Unknown) else ()
        yield from (name for name in needed if not isinstance(plan.get(name), Value))
    if hours is None and not isinstance(plan.get("parallel.world_size"), Value):
        yield "parallel.world_size"
    if hours is not None and not isinstance(plan.get(PRICE), Value):
        yield PRICE


def _assumed(scope: Scope, found: Estimate | None) -> tuple[str, ...]:
    return leading((*assumptions(scope), *(found.assumed if found is not None else ())))
