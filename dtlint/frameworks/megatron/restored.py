"""What Megatron loads from elsewhere: degrees of a checkpoint that its arguments leave out, and the batch and length of
a Retro project, which count more than the arguments.
"""

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


_RETRO = "retro-project-dir"
_OF_RETRO = ("batch.global", "data.sequence_length", "model.max_positions")
"""What the project's config.json sets, whatever the arguments say (arguments.py, load_retro_args, core_v0.6 on)."""


def restored_claims(given: Given) -> Iterator[Claim]:
    """What the arguments say that something else is loaded for, as unknown."""
    yield from _of_checkpoint(given)
    if given.has(_RETRO):
        origin = Origin("written", literal_place(given.flags[_RETRO].flag))
        for setting in _OF_RETRO:
            unknown = Unknown(f"the config of --{_RETRO} sets it", f"--set {setting}=N", origin)
            yield Claim(setting, unknown, f"--{_RETRO}")


def _of_checkpoint(given: Given) -> Iterator[Claim]:
    """Degrees that stand in the checkpoint: those that are not written, or all where the checkpoint's count more."""
    asking = next((name for name in _ASKING if given.has(name)), "")
    if not asking:
        return
    origin = Origin("written", literal_place(given.flags[asking].flag))
    for flag, setting in _DEGREES.items():
        if asking == _ASKING[0] or flag not in given.flags:
            reason = f"--{asking} may take it from the checkpoint"
            yield Claim(setting, Unknown(reason, f"--set {setting}=N", origin), f"--{asking}")
