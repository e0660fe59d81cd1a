"""The phrases that reports for people share: amounts, places, a plan in one line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from dtlint.interval import Interval
from dtlint.report.terminal import NO_BREAK, printable
from dtlint.rulebook.sentences import spell
from dtlint.value import Origin, Plain, Unknown, Value

if TYPE_CHECKING:
    from typing import TypeGuard

    from dtlint.plan import Plan
    from dtlint.rulebook.finding import Cost, Finding, Related, Remedy, Saving, Stop
    from dtlint.runs.model import Run

AXES = (
    ("TP", "parallel.tensor"),
    ("CP", "parallel.context"),
    ("Ulysses", "parallel.ulysses"),
    ("EP", "parallel.expert"),
    ("PP", "parallel.pipeline"),
    ("DP", "parallel.data"),
)
"""The axes of a plan as people abbreviate them; expert parallelism lies inside the others."""

FEW_BYTES = 1e7
"""Bytes below which an amount is not shown in GB."""

TELLING = 20
"""How many times its lower bound the upper bound of a memory may be to be shown."""

ALWAYS = ("TP", "PP", "DP")
"""The axes that are shown as `?` where they are unknown; the others are rarely in use then."""


def counted(number: int, noun: str) -> str:
    """`1 error`, `2 errors`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def listed(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    shown = [printable(word) for word in words]
    return shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + " and " + shown[-1] if shown else ""


def telling(setting: str) -> str:
    """How to state a setting, unbroken by line ends."""
    return f"--set{NO_BREAK}{setting}=..."


def cost_line(cost: Cost) -> str:
    """What a fault takes: share and seconds of a step, then GPU-hours, then money, then memory, then what stops."""
    return "; ".join(filter(None, (step_cost(cost), day_cost(cost), lasting_cost(cost))))


def step_cost(cost: Cost) -> str:
    """The share of each step and its seconds."""
    parts = [
        f"{spell(cost.share_of_step, 'percent')} of each step" if cost.share_of_step else "",
        step_time(cost.seconds_per_step) + " per step" if cost.seconds_per_step else "",
    ]
    return ", ".join(filter(None, parts))


def day_cost(cost: Cost) -> str:
    """GPU-hours and money of a day."""
    parts = [
        f"{spell(cost.gpu_hours_per_day, 'count')} GPU-hours a day" if cost.gpu_hours_per_day else "",
        f"${spell(cost.usd_per_day, 'count')} a day" if cost.usd_per_day else "",
    ]
    return ", ".join(filter(None, parts))


def lasting_cost(cost: Cost) -> str:
    """What is no matter of time: memory, what stops, and what is counted in a unit of its own."""
    memory = f"{spell(cost.memory_bytes, 'gb')} on one GPU" if cost.memory_bytes else ""
    amount = f"{spell(cost.amount.size, 'count')} {printable(cost.amount.unit)}" if cost.amount else ""
    return "; ".join(filter(None, (memory, stop_line(cost.stops) if cost.stops else "", amount)))


def finding_lines(finding: Finding) -> list[str]:
    """A finding without its code: the sentence, the cost, each remedy; for reports that have no room for more."""
    cost = cost_line(finding.cost)
    remedies = [f"help: {remedy_line(remedy)}" for remedy in finding.remedies]
    return [printable(finding.message), *([f"cost: {cost}"] if cost else []), *remedies]


def related_label(related: Related) -> str:
    """The label, unless it only repeats what is marked (a variable on the way to the value)."""
    repeats = related.label.strip("${}") == related.span.text.strip('"${}')
    return "used here" if repeats else related.label


def step_time(seconds: Interval) -> str:
    """The time of a step or of a part of it: in seconds also where it takes minutes, as people compare steps."""
    if seconds.high < 1:
        return spell(seconds, "seconds")
    return spell(Interval(*(float(f"{bound:.3g}") for bound in seconds)), "plain") + " s"


_NOTHING = ("0%", "-0%")


def saving_line(saving: Saving, per: str) -> str:
    """What a remedy brings: the share of today's time per step (per token where the batch changes), the step then, the
    peak memory then. Of a step that stays as it is nothing is said.
    """
    share = saving.share_of_step
    changes = share is None or spell(share, "percent") not in _NOTHING
    parts = [
        _share_line(share, per) if share and changes else "",
        f"{step_time(saving.seconds_per_step)} per step then" if saving.seconds_per_step and changes else "",
        f"{spell(saving.memory_bytes, 'gb')} on one GPU then" if _tells(saving.memory_bytes) else "",
    ]
    return ", ".join(filter(None, parts))


def _tells(bounds: Interval | None) -> TypeGuard[Interval]:
    """Whether bounds lie so near to each other that a reader learns something from them."""
    return bounds is not None and bounds.high <= bounds.low * TELLING


def caveats(remedy: Remedy) -> list[str]:
    """What there is to know before a remedy is written: that it changes the training, what it raises, that it is not
    enough.
    """
    return [
        *(["changes the training"] if remedy.changes_training else []),
        *([f"but then {listed(remedy.raises)}"] if remedy.raises else []),
        *(["not enough alone"] if remedy.enough is False else []),
    ]


def remedy_line(remedy: Remedy) -> str:
    """What to write, with its caveats."""
    return "; ".join((printable(remedy.text), *caveats(remedy)))


def _share_line(share: Interval, per: str) -> str:
    """The share that a remedy saves, or costs where it never saves any; nothing where the estimate sees no difference,
    which the cost beside it may be.
    """
    if share.low == share.high == 0:
        return ""
    if share.high > 0:
        return f"saves {_between(share, 'percent')} per {per}"
    return f"costs {_between(Interval(abs(share.high), abs(share.low)), 'percent')} per {per}"


def _between(interval: Interval, form: str) -> str:
    """An interval; with `to` where a minus sign would be taken for the dash."""
    if interval.low >= 0:
        return spell(interval, form)
    return f"{spell(interval.low, form)} to {spell(interval.high, form)}"


def plan_line(plan: Plan) -> str:
    """A plan in one line: its degrees, sharding, size, machines and model."""
    world = plan.integer("parallel.world_size")
    gpus = counted(world, "GPU") if world else "? GPUs"
    stage = plan.integer("sharding.stage")
    parts = [
        f"{gpus}, split in a way that is not known" if _is_unread(plan) else f"{' x '.join(_degrees(plan))} on {gpus}",
        f"ZeRO-{stage}" if stage else "",
        _model(plan),
    ]
    return ", ".join(filter(None, parts))


def run_place(run: Run) -> str:
    """Where a run starts: its launch, else its files."""
    if run.launch is None:
        return printable(" + ".join(run.files[:3]) or run.role)
    span = run.launch.place.original()
    return printable(f"{span.path}:{span.line}")


def setting_shown(plan: Plan, name: str) -> str:
    """A setting with its value, or with the bounds that an estimate takes for it."""
    from dtlint.plan.vocabulary import term

    found = plan.get(name)
    if isinstance(found, Value):
        return f"{name} {value_shown(found.value)}"
    return f"{name} {bounds_shown(name)}" if term(name).bounded else name


def bounds_shown(name: str) -> str:
    """What an estimate takes for a setting that it does not know: its bounds."""
    from dtlint.plan.vocabulary import term

    bounds = term(name)
    return " to ".join(dict.fromkeys((value_shown(bounds.optimistic), value_shown(bounds.pessimistic))))


def value_shown(value: Plain) -> str:
    """A plain value as people read it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return number_shown(value)
    if isinstance(value, tuple):
        return ", ".join(map(value_shown, value))
    return "none" if value is None else printable(str(value))


def number_shown(number: float) -> str:
    """A number with thousands separated; counts of a million and more shortened."""
    return spell(number, "count") if abs(number) >= 1e6 else f"{number:,.10g}"


def fact_shown(unit: str, value: Plain | Interval) -> str:
    """The value of a fact with its unit."""
    if unit == "bytes":
        return spell(value, "bytes" if isinstance(value, (int, float)) and value < FEW_BYTES else "gb")
    if unit.startswith("share"):
        return f"{spell(value, 'percent')} {unit.removeprefix('share ')}"
    form = {"s": "seconds", "": "plain"}.get(unit, "count")
    return f"{spell(value, form)} {'' if unit == 's' else unit}".rstrip()


def origin_shown(origin: Origin, plan: Plan) -> str:
    """Where a value of the plan came from, in a few words."""
    if origin.span is not None:
        span = origin.span.original()
        through = f" through {listed([step.label for step in origin.chain])}" if origin.chain else ""
        place = printable(f"{span.path}:{span.line}") + through
        return f"{place}, assumed: {printable(origin.note)}" if origin.kind == "assumed" else place
    if origin.kind == "default":
        return "default" if origin.note.startswith("the ") else f"default of {printable(origin.note)}"
    if origin.kind == "derived":
        if origin.note.endswith("in the catalog"):
            return printable(origin.note)
        sources = listed([setting_shown(plan, name) for name in origin.settings])
        return "; ".join(filter(None, (printable(origin.note), f"from {sources}" if sources else "")))
    if origin.kind == "assumed":
        return f"assumed: {printable(origin.note)}"
    return printable(origin.note or origin.kind)


def unknown_shown(unknown: Unknown) -> str:
    """Why a value is unknown and how to tell it."""
    how = printable(unknown.how)
    if how.startswith("--"):
        how = how.replace(" ", NO_BREAK).replace(f"{NO_BREAK}--", " --")
    return printable(unknown.reason) + (f"; {how}" if how else "")


def _is_unread(plan: Plan) -> bool:
    """Whether nothing is known of what splits the training: no framework, and none of its degrees."""
    return plan.word("framework") is None and all(plan.integer(name) is None for _, name in AXES)


def _degrees(plan: Plan) -> Iterable[str]:
    for short, name in AXES:
        degree = plan.integer(name)
        if degree is None and short in ALWAYS:
            yield f"{short} ?"
        elif degree is not None and (degree > 1 or short == "DP"):
            yield f"{short} {degree}"


def _model(plan: Plan) -> str:
    parameters, name = plan.number("model.parameters"), plan.word("model.name")
    size = f"{number_shown(parameters)} parameters" if parameters else ""
    return " ".join(filter(None, (printable(name) if name else "", f"({size})" if name and size else size)))


def stop_line(stop: Stop) -> str:
    """What a failure brings to nothing, and for how long."""
    what = {"launch": "the launch fails", "step": "the first step fails", "run": "the run is lost"}[stop.what]
    if stop.gpus is None:
        return what
    time = f" for {spell(stop.seconds, 'seconds')}" if stop.seconds else ""
    waits = f", {spell(stop.waiting, 'count')} GPU-hours until the timeout ends it" if stop.waiting else ""
    return f"{what}: {counted(stop.gpus, 'GPU')}{time}{waits}"
