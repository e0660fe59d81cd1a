"""What a plan costs, for people: memory of a GPU as a bar, communication and links, the step, throughput, money."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from dtlint.interval import Interval, hull
from dtlint.report.terminal import wrap
from dtlint.report.words import counted, step_time, telling
from dtlint.rulebook.sentences import spell
from dtlint.value import Unknown

if TYPE_CHECKING:
    from dtlint.cost import Estimate
    from dtlint.cost.job import Job
    from dtlint.plan import Plan

INDENT = "  "

AXES = (
    ("TP", "tensor"),
    ("CP", "context"),
    ("Ulysses", "ulysses"),
    ("EP", "expert"),
    ("PP", "pipeline"),
    ("DP", "data"),
)
"""The axes that communicate, by the names of the cost model."""

SIGNS = {
    "weights": "W",
    "gradients": "G",
    "optimizer": "O",
    "gathered": "p",
    "buckets": "b",
    "activations": "A",
    "working": "w",
    "logits": "L",
    "step": "s",
}
"""The letter with which a part of memory is drawn."""


def cost_sections(plan: Plan, found: Estimate, columns: int) -> Iterable[tuple[str, list[str]]]:
    """The sections, each with its title."""
    yield "Memory of the most loaded GPU", list(_memory(found, columns))
    yield "Communication", list(_communication(plan, found, columns))
    yield "Step", list(_step(found, columns))
    yield "Throughput and money", list(_money(plan, found, columns))


def _memory(found: Estimate, columns: int) -> Iterable[str]:
    """A bar of stacked parts against what there is, and the parts."""
    low, middle, high = found.low.memory, found.middle.memory, found.high.memory
    parts = [(name, size) for name, size in middle.parts.items() if high.parts.get(name, 0) > 0]
    yield INDENT + memory_bar(parts, middle.available_bytes, columns - 4)
    for name, size in sorted(parts, key=lambda part: -part[1]):
        amount = spell(Interval(low.parts.get(name, size), high.parts.get(name, size)), "gb")
        yield f"{INDENT}{SIGNS.get(name, '#')} {name:<12} {amount:>16}"
    there = Interval(low.available_bytes, high.available_bytes)
    available = f"{spell(there, 'gb')} ({spell(there, 'gib')})"
    needed = spell(Interval(low.device_bytes, high.device_bytes), "gb")
    peak = spell(Interval(low.peak_bytes, high.peak_bytes), "gb")
    yield from wrap(
        f"{peak} allocated at the peak; {needed} of {available} as nvidia-smi shows it", INDENT, INDENT, columns
    )
    if middle.host_bytes:
        yield f"{INDENT}{spell(Interval(low.host_bytes, high.host_bytes), 'gb')} of host memory for each GPU"


def memory_bar(parts: Sequence[tuple[str, float]], available: float, columns: int) -> str:
    """The parts as letters, what is free as dots; `|` marks the end of the GPU's memory where they go beyond it."""
    whole = max(available, sum(size for _, size in parts)) or 1.0
    end, text, total = round(available / whole * columns), "", 0.0
    for name, size in parts:
        total += size
        text += SIGNS.get(name, "#") * (round(total / whole * columns) - len(text))
    text += "." * (end - len(text))
    return f"[{text[:end]}{'|' + text[end:] if len(text) > end else ''}]"


def _communication(plan: Plan, found: Estimate, columns: int) -> Iterable[str]:
    """Which links each axis uses, what each GPU sends over them in a step, and how long the step waits for it."""
    from dtlint.cost.job import complete
    from dtlint.cost.traffic import sent_bytes

    completed = complete(plan)
    if isinstance(completed, Unknown):
        return
    job = completed.typical
    sent = [sent_bytes(each) for each in completed[:3]]
    for short, axis in AXES:
        if getattr(job.layout, axis) > 1:
            size = spell(hull(each.get(axis, 0.0) for each in sent), "bytes")
            line = f"{short} {getattr(job.layout, axis)}, {_link(job, axis)}: {size} a step, {_waiting(found, axis)}"
            yield from wrap(line, INDENT, INDENT * 2, columns)


def _link(job: Job, axis: str) -> str:
    """Which links a group of the axis uses, and how fast a collective runs over them."""
    from dtlint.cost.communication import group_of

    group = group_of(job.layout, job.machine, axis)
    domain = "node" if job.machine.domain == job.machine.per_node else "NVLink domain"
    if group.nodes == 1:
        return f"inside the {domain} ({group.intranode / 1e9:,.0f} GB/s per GPU)"
    within = f", {group.inside} GPUs of each" if group.inside > 1 else ""
    return f"over {counted(group.nodes, domain)}{within} ({group.internode / 1e9:,.0f} GB/s per GPU between them)"


def _waiting(found: Estimate, axis: str) -> str:
    part = {"ulysses": "context", "pipeline": "transfer"}.get(axis, axis)
    exposed = Interval(getattr(found.low.step, part), getattr(found.high.step, part))
    hidden = Interval(found.low.step.hidden.get(part, 0.0), found.high.step.hidden.get(part, 0.0))
    shown = f"the step waits {step_time(exposed)}" if exposed.high else "the step does not wait"
    return shown + (f", {step_time(hidden)} hidden" if hidden.high else "")


def _step(found: Estimate, columns: int) -> Iterable[str]:
    """The parts of a step, and its whole."""
    low, middle, high = found.low.step, found.middle.step, found.high.step
    whole = found.middle.step_seconds
    for name in middle._fields:
        if name != "hidden" and getattr(high, name) > 0:
            share = getattr(middle, name) / whole
            seconds = step_time(Interval(getattr(low, name), getattr(high, name)))
            bar = "#" * round(share * max(10, columns - 48))
            yield f"{INDENT}{name:<10} {seconds:>16} {share:>7.1%}  {bar}".rstrip()
    total = Interval(found.low.step_seconds, found.high.step_seconds)
    typical = "" if total.exact else f"  typically {step_time(Interval(whole, whole))}"
    yield f"{INDENT}{'step':<10} {step_time(total):>16}{typical}"


def _money(plan: Plan, found: Estimate, columns: int) -> Iterable[str]:
    """Tokens, utilisation, GPU-hours and dollars."""
    tokens = spell(Interval(found.low.tokens_per_second_per_gpu, found.high.tokens_per_second_per_gpu), "count")
    share = spell(Interval(found.low.mfu, found.high.mfu), "percent")
    yield from wrap(f"{tokens} tokens per second and GPU, model FLOP utilisation {share}", INDENT, INDENT, columns)
    price = plan.number("cluster.usd_per_gpu_hour")
    a_day = found.gpu_hours_per_day
    money = f"${a_day * price:,.0f}" if price is not None else f"money unknown: {telling('cluster.usd_per_gpu_hour')}"
    yield from wrap(f"a day: {a_day:,.0f} GPU-hours, {money}", INDENT, INDENT, columns)
    yield from _whole_run(plan, found, price, columns)


def _whole_run(plan: Plan, found: Estimate, price: float | None, columns: int) -> Iterable[str]:
    steps, tokens = plan.number("run.steps"), plan.number("run.tokens")
    count = steps or (tokens / found.tokens_per_step if tokens else None)
    if not count:
        return
    hours = Interval(*(count * end.step_seconds * found.world / 3600 for end in (found.low, found.high)))
    money = f", ${spell(Interval(hours.low * price, hours.high * price), 'count')}" if price is not None else ""
    yield from wrap(f"the run: {count:,.0f} steps, {spell(hours, 'count')} GPU-hours{money}", INDENT, INDENT, columns)
