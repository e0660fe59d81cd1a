"""How the config.json of a model tells its shape: the keys of each setting, and what the classes take unasked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import cast

from dtlint.compiled import load
from dtlint.record import NamedTuple
from dtlint.value import Plain

MODEL_CONFIG_FILES = (Path(__file__).parent / "data" / "model_configs.yaml",)


class Keys(NamedTuple):
    """The keys of a config.json by the setting that they hold (`layers`), and those that nest a language model."""

    settings: Mapping[str, Sequence[str]]
    language: Sequence[str]


class ModelType(NamedTuple):
    """What a `model_type` means.

    `architecture` is the family of the shape, `gated` whether the feed-forward layer has a gate, `tied` whether the
    embeddings are one matrix where the file does not say it; None where the type is not known. `unwritten` is what the
    class takes for keys that are not written, `wide` how often the feed-forward layer is the hidden size where its
    width is not written (0: never). `apart` says why the shape does not follow from the keys, "" if it does.
    """

    architecture: str = ""
    gated: bool | None = None
    tied: bool | None = None
    unwritten: Mapping[str, Plain] = {}
    wide: int = 0
    apart: str = ""


def config_keys() -> Keys:
    """Which keys of a config.json hold what."""
    table = _table()
    return Keys(cast("Mapping[str, Sequence[str]]", table["keys"]), cast("Sequence[str]", table["language"]))


def model_type(name: str) -> ModelType:
    """What the `model_type` of a config.json means; of an unknown one nothing is known."""
    table = _table()
    for reason, types in cast("Mapping[str, Sequence[str]]", table["apart"]).items():
        if name in types:
            return ModelType(apart=reason)
    row = cast("Mapping[str, Mapping[str, Mapping[str, Plain]]]", table["types"]).get(name, {})
    shape = row.get("shape", {})
    return ModelType(
        str(shape.get("architecture", "")),
        _flag(shape.get("gated")),
        _flag(shape.get("tied")),
        row.get("unwritten", {}),
        cast("Mapping[str, int]", table["wide"]).get(name, 0),
    )


def _flag(value: Plain) -> bool | None:
    return value if isinstance(value, bool) else None


@cache
def _table() -> Mapping[str, object]:
    return cast("Mapping[str, object]", load("model-configs", MODEL_CONFIG_FILES))
