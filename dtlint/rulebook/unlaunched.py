"""Findings on configs that no launch uses: what such a file leaves out, another may add or change."""

from __future__ import annotations

from dtlint.rulebook.hits import Around, Hit
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
_WHOLE = ("llama-factory",)
"""Front ends whose file of arguments is whole."""


def resting_on_absence(hit: Hit, around: Around) -> str | None:
    """Whether a hit rests on what a config without a launch does not say; nothing is said of it."""
    run = around.run(hit)
    return "" if run is not None and _is_part(run) and _rests_on_absence(hit) else None


def _is_part(run: Run) -> bool:
    own = [reading for reading in run.readings if reading.framework or reading.frontend or reading.layer in PARTS]
    return run.launch is None and all(each.layer in PARTS and each.frontend not in _WHOLE for each in own)


def _rests_on_absence(hit: Hit) -> bool:
    """Whether what was read holds a default, and nothing that the user told of the run."""
    sources = sources_of(hit.scope.plan, hit.scope.reads)
    kinds = {name: value.origin.kind for name, value in sources if isinstance(value, Value)}
    if "given" in kinds.values():
        return False
    return any(kind in ("default", "assumed") for name, kind in kinds.items() if name not in _SELDOM)
