"""Findings on runs whose steps a price says little about: those that answer prompts between them, trials, and
what is put aside.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile
from pathlib import PurePosixPath

from dtlint.frameworks import STEP_LOOPS, Member
from dtlint.plan import Plan
from dtlint.record import NamedTuple
from dtlint.rulebook.hits import Around, Hit
from dtlint.runs.model import Run
from dtlint.source import Source
from dtlint.value import Value

ROLLOUT = "batch.rollout"
"""The setting of runs whose model answers prompts between its optimizer steps: what part of the day these take, no
file tells."""

ANSWERS = "run.answers"
"""The collection of places that say the same, where the number of answers is not a setting."""

ENGINE = "parallel.rollout"
"""The setting at which verdicts on the engine point that gives the answers."""

TRIAL_STEPS = 10
"""Most optimizer steps of a run that is there to see whether it starts."""

SHORT_STEPS = 300
"""Most optimizer steps of a demonstration or a first look: what a fault of speed takes of them is soon over. Where the
model answers prompts between its steps, each is long, and TRIAL_STEPS count.
"""

STEPS = ("run.steps", "run.steps_per_launch")
"""Settings that bound the steps of one start."""


class Toy(NamedTuple):
    """A size up to which a model is there to try something out: its most layers, and their greatest width (any width
    where None).
    """

    layers: int
    hidden: int | None


TOYS = (Toy(2, None), Toy(4, 1024), Toy(8, 256))
"""Below the smallest models that are trained for their own sake (6 layers of 512 of Pythia-70M, 12 of 768 of BERT and
GPT-2); two layers are a larger model cut short.
"""

_TRIALS = frozenset(("tiny", "smoke", "debug", "debugging", "test", "toy", "sanity", "dummy", "profile", "profiling"))
"""Words in the names of files that say what a run is for."""
_PUT_ASIDE = frozenset(("deprecated", "obsolete", "outdated", "archive", "archives", "archived", "old"))
"""Words in the names of folders and files that are kept, and no longer used."""
_CONFIGS = (".yaml", ".yml", ".toml", ".json")
_SCRIPTS = (".sh", ".bash", ".slurm", ".sbatch")


def answers_prompts(plan: Plan) -> bool:
    """Whether the run does more than optimizer steps: its model answers prompts between them."""
    return ROLLOUT in plan.settings or bool(plan.collection(ANSWERS))


def of_a_trial(hit: Hit, around: Around) -> str | None:
    """Whether a hit is of a trial, or is priced as a share of steps which are one part of the run's time; nothing is
    said of it.
    """
    run = around.run(hit)
    if run is None:
        return None
    return "" if is_trial(run) or (answers_prompts(run.plan) and _is_share(hit)) else None


def is_trial(run: Run) -> bool:
    """Whether a run is there to see whether it starts: by its number of steps, or the name of its config."""
    steps = run.plan.integer("run.steps")
    return (steps is not None and 0 < steps <= TRIAL_STEPS) or any(_is_named(path, _CONFIGS) for path in run.files)


def of_a_sketch(hit: Hit, around: Around) -> str | None:
    """Whether a hit is of a demonstration; nothing is said of it."""
    run = around.run(hit)
    return "" if run is not None and is_sketch(run) else None


def of_what_is_put_aside(hit: Hit, around: Around) -> str | None:
    """Whether a hit lies in what is put aside; nothing is said of it."""
    return "" if hit.run is not None and is_put_aside(hit.anchor.span.path, around.sources) else None


def is_put_aside(path: str, sources: Sequence[Source]) -> bool:
    """Whether a file, or a folder that it lies in, says by its name that it is kept and no longer used; the folders
    around everything that was read say nothing of one file.
    """
    if not _is_kept(path):
        return False
    levels = zip(*(each.path.split("/")[:-1] for each in sources), strict=False)
    around = sum(1 for _ in takewhile(lambda names: len(set(names)) == 1, levels))
    return _is_kept("/".join(path.split("/")[around:]))


def _is_kept(path: str) -> bool:
    return not _PUT_ASIDE.isdisjoint(re.split(r"[^a-z]+", path.lower()))


def of_uncalled_code(hit: Hit, _around: Around) -> str | None:
    """What is said of code that nothing in its program calls; None of other."""
    member = hit.scope.member
    return member.uncalled[0].said if isinstance(member, Member) and member.uncalled else None


def of_what_a_call_stops(hit: Hit, _around: Around) -> str | None:
    """What is said of code behind a call that Python refuses, which is told itself; None of other."""
    member = hit.scope.member
    unused = member.uncalled if isinstance(member, Member) else ()
    return next((each.said for each in unused if each.kind == "call"), None)


def of_what_is_left_over(hit: Hit, around: Around) -> str | None:
    """What is said of a run whose program is not where it is started; None of others."""
    run = around.run(hit)
    return run.left_over or None if run is not None else None


def of_a_single_process(hit: Hit, around: Around) -> str | None:
    """What is said where every script starts the program as one process and only several come to the place of a hit;
    None elsewhere.
    """
    run, member = around.run(hit), hit.scope.member
    return run.single if run is not None and member is not None and member.place in run.apart else None


def is_sketch(run: Run) -> bool:
    """Whether a run is there to try something out: by its steps, its model, or the name of its script."""
    return _is_short(run.plan) or _has_toy(run.plan) or any(_is_named(path, _SCRIPTS) for path in run.files)


def _is_short(plan: Plan) -> bool:
    most = TRIAL_STEPS if answers_prompts(plan) else SHORT_STEPS
    told = (*map(plan.integer, STEPS), _steps_of_tokens(plan), _steps_of_loops(plan))
    return any(0 < steps <= most for steps in told if steps is not None)


def _steps_of_tokens(plan: Plan) -> float | None:
    """The steps that the tokens of a whole run make."""
    tokens, batch, length = map(plan.number, ("run.tokens", "batch.global", "data.sequence_length"))
    return tokens / (batch * length) if tokens and batch and length else None


def _steps_of_loops(plan: Plan) -> int | None:
    """The steps that the program's own loops make, by its arguments or their defaults."""
    loops = [each.fields["steps"] for each in plan.collection(STEP_LOOPS) if isinstance(each, Member)]
    counts = [each.value for each in loops if isinstance(each, Value) and isinstance(each.value, int)]
    return sum(counts) if counts and len(counts) == len(loops) else None


def _has_toy(plan: Plan) -> bool:
    layers, hidden = plan.integer("model.layers"), plan.integer("model.hidden")
    return layers is not None and any(
        layers <= toy.layers and (toy.hidden is None or (hidden is not None and hidden <= toy.hidden)) for toy in TOYS
    )


def _is_named(path: str, suffixes: tuple[str, ...]) -> bool:
    """Whether a file with such a suffix says by its name that it tries something out."""
    name = PurePosixPath(path)
    return name.suffix in suffixes and not _TRIALS.isdisjoint(re.split(r"[^a-z]+", name.stem.lower()))


def _is_share(hit: Hit) -> bool:
    """Whether a hit is priced as a share of the optimizer steps; what slows the answers themselves down is none."""
    rule = hit.ready.rule
    return hit.verdict.at[:1] != (ENGINE,) and bool(rule.share or rule.cost.get("seconds_per_step"))
