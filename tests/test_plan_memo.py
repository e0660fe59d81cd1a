"""Changed plans keep what does not hang on the change: every setting has the value that a fresh plan would give it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtlint.plan import Infeasible, Plan, vocabulary
from dtlint.runs import Options, read_runs
from dtlint.value import Plain

FIXTURES = Path(__file__).parents[1] / "fixtures"
PLANS = [
    pytest.param(run.plan, id=f"{folder.name}-{index}")
    for folder in sorted(FIXTURES.iterdir())
    if folder.is_dir()
    for index, run in enumerate(read_runs([folder], Options()).runs)
]
CHANGES: tuple[dict[str, Plain], ...] = (
    {"parallel.pipeline": 1},
    {"batch.micro": 1},
    {"batch.global": 64},
    {"sharding.stage": 1},
    {"checkpointing.activations": "full"},
    {"framework": "fsdp"},
    {"model.layers": 24, "model.hidden": 2048},
)


@pytest.mark.parametrize("plan", PLANS)
def test_what_is_kept_is_what_would_be_worked_out(plan: Plan) -> None:
    for name in vocabulary():
        plan.get(name)
    for changes in CHANGES:
        changed = plan.but(changes)
        if isinstance(changed, Infeasible):
            continue
        fresh = Plan(changed.settings, changed.collections, changed.dialect, changed.open, changed.unread)
        assert {name: changed.get(name) for name in vocabulary()} == {name: fresh.get(name) for name in vocabulary()}
