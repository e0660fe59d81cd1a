"""The plan for people: what is split and why, memory per GPU, communication, step time, money, what is unknown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from dtlint.report.frame import Paint
from dtlint.report.terminal import NO_BREAK, printable, styled, width, wrap
from dtlint.report.words import (
    bounds_shown,
    fact_shown,
    listed,
    origin_shown,
    plan_line,
    run_place,
    telling,
    unknown_shown,
    value_shown,
)
from dtlint.value import Unknown, Value

if TYPE_CHECKING:
    from dtlint.cost import Estimate
    from dtlint.plan import Plan
    from dtlint.runs.model import Run, RunSet

MANY = 4
"""Settings of one origin from which on they share a paragraph rather than have a line each."""

BOLD: Paint = partial(styled, bold=True)
INDENT = "  "

SPLITS = {
    "parallel.world_size": "GPUs",
    "parallel.tensor": "TP",
    "parallel.context": "CP",
    "parallel.ulysses": "Ulysses",
    "parallel.expert": "EP",
    "parallel.pipeline": "PP",
    "parallel.virtual_pipeline": "chunks",
    "parallel.data": "DP",
    "sharding.stage": "ZeRO stage",
    "sharding.group": "shard group",
    "batch.global": "global batch",
    "batch.micro": "micro-batch",
    "schedule.microbatches": "micro-batches",
}
"""The settings that say what is split, by the names that people give them."""


def plans_text(runs: RunSet, columns: int) -> str:
    """Every run's plan; a sentence where there is none."""
    blocks = ["\n".join(plan_lines(run, columns)) for run in runs.runs]
    problems = [printable(f"{problem.path}: {problem.message}") for problem in runs.problems]
    if not blocks:
        problems.append("no launch and no training config was read")
    return "\n\n\n".join([*blocks, *(["\n".join(problems)] if problems else [])]) + "\n"


def plan_lines(run: Run, columns: int) -> list[str]:
    """One run's plan."""
    from dtlint.cost import estimate
    from dtlint.report.figures import figures_of
    from dtlint.report.plan_cost import cost_sections
    from dtlint.report.plan_strips import pipeline_strip, topology_strip

    found, figures = estimate(run.plan), figures_of(run.plan)
    sections = [
        ("Split", list(_split(run.plan, columns))),
        ("Machines", list(topology_strip(figures, columns))),
        ("Pipeline", list(pipeline_strip(figures, columns))),
        *(_no_cost(found, columns) if isinstance(found, Unknown) else cost_sections(run.plan, found, figures, columns)),
        ("Settings", list(_settings(run.plan, columns))),
        ("Facts", list(_facts(run.plan, columns))),
        ("Unknown", list(_unknown(run.plan, found, columns))),
    ]
    lines = list(_title(run, columns))
    for name, body in sections:
        if body:
            lines += ["", BOLD(name), *body]
    return lines


def _title(run: Run, columns: int) -> Iterable[str]:
    role = "" if run.role == "train" else f" ({printable(run.role)})"
    branch = f" if {printable(run.branch)}" if run.branch else ""
    yield BOLD(f"{run_place(run)}{role}{branch}")
    yield from wrap(plan_line(run.plan), "", INDENT, columns)
    if run.files:
        yield from wrap(listed(run.files), "read from ", INDENT, columns)
    for sentence in run.assumptions:
        yield from wrap(printable(sentence), "assumed: ", INDENT, columns)


def _split(plan: Plan, columns: int) -> Iterable[str]:
    """Each degree above 1, the sharding of states and the batch, and where it comes from."""
    for name in SPLITS:
        found = plan.get(name)
        if isinstance(found, Value) and found.value not in (0, 1):
            head = f"{INDENT}{SPLITS[name]} {value_shown(found.value)}"
            yield from wrap(origin_shown(found.origin, plan), f"{head:<22} ", INDENT * 2, columns)


def _settings(plan: Plan, columns: int) -> Iterable[str]:
    """Every setting that is known, with where its value comes from; many of one origin stand together."""
    from dtlint.plan.vocabulary import vocabulary

    rows: dict[str, list[tuple[str, str]]] = {}
    for name in vocabulary():
        found = plan.get(name)
        if isinstance(found, Value):
            rows.setdefault(origin_shown(found.origin, plan), []).append((name, value_shown(found.value)))
    few = [(name, value, origin) for origin, group in rows.items() if len(group) < MANY for name, value in group]
    yield from _table(few, columns)
    for origin, group in rows.items():
        if len(group) >= MANY:
            text = ", ".join(f"{name} {value}".replace(" ", NO_BREAK) for name, value in group)
            yield from wrap(f"{origin}: {text}", INDENT, INDENT * 2, columns)


def _table(rows: Sequence[tuple[str, str, str]], columns: int) -> Iterable[str]:
    names = max((len(name) for name, _, _ in rows), default=0)
    values = min(20, max((width(value) for _, value, _ in rows), default=0))
    for name, value, rest in rows:
        yield from wrap(rest, f"{INDENT}{name:<{names}}  {value}{' ' * (values - width(value))}  ", INDENT * 2, columns)


def _no_cost(missing: Unknown, columns: int) -> Iterable[tuple[str, list[str]]]:
    yield "Memory and time", wrap(unknown_shown(missing), INDENT + "unknown: ", INDENT * 2, columns)


def _facts(plan: Plan, columns: int) -> Iterable[str]:
    """What follows from the settings, as far as it is known; rules read nothing else."""
    from dtlint.facts import FACTS, facts

    known = [(name, value) for name, value in facts(plan) if not isinstance(value, Unknown)]
    names = max((len(name) for name, _ in known), default=0)
    for name, value in known:
        yield f"{INDENT}{name:<{names}}  {fact_shown(FACTS[name].unit, value)}"


def _unknown(plan: Plan, found: Estimate | Unknown, columns: int) -> Iterable[str]:
    """What stands in the files and is not known, and what the estimate would need or had to assume."""
    from dtlint.plan.vocabulary import vocabulary

    assumed = () if isinstance(found, Unknown) else found.assumed
    unknown = [(name, value) for name in vocabulary() if isinstance(value := plan.get(name), Unknown)]
    shown = [(name, value) for name, value in unknown if value.origin is not None or name in assumed]
    for name, value in shown:
        taken = f"{bounds_shown(name)} in the estimate; {telling(name)}" if name in assumed else unknown_shown(value)
        yield from wrap(taken, f"{INDENT}{name}: ", INDENT * 2, columns)
    if len(unknown) > len(shown):
        yield f"{INDENT}{len(unknown) - len(shown)} more are told by no file; --format json lists them"
