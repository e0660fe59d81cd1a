"""Public models by the names and paths under which people load them."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from pathlib import Path
from typing import cast

from dtlint.catalog.names import normalized
from dtlint.compiled import load
from dtlint.record import NamedTuple

DATA = Path(__file__).parent / "data"
MODEL_FILES = (DATA / "models.csv", DATA / "model_aliases.csv")

_VARIANTS = (
    "-hf", "-chat", "-instruct", "-base", "-it", "-sft", "-awq", "-gptq", "-bnb-4bit", "-4bit", "-int4", "-int8",
    "-fp8", "-bf16", "-fp16", "-unsloth", "-finetuned", "-finetune", "-ft", "-dpo", "-pretrained", "-merged",
    "-sharded",
)  # fmt: skip
"""Endings that tell another training or storage of the same shape."""


_SIZE = re.compile(r"\d+(\.\d+)?[bBmM](?![^-_])")
"""A size where a name would stand: `70b`, `7B-hf`."""


_FOLDED = re.compile(r"([A-Za-z0-9]+(?:-[A-Za-z0-9]+)?)(?:__|--|_)(?=[A-Za-z])")
"""An owner and what a tool writes for the slash behind it."""


class LatentAttention(NamedTuple):
    """Widths of multi-head latent attention; `query` 0 where queries are not compressed."""

    query: int
    key_value: int
    rope: int
    nope: int
    value: int


class Model(NamedTuple):
    """The shape of a public model (of a vision-language model, the language part; of T5, one stack).

    `parameters` is the published count where one was read, else the count that the shape gives; `active_parameters`
    those that one token visits; None where no source tells. `head_dim` is explicit: hidden / heads is not always it.
    `ffn` is the width of a dense layer, None where every layer has experts. `moe_layers` of the layers have experts;
    `shared_expert_ffn` is the total width of the shared ones. A dense model has 0 for `experts` and what belongs to
    them.
    """

    name: str
    architecture: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int | None
    vocab: int
    gated_mlp: bool
    tied_embeddings: bool
    experts: int
    experts_per_token: int
    expert_ffn: int
    shared_expert_ffn: int
    moe_layers: int
    latent_attention: LatentAttention | None
    parameters: float | None
    active_parameters: float | None
    source: str


class _Models(NamedTuple):
    names: dict[str, int]
    rows: list[list[object]]
    sizes: dict[str, list[int]]


@lru_cache(maxsize=256)
def model(name: str) -> Model | None:
    """The model of that name or path (`meta-llama/Llama-2-7b-hf`, `/data/llama-7b/`), None if the catalog does not
    know it.

    The whole name or the last part of the path has to be a name of the catalog, perhaps with an ending that tells
    another training or storage of the same shape (`-instruct`, `-awq`). Nothing is guessed from a likeness.
    """
    table = _models()
    for candidate in _candidates(name):
        row = table.names.get(candidate)
        if row is not None:
            return _model(table.rows[row])
    return None


def models_of_size(name: str) -> tuple[Model, ...]:
    """The models of the family and the size that a name tells without a version (`llama-70b`, `/ckpt/qwen_32b`), one
    of each shape, as the catalog has them; () for any other name.
    """
    table = _models()
    rows = (table.sizes[candidate] for candidate in _candidates(name) if candidate in table.sizes)
    return tuple(_model(table.rows[row]) for row in next(rows, []))


def _candidates(name: str) -> list[str]:
    """What to look up, the most telling first: the whole name, the last part of the path, that without endings and
    without the owner in front of it; then the same without a `v` before the version (`llama-v2-7b`).
    """
    last = _last_part(name)
    found = [
        normalized(name),
        *(short for each in (last, *_without_owner(last)) for short in _shortened(normalized(each))),
    ]
    return [*found, *(re.sub(r"^([a-z]+)-v(?=\d)", r"\1-", each) for each in found[1:])]


def _shortened(name: str) -> list[str]:
    """A name, and what remains of it as each ending is taken off."""
    found = [name]
    shorter = _without_variant(name)
    while shorter != found[-1]:
        found.append(shorter)
        shorter = _without_variant(shorter)
    return found


def _last_part(name: str) -> str:
    """The last component of a path, with the one before where it is but a size (`llama-2/70b`); of a hub cache
    (`models--org--name/snapshots/hash`) the model's name.
    """
    parts = [part for part in name.replace("\\", "/").split("/") if part]
    for part in parts:
        if part.startswith("models--"):
            return part.rpartition("--")[2]
    if len(parts) > 1 and _SIZE.match(parts[-1]):
        return "-".join(parts[-2:])
    return parts[-1] if parts else ""


def _without_owner(name: str) -> list[str]:
    """What stands behind an owner on the hub that the catalog knows, in a name made for a folder (`Qwen_Qwen2.5-7B`,
    `meta-llama--Llama-2-7b-hf`).
    """
    owner = _FOLDED.match(name)
    return [name[owner.end() :]] if owner is not None and normalized(owner[1]) in _owners() else []


@cache
def _owners() -> frozenset[str]:
    names = (str(row[0]) for row in _models().rows)
    return frozenset(normalized(name.partition("/")[0]) for name in names if "/" in name)


def _without_variant(name: str) -> str:
    for ending in _VARIANTS:
        if name.endswith(ending):
            return name.removesuffix(ending)
    return name


def _model(row: list[object]) -> Model:
    found = Model._make(row)
    latent = cast("list[int] | None", row[Model._fields.index("latent_attention")])
    return found._replace(latent_attention=LatentAttention._make(latent)) if latent else found


@cache
def _models() -> _Models:
    table = load("models", MODEL_FILES)
    return _Models._make(cast("tuple[dict[str, int], list[list[object]]]", table))
