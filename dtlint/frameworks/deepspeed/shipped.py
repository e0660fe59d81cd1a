"""DeepSpeed configs that tools bring along: what one says that is asked for by its name or path."""

from __future__ import annotations

from collections.abc import Iterator

from dtlint.catalog import ShippedConfig, shipped_config
from dtlint.frameworks import Claim, Member, Reading
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.deepspeed.config import LAYER
from dtlint.languages.traced import Word, setting_of
from dtlint.value import Origin, Plain, Setting, Value, assumed


def read_shipped(path: Word) -> Reading | None:
    """What the config says that a tool ships under this name or path; None where no tool does. A bare name is resolved
    by the tool itself; of a path it is supposed that the file was not changed.
    """
    config = shipped_config(path.text or "")
    if config is None:
        return None
    asked = tuple(Claim(name, setting_of(path, value), config.path) for name, value in _named(config))
    others = tuple(Claim(name, _unasked_value(path, value, config), key) for name, value, key in _unasked(config))
    said = f"{path.shown} was taken as {config.tool} ships it" if "/" in config.path else ""
    keys = {"config.keys": (_kept(path),)} if config.keeps_optimizer else {}
    return Reading(LAYER, claims=(*asked, *others), framework="deepspeed", supposed=said, collections=keys)


def _kept(path: Word) -> Member:
    """The key that keeps the user's optimizer beside offloading, as the config's own reader lists it."""
    key = "zero_force_ds_cpu_optimizer"
    return Member(path.place, {**texts(path.place, key=key, section="", path=key), "value": setting_of(path, False)})


def _unasked_value(path: Word, value: Plain, config: ShippedConfig) -> Setting:
    """What the user did not write: a name stands for the tool's own config, a path for a file that is not at hand."""
    found = setting_of(path, value)
    if not isinstance(found, Value):
        return found
    if "/" in config.path:
        return assumed(value, f"{config.tool} ships it so", "", path.place)
    return found._replace(origin=Origin("default", path.place, (), config.tool))


def _named(config: ShippedConfig) -> Iterator[tuple[str, Plain]]:
    """What the name of the config says, and so whoever asks for it."""
    yield "sharding.stage", int(config.stage)
    yield "sharding.offload_optimizer", config.offload_optimizer
    yield "sharding.offload_parameters", config.offload_parameters


def _unasked(config: ShippedConfig) -> Iterator[tuple[str, Plain, str]]:
    """What else the config says, each with the name of the place where it does."""
    if config.overlap:
        yield "overlap.gradients", config.overlap == "true", config.path
        yield "overlap.parameters", config.overlap == "true", config.path
    if config.no_prefetch:
        yield "sharding.prefetch", "none", f"{config.path}:zero_optimization.{config.no_prefetch}"
