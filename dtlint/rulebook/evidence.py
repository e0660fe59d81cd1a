"""Where a finding points and what it rests on: the written settings that were read, each with a short label."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from dtlint.frameworks import Member
from dtlint.plan import Plan, vocabulary
from dtlint.record import NamedTuple
from dtlint.rulebook.finding import Related
from dtlint.rulebook.rule import Rule
from dtlint.rulebook.scope import Scope, place_of, sources_of
from dtlint.rulebook.sentences import spell
from dtlint.source import Source, Span
from dtlint.value import Origin, Plain, Unknown, Value

COUNTED = frozenset(
    (
        "parallel.world_size",
        "parallel.virtual_pipeline",
        "schedule.microbatches",
        "cluster.gpus_per_node",
        "cluster.nodes",
        "launch.nodes",
        "launch.processes",
        "launch.processes_per_node",
        "launch.tasks_per_node",
        "model.layers",
        "model.heads",
    )
)
"""Settings that count something: the number stands before the name."""

MOST_RELATED = 8
"""Places that one finding shows beside its own; the nearest reasons come first."""

SHORT: Mapping[str, str] = {
    "parallel.tensor": "TP",
    "parallel.pipeline": "PP",
    "parallel.data": "DP",
    "parallel.context": "CP",
    "parallel.ulysses": "Ulysses",
    "parallel.rollout": "the engine's TP",
    "parallel.rollout_engines": "engines",
    "parallel.expert": "EP",
    "parallel.world_size": "ranks",
    "parallel.virtual_pipeline": "chunks per rank",
    "parallel.sequence": "sequence parallelism",
    "sharding.stage": "stage",
    "batch.micro": "micro batch",
    "batch.global": "global batch",
    "batch.accumulation": "accumulation",
    "schedule.microbatches": "micro-batches",
    "cluster.gpus_per_node": "GPUs per node",
    "cluster.nodes": "nodes",
    "launch.nodes": "nodes",
    "launch.processes": "processes",
    "launch.processes_per_node": "processes per node",
    "launch.named_gpus": "GPUs named",
    "launch.tasks_per_node": "tasks per node",
    "cluster.gpu": "GPU",
    "model.name": "model",
    "model.parameters": "parameters",
    "model.layers": "layers",
    "model.hidden": "hidden size",
    "model.heads": "heads",
    "data.sequence_length": "sequence length",
}
"""What people call the settings of a plan; the others are shown by their own name."""

UNTOLD = frozenset(("framework", "frontend", "communication.env"))
"""Settings that the whole launch tells: no place of theirs explains a finding."""


_MOST_ITEMS = 8
"""Most items of a list that a label spells out."""


class Anchor(NamedTuple):
    """The place of a finding, and the places that lead to it; `written`: what the finding is about stands there."""

    span: Span
    related: tuple[Related, ...] = ()
    written: bool = True


def anchor(at: Sequence[str], plan: Plan, member: Member | None, fallback: Span) -> Anchor:
    """The member's place; else the first setting of `at` that is written; else where the first would be written; else
    `fallback`.
    """
    if member is not None:
        return Anchor(member.place.original(), tuple(Related(span.original(), label) for span, label in member.related))
    for setting in at:
        origin = place_of(stated(plan, setting))
        if origin is not None and origin.span is not None:
            return Anchor(origin.span.original(), _chain(origin))
    homes = (plan.dialect.home(setting) for setting in at)
    return Anchor(next((home for home in homes if home is not None), fallback).original(), written=False)


def evidence(scope: Scope, rule: Rule, taken: Anchor) -> tuple[Related, ...]:
    """The other written settings that were read, nearest first: those of `at`, those read as such, those that facts
    are made of.
    """
    read = (*(name for name in rule.at if name in scope.reads), *scope.direct, *scope.reads)
    places = (*taken.related, *_places(scope.plan, read))
    return joined(places, taken.span)


def joined(places: Iterable[Related], taken: Span) -> tuple[Related, ...]:
    """The nearest of the places, each once, without the one that is `taken`."""
    return tuple(islice(_distinct(places, taken), MOST_RELATED))


def nowhere(path: str) -> Span:
    """A place in a file that has no text."""
    return Source(path, "").span(0, 0)


def label(name: str, found: Value) -> str:
    """A setting and its value in a few words: `TP 16`, `8 GPUs per node`."""
    short = SHORT.get(name, name.replace("_", " ") if "." not in name else name)
    value = found.value
    if isinstance(value, bool):
        return f"{short} {'on' if value else 'off'}"
    number = spell(_first_and_last(value), "count" if isinstance(value, (int, float)) else "plain")
    if name in COUNTED:
        return f"{number} {_one(short) if value == 1 else short}"
    unit = vocabulary()[name].unit
    return f"{short} {number}" + (f" {unit}" if unit and name not in SHORT else "")


def _first_and_last(value: Plain) -> Plain:
    """A long list by its ends: the sizes of a ramp are known by their first and their last."""
    if not isinstance(value, tuple) or len(value) <= _MOST_ITEMS:
        return value
    return (*value[:3], "...", value[-1])


def _one(many: str) -> str:
    """The name of a single thing: `processes per node` is `process per node`."""
    head, space, rest = many.partition(" ")
    return head.removesuffix("es" if head.endswith(("sses", "ches")) else "s") + space + rest


def stated(plan: Plan, name: str) -> Value | Unknown | None:
    """What the files or the user say of a setting, known or not; None where they say nothing."""
    found = plan.settings.get(name)
    return found if isinstance(found, (Value, Unknown)) else None


def _places(plan: Plan, read: Iterable[str]) -> Iterator[Related]:
    for name, found in sources_of(plan, read):
        origin = place_of(found)
        if isinstance(found, Value) and origin is not None and origin.span is not None and name not in UNTOLD:
            yield Related(origin.span.original(), label(name, found))


def _chain(origin: Origin) -> tuple[Related, ...]:
    return tuple(Related(step.span.original(), step.label) for step in origin.chain)


def _distinct(places: Iterable[Related], taken: Span) -> Iterator[Related]:
    seen = {(taken.path, taken.start)}
    for related in places:
        key = (related.span.path, related.span.start)
        if key not in seen:
            seen.add(key)
            yield related
