"""Facts about the time of a step, the whole run, and what more or fewer GPUs would give."""

from __future__ import annotations

from dtlint.cost import Estimate, Point, estimate
from dtlint.facts.host import delayed
from dtlint.facts.registry import (
    TIMING,
    FactValue,
    fact,
    lower,
    missing,
    narrow,
    over_completions,
    over_exchanges,
    register,
)
from dtlint.interval import Interval, hull
from dtlint.plan import Infeasible, Plan
from dtlint.value import Unknown


@register("step.seconds", "number", "s", TIMING, "cost model")
def step_seconds(plan: Plan) -> FactValue:
    """Seconds of one optimizer step."""
    return over_completions(plan, lambda each: each.step_seconds)


@register("step.bubble_seconds", "number", "s", TIMING, "gpipe")
def bubble_seconds(plan: Plan) -> FactValue:
    """Seconds of a step that a pipeline stage idles."""
    return over_completions(plan, lambda each: each.step.bubble)


@register("step.exposed_tensor_seconds", "number", "s", TIMING, "megatron-sc21")
def exposed_tensor_seconds(plan: Plan) -> FactValue:
    """Seconds of a step that wait for tensor-parallel communication."""
    return over_completions(plan, lambda each: each.step.tensor)


@register("step.crossing_tensor_seconds", "number", "s", TIMING, "megatron-sc21")
def crossing_tensor_seconds(plan: Plan) -> FactValue:
    """The same where ranks that train make up the groups; what an engine waits that generates is part of no step."""
    if plan.integer("parallel.tensor") == 1:
        return Unknown("the step that trains has no tensor-parallel communication")
    return fact(plan, "step.exposed_tensor_seconds")


@register("step.exposed_data_seconds", "number", "s", TIMING, "zero")
def exposed_data_seconds(plan: Plan) -> FactValue:
    """Seconds of a step that wait for gradients or parameters of data-parallel ranks."""
    return over_exchanges(plan, lambda each: each.step.data)


@register("step.exposed_data_share", "number", "share of a step", TIMING, "zero")
def exposed_data_share(plan: Plan) -> FactValue:
    """The same as a share of the step, with what an optimizer on the host in one thread adds to it."""
    return over_exchanges(plan, lambda each: each.step.data / (each.step_seconds + delayed(plan, each)))


@register("step.most_exposed_data_share", "number", "share of a step", TIMING, "zero")
def most_exposed_data_share(plan: Plan) -> FactValue:
    """The same at the most: the upper end where only a range is known, all of the step where nothing is."""
    today = fact(plan, "step.exposed_data_share")
    if isinstance(today, Unknown):
        return 1.0
    return today.high if isinstance(today, Interval) else today


@register("step.exposed_seconds", "number", "s", TIMING, "cost model")
def exposed_seconds(plan: Plan) -> FactValue:
    """Seconds of a step that wait for any communication between data-parallel ranks, experts or context ranks."""
    return over_exchanges(plan, _exposed)


@register("step.exposed_share", "number", "share of a step", TIMING, "cost model")
def exposed_share(plan: Plan) -> FactValue:
    """The same as a share of the step, with what an optimizer on the host in one thread adds to it."""
    return over_exchanges(plan, lambda each: _exposed(each) / (each.step_seconds + delayed(plan, each)))


def _exposed(each: Point) -> float:
    return each.step.data + each.step.expert + each.step.context


@register("step.tokens_per_second_per_gpu", "number", "tokens/s", TIMING, "cost model")
def tokens_per_second_per_gpu(plan: Plan) -> FactValue:
    """Throughput of one GPU."""
    return over_completions(plan, lambda each: each.tokens_per_second_per_gpu)


@register("step.mfu", "number", "share of the peak rate", TIMING, "cost model")
def mfu(plan: Plan) -> FactValue:
    """Model FLOPs utilization: 6N and causal attention a token over the data sheet's rate."""
    return over_completions(plan, lambda each: each.mfu)


@register("run.gpu_hours", "number", "GPU-hours", ("run.tokens", *TIMING), "cost model")
def gpu_hours(plan: Plan) -> FactValue:
    """GPU-hours of the whole run, where its tokens or steps are known."""
    tokens = plan.number("run.tokens") or _tokens_of_steps(plan)
    if tokens is None:
        return missing(plan, "run.tokens")
    return over_completions(plan, lambda each: tokens / each.tokens_per_second_per_gpu / 3600)


@register("run.usd", "number", "USD", ("cluster.usd_per_gpu_hour", "run.tokens", *TIMING), "cost model")
def usd(plan: Plan) -> FactValue:
    """Price of the whole run."""
    hours, price = fact(plan, "run.gpu_hours"), plan.number("cluster.usd_per_gpu_hour")
    if isinstance(hours, Unknown) or price is None:
        return hours if isinstance(hours, Unknown) else missing(plan, "cluster.usd_per_gpu_hour")
    return Interval(hours.low * price, hours.high * price) if isinstance(hours, Interval) else lower(hours) * price


def _tokens_of_steps(plan: Plan) -> float | None:
    steps, batch, sequence = (plan.number(name) for name in ("run.steps", "batch.global", "data.sequence_length"))
    return steps * batch * sequence if steps and batch and sequence else None


@register("scaling.half_throughput", "number", "share of today's throughput", (*TIMING, "launch.nodes"), "seed")
def half_throughput(plan: Plan) -> FactValue:
    """Throughput with half the GPUs at the same global batch, over today's."""
    return _scaled(plan, 0.5)


@register("scaling.double_throughput", "number", "share of today's throughput", (*TIMING, "launch.nodes"), "seed")
def double_throughput(plan: Plan) -> FactValue:
    """Throughput with twice the GPUs at the same global batch, over today's."""
    return _scaled(plan, 2.0)


def _scaled(plan: Plan, factor: float) -> FactValue:
    world = plan.integer("parallel.world_size")
    if world is None or world * factor != int(world * factor):
        return missing(plan, "parallel.world_size")
    changed = plan.but({"parallel.world_size": int(world * factor)})
    if isinstance(changed, Infeasible):
        return Unknown(changed.reason)
    before, after = estimate(plan), estimate(changed)
    if isinstance(before, Unknown) or isinstance(after, Unknown):
        return before if isinstance(before, Unknown) else _as_unknown(after)
    pairs = zip(before.completions, after.completions, strict=False)
    return narrow(hull(one.step_seconds / other.step_seconds for one, other in pairs))


def _as_unknown(found: Estimate | Unknown) -> Unknown:
    return found if isinstance(found, Unknown) else Unknown("no estimate is possible")
