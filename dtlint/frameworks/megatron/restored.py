"""What comes with what Megatron loads: degrees that stand in a checkpoint, the batch of a folder prepared for RETRO."""

from __future__ import annotations

from collections.abc import Iterator

from dtlint.frameworks import Claim
from dtlint.frameworks.megatron.given import Given
from dtlint.frameworks.options import literal_place
from dtlint.value import Origin, Unknown

_ASKING = ("use-mp-args-from-checkpoint-args", "use-checkpoint-args")
"""Flags that take arguments from the checkpoint; the second one alone took the degrees too before core_v0.10 has the
first (checkpointing.py, load_args_from_checkpoint).
"""
_DEGREES = {
    "tensor-model-parallel-size": "parallel.tensor",
    "pipeline-model-parallel-size": "parallel.pipeline",
    "expert-model-parallel-size": "parallel.expert",
    "num-layers-per-virtual-pipeline-stage": "parallel.virtual_pipeline",
}
_PREPARED = "retro-project-dir"
"""The folder whose config.json takes the place of what the command line says of the data (arguments.py,
load_retro_args, core_v0.6 to 0.15).
"""
_OF_DATA = ("batch.global", "data.sequence_length")


def restored_claims(given: Given) -> Iterator[Claim]:
    """What is not known since it is loaded."""
    yield from _degrees(given)
    yield from _prepared(given)


def _prepared(given: Given) -> Iterator[Claim]:
    if not given.has(_PREPARED):
        return
    origin = Origin("written", literal_place(given.flags[_PREPARED].flag))
    for setting in _OF_DATA:
        reason = f"it stands in the config.json of --{_PREPARED}"
        yield Claim(setting, Unknown(reason, f"--set {setting}=N", origin), f"--{_PREPARED}")


def _degrees(given: Given) -> Iterator[Claim]:
    """Degrees that stand in the checkpoint: those that are not written, or all where the checkpoint's count more."""
    asking = next((name for name in _ASKING if given.has(name)), "")
    if not asking:
        return
    origin = Origin("written", literal_place(given.flags[asking].flag))
    for flag, setting in _DEGREES.items():
        if asking == _ASKING[0] or flag not in given.flags:
            reason = f"--{asking} may take it from the checkpoint"
            yield Claim(setting, Unknown(reason, f"--set {setting}=N", origin), f"--{asking}")
