"""Memory of a GPU by pipeline stage: stacked parts against what there is, beside the view that counts weights only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dtlint.interval import Interval
from dtlint.report.figures import Amount, Figures, StageMemory
from dtlint.report.html.markup import Markup, element, joined
from dtlint.report.html.parts import Piece, bar, legend, note, rows, section, size, unknown
from dtlint.rulebook.sentences import spell
from dtlint.value import Unknown

PARTS: Mapping[str, str] = {
    "weights": "weights",
    "gradients": "gradients",
    "optimizer": "optimizer states",
    "gathered": "gathered weights",
    "buckets": "communication buckets",
    "activations": "activations",
    "working": "working memory of one layer",
    "logits": "logits and loss",
    "step": "copies of the optimizer's step",
}

MOST_STAGES = 16
"""Stages that are drawn; of more the first and the last ones."""


def memory_section(figures: Figures) -> Markup:
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
        _views(stages),
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


def _views(stages: Sequence[StageMemory]) -> Markup:
    """What counting 2 bytes a parameter leaves out, on the stage that holds most."""
    stage = max(stages, key=lambda each: each.states.high)
    path, whole = f"estimate.stages.{stage.stage}", max(stage.states.high, stage.weights_only.high) or 1.0
    lines = [
        (
            "weights only (2N)",
            bar([Piece(0, stage.weights_only.high / whole, "part-weights", "2 bytes a parameter")], "weights only"),
            size(f"{path}.weights_only_bytes", stage.weights_only),
        ),
        (
            "all model states (16N)",
            bar(_states(stage, whole), "weights, gradients and optimizer"),
            size(f"{path}.states_bytes", stage.states),
        ),
    ]
    said = "Counting 2 bytes a parameter leaves out gradients and optimizer states: with Adam and 16-bit weights they "
    return element("div", note(f"{said}make it about 16 before sharding."), rows("views", lines), class_="views")


def _states(stage: StageMemory, whole: float) -> Iterable[Piece]:
    start = 0.0
    for name in ("weights", "gradients", "optimizer"):
        amount = stage.parts.get(name, Interval(0.0, 0.0))
        yield Piece(start / whole, amount.high / whole, f"part-{name}", f"{PARTS[name]}: {_gb(amount)}")
        start += amount.high


def _gb(amount: Interval) -> str:
    return spell(amount, "gb")
