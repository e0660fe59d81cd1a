"""The order of passes in a pipeline: what it draws idles as long as the formula of the bubble says."""

from __future__ import annotations

import pytest

from dtlint.cost.pipeline import bubble
from dtlint.cost.timeline import idle_share, timeline


def test_one_forward_one_backward_of_two_stages_and_two_micro_batches() -> None:
    # The second stage begins after one forward pass; the first waits for its gradients, twice.
    assert timeline("1f1b", 2, 2) == ("Ff..BB.bb", ".FBBfbb..")


def test_gpipe_has_all_forward_passes_first() -> None:
    assert timeline("gpipe", 2, 2) == ("Ff...BBbb", ".FfBBbb..")


def test_zero_bubble_fills_the_end_with_weight_gradients() -> None:
    assert timeline("zb1p", 2, 2) == ("Ff.BWbw", ".FBfbWw")


@pytest.mark.parametrize("stages", [2, 3, 4, 8])
@pytest.mark.parametrize("rounds", [1, 2, 5])
@pytest.mark.parametrize(
    ("schedule", "chunks"), [("gpipe", 1), ("1f1b", 1), ("interleaved", 2), ("interleaved", 3), ("zb1p", 1)]
)
def test_the_picture_idles_as_the_formula_says(schedule: str, chunks: int, stages: int, rounds: int) -> None:
    rows = timeline(schedule, stages, rounds * stages, chunks)
    assert rows is not None
    assert idle_share(rows) == pytest.approx(bubble(stages, rounds * stages, chunks, schedule))


def test_every_stage_does_every_pass_once() -> None:
    rows = timeline("interleaved", 4, 8, 2)
    assert rows is not None
    assert all(row.upper().count("F") == 16 and row.upper().count("B") == 32 for row in rows)


def test_what_is_not_known_is_not_drawn() -> None:
    assert timeline("zbv", 4, 8) is None  # its order is not known here
    assert timeline("interleaved", 4, 6, 2) is None  # Megatron refuses it
    assert timeline("zb1p", 4, 2) is None  # idles more than its formula says
    assert timeline("1f1b", 1, 8) is None
