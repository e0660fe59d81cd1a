"""Memory of a GPU by pipeline stage: stacked parts against what there is, beside the view that counts weights only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from dtlint.facts.registry import FactValue, fact
from dtlint.interval import Interval, point
from dtlint.report.figures import Amount, Figures, StageMemory
from dtlint.report.html.markup import Markup, element, figure, joined
from dtlint.report.html.parts import Piece, bar, legend, note, rows, section, size, unknown
from dtlint.rulebook.sentences import spell
from dtlint.value import Unknown

if TYPE_CHECKING:
    from dtlint.plan import Plan

PARTS: Mapping[str, str] = {
    "weights": "weights",
    "gradients": "gradients",
    "optimizer": "optimizer states",
    "reference": "reference model",
    "gathered": "gathered weights",
    "buckets": "communication buckets",
    "activations": "activations",
    "working": "working memory of one layer",
    "logits": "logits and loss",
    "step": "copies of the optimizer's step",
}

MOST_STAGES = 16
"""Stages that are drawn; of more the first and the last ones."""


def memory_section(figures: Figures, plan: Plan) -> Markup:
    """The section."""
    if isinstance(figures.stages, Unknown):
        return section("memory", "Memory of a GPU", note(unknown(figures.stages)))
    stages, available = figures.stages, figures.available
    whole = max(_most(available), *(stage.device.high for stage in stages))
    drawn = [line for stage in _shown(stages) for line in _lines(stage, available, whole)]
    hidden = len(stages) - len(_shown(stages))
    return section(
        "memory",
        "Memory of a GPU",
        note(_verdict(stages, available)),
        legend(_legend(stages, available)),
        rows("stages", drawn),
        *([note(f"{hidden} stages in the middle are not drawn")] if hidden else []),
        _views(stages, fact(plan, "memory.bytes_per_parameter")),
    )


def _most(available: Amount) -> float:
    return 0.0 if isinstance(available, Unknown) else available.high


def _shown(stages: Sequence[StageMemory]) -> Sequence[StageMemory]:
    half = MOST_STAGES // 2
    return stages if len(stages) <= MOST_STAGES else [*stages[:half], *stages[-half:]]


def _verdict(stages: Sequence[StageMemory], available: Amount) -> Markup:
    worst = max(stages, key=lambda stage: stage.device.high)
    needed = size(f"estimate.stages.{worst.stage}.device_bytes", worst.device)
    if isinstance(available, Unknown):
        return joined(
            (needed, " on the most loaded GPU as nvidia-smi shows it; what a GPU has is ", unknown(available))
        )
    has = size("estimate.available_bytes", available)
    return joined((needed, " of ", has, " on the most loaded GPU as nvidia-smi shows it"))


def _legend(stages: Sequence[StageMemory], available: Amount) -> list[tuple[str, str]]:
    used = [(f"part-{name}", title) for name, title in PARTS.items() if any(name in stage.parts for stage in stages)]
    ends = [("part-allocator", "allocator and CUDA context"), ("part-open", "between the low and the high end")]
    return [*used, *ends, *([] if isinstance(available, Unknown) else [("part-free", "free")])]


def _lines(stage: StageMemory, available: Amount, whole: float) -> Iterable[Sequence[str]]:
    """The stage's bar, and under it the two views of what the model takes."""
    path = f"estimate.stages.{stage.stage}"
    label = f"stage {stage.stage}, {stage.layers} layers"
    yield label, bar(pieces(stage, available, whole), _spoken(stage)), size(f"{path}.device_bytes", stage.device)


def pieces(stage: StageMemory, available: Amount, whole: float) -> Iterable[Piece]:
    """Parts at their low end, what allocator and context add, then what lies between the ends, and what is free."""
    start = 0.0
    for name, amount in stage.parts.items():
        yield Piece(start / whole, amount.low / whole, f"part-{name}", f"{PARTS.get(name, name)}: {_gb(amount)}")
        start += amount.low
    if stage.device.low > start:
        beside = stage.device.low - start
        yield Piece(start / whole, beside / whole, "part-allocator", "allocator and CUDA context")
        start = stage.device.low
    between = f"from {_gb(Interval(start, start))} to {_gb(Interval(stage.device.high, stage.device.high))}"
    yield Piece(start / whole, (stage.device.high - start) / whole, "part-open", between)
    if isinstance(available, Unknown):
        return
    end = max(stage.device.high, start)
    yield Piece(end / whole, max(0.0, available.high - end) / whole, "part-free", f"of {_gb(available)}")
    yield Piece(max(0.0, available.low / whole - 0.002), 0.004, "part-limit", f"the GPU ends at {_gb(available)}")


def _spoken(stage: StageMemory) -> str:
    parts = ", ".join(f"{PARTS.get(name, name)} {_gb(amount)}" for name, amount in stage.parts.items())
    return f"stage {stage.stage}: {parts}; {_gb(stage.device)} in all"


def _views(stages: Sequence[StageMemory], each: FactValue) -> Markup:
    """What counting 2 bytes a parameter leaves out, on the stage that holds most."""
    stage = max(stages, key=lambda each: each.states.high)
    path, whole = f"estimate.stages.{stage.stage}", max(stage.states.high, stage.weights_only.high) or 1.0
    weights = bar([Piece(0, stage.weights_only.high / whole, "part-weights", "2 bytes a parameter")], "weights only")
    states = bar(_states(stage, whole), "weights, gradients and optimizer")
    lines = [
        ("weights only (2N)", weights, size(f"{path}.weights_only_bytes", stage.weights_only)),
        ("all model states", states, size(f"{path}.states_bytes", stage.states)),
    ]
    said = note(
        f"stage {stage.stage}: counting 2 bytes a parameter leaves out gradients and optimizer states", *_kept(each)
    )
    return element("div", said, rows("views", lines), class_="views")


def _kept(each: FactValue) -> Iterable[str]:
    """What training keeps for a parameter before anything is shared out: the 16 of 16N."""
    if isinstance(each, (int, float)) and not isinstance(each, bool):
        yield "; training keeps "
        yield figure("facts.memory.bytes_per_parameter", point(each), f"{each:g} bytes (the {each:g}N view)")
        yield " for each parameter before sharding"


def _states(stage: StageMemory, whole: float) -> Iterable[Piece]:
    start = 0.0
    for name in ("weights", "gradients", "optimizer"):
        amount = stage.parts.get(name, Interval(0.0, 0.0))
        yield Piece(start / whole, amount.high / whole, f"part-{name}", f"{PARTS[name]}: {_gb(amount)}")
        start += amount.high


def _gb(amount: Interval) -> str:
    return spell(amount, "gb")
