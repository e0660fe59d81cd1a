"""DeepSpeed configs that tools bring along: what one says that is asked for by its name or path."""

from __future__ import annotations

from collections.abc import Iterator

from dtlint.catalog import ShippedConfig, shipped_config
from dtlint.frameworks import Claim, Reading
from dtlint.frameworks.deepspeed import LAYER
from dtlint.languages.traced import Word, setting_of
from dtlint.value import Plain


def read_shipped(path: Word) -> Reading | None:
    """What the config says that a tool ships under this name or path; None where no tool does. A bare name is resolved
    by the tool itself; of a path it is supposed that the file was not changed.
    """
    config = shipped_config(path.text or "")
    if config is None:
        return None
    claims = tuple(Claim(name, setting_of(path, value), config.path) for name, value in _settings(config))
    said = f"{path.shown} was taken as {config.tool} ships it" if "/" in config.path else ""
    return Reading(LAYER, claims=claims, framework="deepspeed", supposed=said)


def _settings(config: ShippedConfig) -> Iterator[tuple[str, Plain]]:
    yield "sharding.stage", int(config.stage)
    yield "sharding.offload_optimizer", config.offload_optimizer
    yield "sharding.offload_parameters", config.offload_parameters
    if config.overlap:
        yield "overlap.gradients", config.overlap == "true"
        yield "overlap.parameters", config.overlap == "true"
    if config.prefetch:
        yield "sharding.prefetch", config.prefetch
