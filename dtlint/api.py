"""What dtlint does, for its command line and for Python: read runs, check them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from dtlint.config import Config
from dtlint.cost import Estimate
from dtlint.cost import estimate as estimate_of
from dtlint.cost.job import missing
from dtlint.plan import Misfit, Plan, term
from dtlint.plan.vocabulary import fit
from dtlint.rulebook.check import Report
from dtlint.rulebook.check import check as check_runs
from dtlint.rulebook.load import built_in
from dtlint.rulebook.rule import Rule
from dtlint.runs import Options, RunSet, read_runs
from dtlint.value import Plain, Unknown, Value, given

PathLike = str | os.PathLike[str]


def estimate(plan: Plan) -> Estimate | Unknown:
    """Memory and time of a plan, or which setting is missing; Misfit for settings that no run can have together."""
    found = estimate_of(plan)
    if isinstance(found, Unknown) and not missing(plan):
        raise Misfit(found.reason)
    clash = _clashing_batch(plan)
    if clash:
        raise Misfit(clash)
    return found


def _clashing_batch(plan: Plan) -> str:
    """The parts of the global batch where all are told and their product is another one."""
    told = {name: plan.stated(f"batch.{name}") for name in ("micro", "accumulation", "global")}
    data = plan.integer("parallel.data")
    numbers = [each.value for each in told.values() if each is not None and isinstance(each.value, int)]
    if len(numbers) < len(told) or data is None or numbers[0] * numbers[1] * data == numbers[2]:
        return ""
    return f"batch.micro {numbers[0]} x batch.accumulation {numbers[1]} x DP {data} is not batch.global {numbers[2]}"


def options_of(
    settings: Mapping[str, Value] | None = None,
    arguments: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    config: Config | None = None,
) -> Options:
    """What a user adds to the files: `--set` values, script arguments, environment, and the settings of dtlint.toml."""
    known = config or Config()
    return Options(
        {**known.settings, **(settings or {})},
        known.cluster,
        arguments or {},
        environment or {},
        expected=known.expected,
        clusters=known.clusters,
        folder=known.folder,
        run=known.run,
    )


def check(
    paths: Sequence[PathLike],
    settings: Mapping[str, Plain] | None = None,
    arguments: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    config: Config | None = None,
    rules: Sequence[Rule] | None = None,
) -> Report:
    """Check files or folders. `settings` override them; Misfit for a name or value outside the vocabulary."""
    stated = {name: given(fit(term(name), value)) for name, value in (settings or {}).items()}
    runs = read_runs([Path(path) for path in paths], options_of(stated, arguments, environment, config))
    return check_set(runs, config or Config(), rules)


def check_set(runs: RunSet, config: Config, rules: Sequence[Rule] | None = None) -> Report:
    """Check what has been read, with the rules that dtlint ships unless others are given."""
    return check_runs(runs, built_in() if rules is None else rules, config)
