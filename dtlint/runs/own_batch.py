"""Programs whose command line feeds the model: the global batch of a DeepSpeed config tells them no micro batch."""

from __future__ import annotations

from dtlint.frameworks import Claim, Reading
from dtlint.frameworks.megatron.training import OLD_MICRO_BATCH
from dtlint.runs.changed import CONFIG
from dtlint.value import Unknown

_GLOBAL = "batch.global"
_MICRO = "batch.micro"


def with_own_batch(readings: tuple[Reading, ...]) -> tuple[Reading, ...]:
    """The readings of a run: where Megatron's loader has a micro batch by its older flag, and the config states only
    the global batch, this is unknown, as the loader does not hold to it.
    """
    if not any(claim.name == OLD_MICRO_BATCH for reading in readings for claim in reading.claims):
        return readings
    return tuple(_opened(reading) if reading.layer == CONFIG else reading for reading in readings)


def _opened(reading: Reading) -> Reading:
    if any(claim.setting == _MICRO for claim in reading.claims):
        return reading
    return reading._replace(claims=tuple(_open(claim) for claim in reading.claims))


def _open(claim: Claim) -> Claim:
    if claim.setting != _GLOBAL:
        return claim
    return claim._replace(value=Unknown(f"the program's loader takes {OLD_MICRO_BATCH}", "--set batch.global=N"))
