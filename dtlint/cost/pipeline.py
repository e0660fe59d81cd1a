"""The pipeline bubble: how long stages idle while the pipeline fills and drains."""

from __future__ import annotations


def bubble(stages: int, microbatches: int, chunks: int = 1, schedule: str = "1f1b") -> float:
    """Share of a step that a stage idles.

    GPipe and 1F1B (p-1)/(m+p-1), interleaved (p-1)/(v*m+p-1) (Narayanan et al. 2021, section 2.2); with equal times of
    forward pass, input and weight gradients ZB1P (p-1)/(3m+p-1), ZBV and DualPipe (p-1)/(6m+p-1)
    (zero-bubble-pipeline-parallelism README).
    """
    if stages <= 1:
        return 0.0
    idle = stages - 1
    return idle / (idle + microbatches * work_per_microbatch(schedule, chunks))


def work_per_microbatch(schedule: str, chunks: int = 1) -> float:
    """Work that one micro-batch gives a stage, in units of what the pipeline waits for per stage."""
    return {"zb1p": 3.0, "zbv": 6.0, "dualpipe": 6.0}.get(schedule, float(chunks) if schedule == "interleaved" else 1.0)


def microbatches_for_bubble(target: float, stages: int, chunks: int = 1, schedule: str = "1f1b") -> int:
    """The fewest micro-batches with which the bubble is at most `target` (between 0 and 1)."""
    if stages <= 1 or target >= 1:
        return 1
    needed = (stages - 1) * (1 - target) / (target * work_per_microbatch(schedule, chunks))
    return max(1, -int(-needed // 1))
