"""What a plan costs, for people: memory of a GPU as a bar, communication and links, the step, throughput, money."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from dtlint.interval import Interval
from dtlint.report.figures import Amount, Axis, Figures, StageMemory
from dtlint.report.terminal import NO_BREAK, wrap
from dtlint.report.words import counted, step_time, telling
from dtlint.rulebook.sentences import spell
from dtlint.value import Unknown

if TYPE_CHECKING:
    from dtlint.cost import Estimate
    from dtlint.plan import Plan

INDENT = "  "

MOST_STAGES = 8
"""Stages whose memory is drawn; of more the first and the last ones."""

SIGNS = {
    "weights": "W",
    "gradients": "G",
    "optimizer": "O",
    "reference": "R",
    "gathered": "p",
    "buckets": "b",
    "activations": "A",
    "working": "w",
    "logits": "L",
    "step": "s",
}
"""The letter with which a part of memory is drawn."""


def cost_sections(plan: Plan, found: Estimate, figures: Figures, columns: int) -> Iterable[tuple[str, list[str]]]:
    """The sections, each with its title."""
    yield "Memory of the most loaded GPU", list(_memory(found, figures.available, columns))
    yield "Memory by stage", list(_stages(figures, columns))
    yield "Communication", list(_communication(figures, columns))
    yield "Step", list(_step(found, columns))
    yield "Throughput and money", list(_money(plan, found, columns))


def _memory(found: Estimate, available: Amount, columns: int) -> Iterable[str]:
    """A bar of stacked parts against what there is, and the parts."""
    low, middle, high = found.low.memory, found.middle.memory, found.high.memory
    parts = [(name, size) for name, size in middle.parts.items() if high.parts.get(name, 0) > 0]
    yield INDENT + memory_bar(parts, _end(available), columns - 4)
    for name, size in sorted(parts, key=lambda part: -part[1]):
        amount = spell(Interval(low.parts.get(name, size), high.parts.get(name, size)), "gb")
        yield f"{INDENT}{SIGNS.get(name, '#')} {name:<12} {amount:>16}"
    needed = spell(Interval(low.device_bytes, high.device_bytes), "gb")
    peak = spell(Interval(low.peak_bytes, high.peak_bytes), "gb")
    yield from wrap(f"{peak} allocated at the peak; {needed} {_of(available)}", INDENT, INDENT, columns)
    states = spell(Interval(low.states_bytes, high.states_bytes), "gb")
    weights = spell(Interval(low.weights_only_bytes, high.weights_only_bytes), "gb")
    views = f"model states {states}; counting 2 bytes a parameter and nothing else {weights}"
    yield from wrap(views, INDENT, INDENT, columns)
    if middle.host_bytes:
        yield f"{INDENT}{spell(Interval(low.host_bytes, high.host_bytes), 'gb')} of host memory for each GPU"


def _of(available: Amount) -> str:
    if isinstance(available, Unknown):
        return f"as nvidia-smi shows it; what a GPU has is unknown: {telling('cluster.gpu')}"
    return f"of {spell(available, 'gb')} ({spell(available, 'gib')}) as nvidia-smi shows it"


def _end(available: Amount) -> float:
    """Where the GPU's memory ends, 0 where that is not known and no end is drawn."""
    return 0.0 if isinstance(available, Unknown) else available.low


def _stages(figures: Figures, columns: int) -> Iterable[str]:
    """A bar for each of several stages, at the low end of its parts, all to one scale."""
    if isinstance(figures.stages, Unknown) or len(figures.stages) < 2:
        return
    end = _end(figures.available)
    whole = max(end, *(sum(size.low for size in stage.parts.values()) for stage in figures.stages))
    room = columns - 26
    for stage in _ends(figures.stages):
        parts = [(name, size.low) for name, size in stage.parts.items()]
        length = round(max(end, sum(size for _, size in parts)) / whole * room)
        yield f"{INDENT}{stage.stage:>3} {memory_bar(parts, end, length):<{room + 3}} {spell(stage.device, 'gb'):>14}"
    left_out = len(figures.stages) - len(_ends(figures.stages))
    if left_out:
        yield f"{INDENT}{counted(left_out, 'stage')} between are left out"


def _ends(stages: Sequence[StageMemory]) -> Sequence[StageMemory]:
    half = MOST_STAGES // 2
    return stages if len(stages) <= MOST_STAGES else [*stages[:half], *stages[-half:]]


def memory_bar(parts: Sequence[tuple[str, float]], available: float, columns: int) -> str:
    """The parts as letters, what is free as dots; `|` marks the end of the GPU's memory where they go beyond it.

    `available` 0 stands for an end that is not known.
    """
    whole = max(available, sum(size for _, size in parts)) or 1.0
    text, total = "", 0.0
    for name, size in parts:
        total += size
        text += SIGNS.get(name, "#") * (round(total / whole * columns) - len(text))
    end = round(available / whole * columns) if available else len(text)
    text += "." * (end - len(text))
    return f"[{text[:end]}{'|' + text[end:] if len(text) > end else ''}]"


def _communication(figures: Figures, columns: int) -> Iterable[str]:
    """Which links each axis uses, what each GPU sends over them in a step, and how long the step waits for it."""
    topology = figures.topology
    if isinstance(topology, Unknown):
        return
    for axis in topology.axes:
        if not isinstance(axis.sent, Unknown):
            head = f"{axis.name} {axis.ranks}, {topology.where(axis)} ({_rate(axis)})"
            line = f"{head}: {spell(axis.sent, 'bytes')} a step, {_waiting(axis)}"
            yield from wrap(line, INDENT, INDENT * 2, columns)


def _rate(axis: Axis) -> str:
    """How fast a collective runs over the links."""
    if isinstance(axis.rate, Unknown):
        return f"bandwidth unknown: {axis.rate.how}".replace("--set ", f"--set{NO_BREAK}")
    rate = spell(Interval(axis.rate.low / 1e9, axis.rate.high / 1e9), "count")
    return f"{rate} GB/s per GPU" + (" between them" if axis.domains > 1 else "")


def _waiting(axis: Axis) -> str:
    exposed, hidden = axis.exposed, axis.hidden
    if isinstance(exposed, Unknown) or isinstance(hidden, Unknown):
        return "what the step waits is unknown"
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
