"""Environment variables of NCCL, CUDA and torch that a launch sets for its processes."""

from __future__ import annotations

from collections.abc import Mapping

from dtlint.frameworks import Claim, Reading
from dtlint.languages.traced import Word
from dtlint.value import Origin, Value

PREFIXES = ("NCCL_", "CUDA_", "TORCH_", "PYTORCH_", "OMP_", "NVTE_", "UCX_", "GLOO_")


def read(env: Mapping[str, Word]) -> Reading:
    """One claim: the variables that decide how processes compute and communicate, as (name, value) pairs in order of
    their names.
    """
    known = [(name, word) for name, word in sorted(env.items()) if name.startswith(PREFIXES) and word.text is not None]
    if not known:
        return Reading("environment")
    place = known[0][1].pieces[0].span if known[0][1].pieces else known[0][1].place
    value = Value(tuple((name, word.text) for name, word in known), Origin("written", place))
    return Reading("environment", place, (Claim("communication.env", value),))
