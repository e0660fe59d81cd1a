"""The plans that a search offers: the fastest of different splits, each worked out as a whole beside today's, with what
changes in which file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from dtlint.cost import Estimate
from dtlint.facts import fact
from dtlint.facts.memory import MEMORY_MARGIN
from dtlint.plan import Infeasible, Plan
from dtlint.record import NamedTuple
from dtlint.rulebook.cures import edits as edits_of
from dtlint.rulebook.price import LEAST_SAVING, Watch, has_error, known_estimate, raised
from dtlint.tune.allowed import Grounds
from dtlint.tune.axes import Axis, Wishes, axes_of, left_alone
from dtlint.tune.needs import needs
from dtlint.tune.search import Assignment, Candidate, Search, Told, changes_of, search
from dtlint.value import Plain, Unknown, Value

if TYPE_CHECKING:
    from dtlint.source import Edit, Span

BEST = 5
"""Plans that are offered."""

SPLIT = (
    "parallel.tensor",
    "parallel.pipeline",
    "parallel.context",
    "parallel.expert",
    "sharding.stage",
    "sharding.group",
    "batch.global",
)
"""Two plans of which these are alike are variants of one: the faster stands for both."""

MOST_TRIED = 500
"""Splits that are worked out as a whole in search of plans that raise no error."""

MOST_VARIANTS = 100
"""Plans of the ranking that are looked at where there are fewer splits than offers."""


class Change(NamedTuple):
    """One setting that is another one: its value today (None where nothing states it) and then, both as the front end
    spells them, and the place where it stands or would stand.
    """

    setting: str
    before: Plain
    after: Plain
    old: str
    new: str
    place: Span | None


class Offer(NamedTuple):
    """A plan beside today's. `fits` is false where its memory with the model's error on top may be more than a GPU has;
    `raises` are rules that warn of it and not of today's plan.
    """

    plan: Plan
    changes: tuple[Change, ...]
    edits: tuple[Edit, ...]
    estimate: Estimate
    fits: bool
    raises: tuple[str, ...]


class Tuned(NamedTuple):
    """What a search of a run's plan comes to. Where `needs` is not empty, nothing was searched.

    `estimate` is today's; `place` the place of today's plan among the ranked, from 1, or `against` why it is not among
    them. `surest` is the fastest plan that
    certainly fits, where none of the best does; `faulty` the number of splits that were left out for an error that a
    rule finds; `untold` are settings that could vary and stay as they are, for the plan does not tell them.
    """

    today: Plan
    needs: tuple[Unknown, ...]
    search: Search
    offers: tuple[Offer, ...]
    estimate: Estimate | None = None
    surest: Offer | None = None
    place: int | None = None
    against: str = ""
    faulty: int = 0
    untold: tuple[str, ...] = ()


NOTHING = Search((), 0, 0, (), {})


def tune(plan: Plan, wishes: Wishes, watch: Watch, told: Told = lambda done, total: None) -> Tuned:
    """Search the plans beside `plan`; those that raise an error of a watched rule are not offered."""
    missing = needs(plan)
    if missing:
        return Tuned(plan, missing, NOTHING, ())
    found = search(plan, axes_of(plan, wishes), told)
    offers, surest, faulty = _best(plan, found, watch)
    today = {axis.setting: axis.today for axis in found.axes}
    place = next((index for index, each in enumerate(found.ranked, 1) if each.values == today), None)
    alone = search(plan, [axis._replace(values=(axis.today,)) for axis in found.axes])
    against = next(iter(alone.refused), "") if place is None else ""
    untold = left_alone(plan, wishes)
    return Tuned(plan, (), found, offers, known_estimate(plan), surest, place, against, faulty, untold)


def _best(plan: Plan, found: Search, watch: Watch) -> tuple[tuple[Offer, ...], Offer | None, int]:
    """The offers, the surest plan where none of them certainly fits, and how many of those tried raise an error.

    Each split comes once; where there are too few of them, other variants follow.
    """
    splits: dict[tuple[Plain, ...], Offer] = {}
    faulty = 0
    for candidate in islice(_of_each_split(found.ranked), MOST_TRIED):
        offer = _offer(plan, found.axes, candidate, watch)
        full, sure = len(splits) == BEST, any(each.fits for each in splits.values())
        if full and (sure or (offer is not None and offer.fits)):
            return _fastest_first(splits.values()), None if sure else offer, faulty
        if offer is None:
            faulty += 1
        elif not full:
            splits.setdefault(tuple(map(offer.plan.value, SPLIT)), offer)
    return _fastest_first(_with_variants(plan, found, watch, list(splits.values()))), None, faulty


def _with_variants(plan: Plan, found: Search, watch: Watch, offers: list[Offer]) -> list[Offer]:
    """The offers, filled up with the next plans of the ranking that change something else."""
    for candidate in found.ranked[:MOST_VARIANTS] if len(offers) < BEST else ():
        offer = _offer(plan, found.axes, candidate, watch)
        if offer is not None and all(offer.changes != other.changes for other in offers):
            offers.append(offer)
        if len(offers) == BEST:
            break
    return offers


def _fastest_first(offers: Iterable[Offer]) -> tuple[Offer, ...]:
    """In the order of the time of a token, which a plan without its small changes may take a little more of."""
    return tuple(sorted(offers, key=lambda offer: offer.estimate.step_seconds / offer.estimate.tokens_per_step))


def _of_each_split(ranked: Sequence[Candidate]) -> Iterator[Candidate]:
    seen: set[tuple[Plain, ...]] = set()
    for candidate in ranked:
        split = tuple(candidate.values.get(name) for name in SPLIT)
        if split not in seen:
            seen.add(split)
            yield candidate


def _offer(plan: Plan, axes: Sequence[Axis], candidate: Candidate, watch: Watch) -> Offer | None:
    """The candidate as a whole plan; None where it cannot be one, or a rule finds an error in it."""
    found = _simplest(plan, axes, candidate)
    if found is None:
        return None
    changed, wanted = found
    estimate, new = known_estimate(changed), raised(changed, watch)
    if estimate is None or has_error(new):
        return None
    everything = {**wanted, **changed.followed}
    changes = tuple(_change(plan, name, value) for name, value in everything.items())
    fits = fact(changed, "memory.overflows") is False
    return Offer(changed, changes, edits_of(plan, everything) if everything else (), estimate, fits, tuple(new))


def _simplest(plan: Plan, axes: Sequence[Axis], candidate: Candidate) -> tuple[Plan, Mapping[str, Plain]] | None:
    """The plan without the changes that bring less than the model can tell, with what is left of them."""
    values = dict(candidate.values)
    best = _stated(plan, axes, values)
    most = candidate.seconds_per_token * (1 + LEAST_SAVING)
    for axis in reversed(axes):
        if best is None or values[axis.setting] == axis.today:
            continue
        without = {**values, axis.setting: axis.today}
        simpler = _stated(plan, axes, without)
        if simpler is not None and _seconds_per_token(simpler[0]) <= most:
            values, best = without, simpler
    return best


def _stated(plan: Plan, axes: Sequence[Axis], values: Assignment) -> tuple[Plan, Mapping[str, Plain]] | None:
    """The plan of these values and what has to be stated for it: what differs from today, and what would change with
    that and should not.
    """
    wanted = changes_of(axes, Grounds(plan), values)
    needed = {name: value for name, value in wanted.items() if plan.value(name) != value}
    changed = plan.but(needed) if needed else plan
    if isinstance(changed, Infeasible):
        return None
    lost = {name: value for name, value in wanted.items() if changed.value(name) != value}
    changed = plan.but({**needed, **lost}) if lost else changed
    return None if isinstance(changed, Infeasible) else (changed, {**needed, **lost})


def _seconds_per_token(plan: Plan) -> float:
    """Seconds of a token at the middle; without end where the plan does not fit then, with the model's error."""
    found = known_estimate(plan)
    if found is None or found.memory.device_bytes * MEMORY_MARGIN > found.memory.available_bytes:
        return float("inf")
    return found.step_seconds / found.tokens_per_step


def _change(plan: Plan, name: str, value: Plain) -> Change:
    stated = plan.stated(name)
    written = isinstance(stated, Value) and stated.origin.kind != "default"
    place = stated.origin.span if stated is not None and stated.origin.span is not None else plan.dialect.home(name)
    before = plan.value(name)
    old = plan.dialect.spell(name, before) if written else ""
    return Change(name, before, value, old, plan.dialect.spell(name, value), place)
