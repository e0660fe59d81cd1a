"""Findings on runs of which not all is here: what a config without a launch leaves out, another file may add or change;
what a command leaves out whose program is elsewhere, that program may do unasked.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from dtlint.rulebook.hits import Hit
from dtlint.rulebook.rule import SEVERITIES
from dtlint.rulebook.scope import sources_of
from dtlint.runs.model import Run
from dtlint.value import Value

PARTS = frozenset(("deepspeed-json", "accelerate-yaml", "transformers-file", "nemo-yaml"))
"""Layers of configs that are one part of a run: what they leave out stands in a program's code, on a command line, or
in a config beside. Others (LLaMA-Factory's, torchtitan's) are all that their program is told.
"""
_SELDOM = frozenset(("launch.launcher", "batch.remainder", "parallel.context", "parallel.ulysses", "parallel.expert"))
"""Settings that hardly any run has other than their tool has them unasked, so that a config without them leaves nothing
open.
"""
_SCHEDULE = frozenset(
    ("parallel.tensor", "parallel.pipeline", "parallel.virtual_pipeline", "schedule.kind", "launch.nodes")
)
"""What no program of a family does unasked, fork or not: degrees are 1, and the micro-batches of a pipeline take turns
by one scheme.
"""
_FLAGS = frozenset(("config.unknown", "config.invalid", "config.removed", "config.refused", "config.newer"))
"""Collections of flags and keys that a framework's own parser would not take as they stand."""
_WHOLE = ("llama-factory",)
"""Front ends whose file of arguments is whole."""


def as_known(hit: Hit, runs: Sequence[Run]) -> Hit:
    """A hit with the outcome that is certain: of what is not said where a part of the run is not here, advice
    follows.
    """
    if hit.run is None or not (_is_open(hit, runs[hit.run]) or _is_of_another(hit, runs[hit.run])):
        return hit
    return hit._replace(certain="advice")


def _is_open(hit: Hit, run: Run) -> bool:
    return _is_part(run) and _rests_on_absence(hit, _SELDOM)


def _is_of_another(hit: Hit, run: Run) -> bool:
    """Whether a hit takes a program that is not here for the one that its command looks like: by a flag that this one
    does not have, or by what it does unasked, as far as only time hangs on it.
    """
    if not run.unseen:
        return False
    each = hit.ready.rule.each
    by_flag = each is not None and each.collection in _FLAGS
    return by_flag or (SEVERITIES[hit.verdict.outcome] == "warning" and _rests_on_absence(hit, _SELDOM | _SCHEDULE))


def _is_part(run: Run) -> bool:
    own = [reading for reading in run.readings if reading.framework or reading.frontend or reading.layer in PARTS]
    return run.launch is None and all(each.layer in PARTS and each.frontend not in _WHOLE for each in own)


def _rests_on_absence(hit: Hit, seldom: Collection[str]) -> bool:
    """Whether what was read holds a default of a setting that is not `seldom` another, and nothing that the user told
    of the run.
    """
    sources = sources_of(hit.scope.plan, hit.scope.reads)
    kinds = {name: value.origin.kind for name, value in sources if isinstance(value, Value)}
    if "given" in kinds.values():
        return False
    return any(kind in ("default", "assumed") for name, kind in kinds.items() if name not in seldom)
