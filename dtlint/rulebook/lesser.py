"""Findings on runs whose steps a price says little about: those that answer prompts between them, and trials."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from dtlint.plan import Plan
from dtlint.rulebook.hits import Hit
from dtlint.runs.model import Run

ROLLOUT = "batch.rollout"
"""The setting of runs whose model answers prompts between its optimizer steps: what part of the day these take, no
file tells."""

ANSWERS = "run.answers"
"""The collection of places that say the same, where the number of answers is not a setting."""

TRIAL_STEPS = 10
"""Most optimizer steps of a run that is there to see whether it starts."""

_TRIALS = frozenset(("tiny", "smoke", "debug", "test"))
_CONFIGS = (".yaml", ".yml", ".toml", ".json")
_SCRIPT_TRIALS = frozenset(("smoke", "debug", "debugging", "profile", "profiling"))
_SCRIPTS = (".sh", ".bash", ".slurm", ".sbatch")


def answers_prompts(plan: Plan) -> bool:
    """Whether the run does more than optimizer steps: its model answers prompts between them."""
    return ROLLOUT in plan.settings or bool(plan.collection(ANSWERS))


def as_weighed(hit: Hit, runs: Sequence[Run]) -> Hit:
    """A hit that only slows down a run as advice, where the run is a trial, or where it is priced as a share of steps
    which are one part of the run's time.
    """
    if hit.run is None or hit.outcome != "slower":
        return hit
    run = runs[hit.run]
    lesser = is_trial(run) or (answers_prompts(run.plan) and _is_share(hit))
    return hit._replace(certain="advice") if lesser else hit


def is_trial(run: Run) -> bool:
    """Whether a run is there to see whether it starts: by its number of steps, or the name of its config or script."""
    steps = run.plan.integer("run.steps")
    return (steps is not None and 0 < steps <= TRIAL_STEPS) or any(map(_names_trial, run.files))


def _names_trial(path: str) -> bool:
    name = PurePosixPath(path)
    trials = _TRIALS if name.suffix in _CONFIGS else _SCRIPT_TRIALS if name.suffix in _SCRIPTS else frozenset()
    return not trials.isdisjoint(re.split(r"[^a-z]+", name.stem.lower()))


def _is_share(hit: Hit) -> bool:
    rule = hit.ready.rule
    return bool(rule.share or rule.cost.get("seconds_per_step"))
