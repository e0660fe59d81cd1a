"""The order of passes on each pipeline stage, in units of time: what a picture of the schedule shows."""

from __future__ import annotations

from collections.abc import Sequence

from dtlint.record import NamedTuple

IDLE = "."


class Pass(NamedTuple):
    """A forward (F), backward (B) or weight-gradient (W) pass of one micro-batch through one chunk of a stage."""

    kind: str
    microbatch: int
    chunk: int = 0


Ends = dict[tuple[int, Pass], int]
"""The unit of time with which each stage has ended each pass."""

UNITS = {"F": 1, "B": 2, "W": 1}
"""A backward pass takes two forward passes: it computes gradients of inputs and of weights (Narayanan et al. 2021)."""

SPLIT_UNITS = {"F": 1, "B": 1, "W": 1}
"""Zero bubble takes the weight gradients out of the backward pass (Qi et al. 2023)."""

DRAWN = ("gpipe", "1f1b", "interleaved", "zb1p")
"""The schedules whose order is known here; of the others the share that they idle is."""


def timeline(schedule: str, stages: int, microbatches: int, chunks: int = 1) -> tuple[str, ...] | None:
    """What each stage does in each unit of time: F, B, W or IDLE, small letters for every second micro-batch.

    None for a schedule whose order is not known here, for interleaved micro-batches that are no multiple of the stages
    (Megatron-LM schedules.py refuses them), and for zero bubble with fewer micro-batches than stages, which idles more
    than its formula says.
    """
    if schedule not in DRAWN or stages < 2 or microbatches < 1:
        return None
    if schedule == "zb1p":
        return _rows(_filled(stages, microbatches), SPLIT_UNITS) if microbatches >= stages else None
    if schedule == "interleaved" and chunks > 1:
        if microbatches % stages:
            return None
        orders = [_interleaved(stage, stages, microbatches, chunks) for stage in range(stages)]
        return _rows(_placed(orders, stages, chunks), UNITS)
    order = _all_forward_first if schedule == "gpipe" else _one_forward_one_backward
    orders = [order(stage, stages, microbatches) for stage in range(stages)]
    return _rows(_placed(orders, stages, 1), UNITS)


def idle_share(rows: Sequence[str]) -> float:
    """The share of the time that the stages of a timeline idle."""
    return sum(row.count(IDLE) for row in rows) / sum(map(len, rows))


def _all_forward_first(stage: int, stages: int, microbatches: int) -> list[Pass]:
    """GPipe (Huang et al. 2019)."""
    return [Pass(kind, number) for kind in "FB" for number in range(microbatches)]


def _one_forward_one_backward(stage: int, stages: int, microbatches: int) -> list[Pass]:
    """1F1B with flush (Narayanan et al. 2021, figure 4): the stage runs ahead by its distance from the end."""
    forward = [Pass("F", number) for number in range(microbatches)]
    backward = [Pass("B", number) for number in range(microbatches)]
    return _alternating(forward, backward, min(stages - 1 - stage, microbatches))


def _interleaved(stage: int, stages: int, microbatches: int, chunks: int) -> list[Pass]:
    """Interleaved 1F1B: chunks take turns every P micro-batches (Megatron-LM schedules.py)."""
    numbers = range(microbatches * chunks)
    forward = [Pass("F", *_turn(number, stages, chunks)) for number in numbers]
    backward = [Pass("B", each.microbatch, chunks - 1 - each.chunk) for each in forward]
    return _alternating(forward, backward, min(2 * (stages - 1 - stage) + (chunks - 1) * stages, len(forward)))


def _turn(number: int, stages: int, chunks: int) -> tuple[int, int]:
    """The micro-batch and the chunk of a stage's pass."""
    rounds, within = divmod(number, stages * chunks)
    return rounds * stages + within % stages, within // stages


def _alternating(forward: list[Pass], backward: list[Pass], ahead: int) -> list[Pass]:
    """`ahead` forward passes, then one forward and one backward in turn, then what backward passes are left."""
    turns = zip(forward[ahead:], backward, strict=False)
    steady = [each for turn in turns for each in turn]
    return [*forward[:ahead], *steady, *backward[len(forward) - ahead :]]


def _placed(orders: Sequence[Sequence[Pass]], stages: int, chunks: int) -> Ends:
    """When each pass of the stages' orders ends: as soon as the stage and what it waits for are done."""
    ends: Ends = {}
    free, position = [0] * stages, [0] * stages
    moved = True
    while moved:
        moved = False
        for stage, order in enumerate(orders):
            while position[stage] < len(order):
                done = order[position[stage]]
                ready = _ready(ends, stage, done, stages, chunks)
                if ready is None:
                    break
                free[stage] = ends[stage, done] = max(free[stage], ready) + UNITS[done.kind]
                position[stage] += 1
                moved = True
    return ends


def _ready(ends: Ends, stage: int, done: Pass, stages: int, chunks: int) -> int | None:
    """When what a pass waits for has ended; None while that is not placed."""
    before = _before(stage, done, stages, chunks)
    return 0 if before is None else ends.get(before)


def _before(stage: int, done: Pass, stages: int, chunks: int) -> tuple[int, Pass] | None:
    if done.kind == "F":
        if stage:
            return stage - 1, done
        return (stages - 1, done._replace(chunk=done.chunk - 1)) if done.chunk else None
    if stage < stages - 1:
        return stage + 1, done
    if done.chunk < chunks - 1:
        return 0, done._replace(chunk=done.chunk + 1)
    return stage, done._replace(kind="F")


def _filled(stages: int, microbatches: int) -> Ends:
    """ZB-H1: backward passes first, forward passes while the stage holds no more micro-batches than 1F1B does, weight
    gradients where it would idle (Qi et al. 2023, section 3)."""
    ends: Ends = {}
    done = [dict.fromkeys("FBW", 0) for _ in range(stages)]
    now = 0
    while any(counts["W"] < microbatches for counts in done):
        chosen = [_urgent(ends, stage, counts, microbatches, stages, now) for stage, counts in enumerate(done)]
        now += 1
        for stage, kind in enumerate(chosen):
            if kind:
                ends[stage, Pass(kind, done[stage][kind])] = now
                done[stage][kind] += 1
    return ends


def _urgent(ends: Ends, stage: int, counts: dict[str, int], microbatches: int, stages: int, now: int) -> str:
    """The kind of pass that a stage begins now, "" if it idles."""
    if counts["B"] < counts["F"] and _is_ready(ends, stage, Pass("B", counts["B"]), stages, now):
        return "B"
    room = counts["F"] < microbatches and counts["F"] - counts["B"] < stages - stage
    if room and _is_ready(ends, stage, Pass("F", counts["F"]), stages, now):
        return "F"
    return "W" if counts["W"] < counts["B"] else ""


def _is_ready(ends: Ends, stage: int, done: Pass, stages: int, now: int) -> bool:
    ready = _ready(ends, stage, done, stages, 1)
    return ready is not None and ready <= now


def _rows(ends: Ends, units: dict[str, int]) -> tuple[str, ...]:
    stages, length = 1 + max(stage for stage, _ in ends), max(ends.values())
    rows = [[IDLE] * length for _ in range(stages)]
    for (stage, done), end in ends.items():
        letter = done.kind.lower() if done.microbatch % 2 else done.kind
        rows[stage][end - units[done.kind] : end] = letter * units[done.kind]
    return tuple(map("".join, rows))
