"""The register of facts: what each is made of, and how it is worked out once per plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, TypeAlias

from dtlint.cost import Point, estimate
from dtlint.interval import Interval, hull
from dtlint.plan import Plan
from dtlint.plan.derived.batch import AUTO
from dtlint.record import NamedTuple
from dtlint.value import Unknown, Value

FactValue: TypeAlias = bool | int | float | str | Interval | Unknown
Formula = Callable[[Plan], FactValue]
FactType = Literal["number", "flag", "word"]


class Fact(NamedTuple):
    """One fact: its type and unit, the settings that it is made of, where its formula is from, and the function."""

    name: str
    type: FactType
    unit: str
    settings: tuple[str, ...]
    source: str
    formula: Formula

    @property
    def meaning(self) -> str:
        """What it says, from the function's docstring."""
        return (self.formula.__doc__ or "").split("\n", 1)[0].rstrip(".")


FACTS: dict[str, Fact] = {}

DEGREES = ("parallel.tensor", "parallel.pipeline", "parallel.context", "parallel.data")
SIZING = (
    "model.parameters",
    "sharding.stage",
    *DEGREES,
    "batch.micro",
    "data.sequence_length",
    "checkpointing.activations",
    "cluster.gpu",
)
TIMING = (
    "model.parameters",
    *DEGREES,
    "batch.micro",
    "batch.global",
    "data.sequence_length",
    "cluster.gpu",
    "cluster.internode_gbit_per_s",
)


def fact(plan: Plan, name: str) -> FactValue:
    """The value of a fact on a plan, worked out once."""
    found = plan.facts.get(name)
    if found is None:
        found = plan.facts[name] = FACTS[name].formula(plan)
    return found


def facts(plan: Plan) -> Iterator[tuple[str, FactValue]]:
    """Every fact of the plan by name, unknown ones too."""
    return ((name, fact(plan, name)) for name in FACTS)


def facts_of(plan: Plan, name: str) -> tuple[str, ...]:
    """The settings that a fact is made of."""
    return FACTS[name].settings


def register(
    name: str, kind: FactType, unit: str, settings: tuple[str, ...], source: str
) -> Callable[[Formula], Formula]:
    """Enter a formula under a name; `source` is a key of rules/sources.yaml or a few words."""

    def enter(formula: Formula) -> Formula:
        FACTS[name] = Fact(name, kind, unit, settings, source, formula)
        return formula

    return enter


def over_completions(plan: Plan, read: Callable[[Point], float]) -> FactValue:
    """A number of the estimate over every completion of what the plan leaves open."""
    found = estimate(plan)
    return found if isinstance(found, Unknown) else narrow(hull(read(each) for each in found.completions))


def over_exchanges(plan: Plan, read: Callable[[Point], float]) -> FactValue:
    """The same of what data-parallel ranks exchange, which may come again with every micro-batch."""
    return uncounted(plan) or over_completions(plan, read)


def uncounted(plan: Plan) -> Unknown | None:
    """Why shards are gathered an unknown number of times in a step; None where that is counted. Where samples are
    packed up to a number of tokens, how many micro-batches there are hangs on the lengths in the data.
    """
    size, count = plan.setting("batch.micro"), plan.setting("batch.accumulation")
    packed = isinstance(size, Unknown) and isinstance(count, Unknown) and AUTO not in (size.reason, count.reason)
    return count if packed and isinstance(count, Unknown) and (plan.integer("sharding.stage") or 0) >= 2 else None


def narrow(interval: Interval) -> FactValue:
    """The number itself where both ends agree."""
    return interval.low if interval.exact else interval


def first_unknown(plan: Plan, *names: str) -> Unknown | None:
    """The first of these settings that is unknown."""
    return next((found for name in names if isinstance(found := plan.get(name), Unknown)), None)


def missing(plan: Plan, *names: str) -> Unknown:
    """Why a fact is unknown: the first setting that is, or is no number."""
    return first_unknown(plan, *names) or Unknown(f"{names[0]} is not a number", f"--set {names[0]}=...")


def lower(value: FactValue) -> float:
    """The lower end of a number, 0 for what is none."""
    return value.low if isinstance(value, Interval) else float(value) if isinstance(value, (int, float)) else 0.0


def number_of(found: Value | Unknown) -> FactValue:
    """A setting as a number."""
    if isinstance(found, Unknown):
        return found
    return found.value if isinstance(found.value, (int, float)) else Unknown("not a number")
