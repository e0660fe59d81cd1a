"""nanotron's YAML config, which `torchrun run_train.py --config-file x.yaml` reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isfinite

from dtlint.frameworks import Claim, Reading
from dtlint.frameworks.deepspeed.values import flag, format_name, number, whole_number, word
from dtlint.frameworks.dotted_keys import Keys, keys_of, one, worded
from dtlint.frameworks.nanotron.spelling import MIB, NAMES, spell_in
from dtlint.languages.json_tree import Document, Node, entry
from dtlint.value import Plain, Setting, Unknown, Value

__all__ = ["looks_like_config", "read_config", "spell_in"]

LAYER = "nanotron-yaml"
_REQUIRED = ("dp", "tp", "pp")
_WHOLE = (
    "parallel.data", "parallel.tensor", "parallel.pipeline", "parallel.context", "parallel.expert", "batch.micro",
    "batch.accumulation", "data.sequence_length", "run.steps", "sharding.stage",
)  # fmt: skip
_SHAPE = (
    "model.layers", "model.hidden", "model.ffn", "model.heads", "model.kv_heads", "model.vocab", "model.experts",
    "model.experts_per_token",
)  # fmt: skip
_WORDED: Mapping[str, Mapping[Plain, Plain]] = {
    "parallel.sequence": {"reduce_scatter": True, "all_reduce": False},
    "schedule.kind": {"1f1b": "1f1b", "afab": "gpipe"},
    "checkpointing.activations": {True: "full", False: "none"},
}
_FAMILY = "model.model_config.is_{}_config"
_GATED = ("llama", "qwen2", "llamoe")
"""Families of nanotron's whose feed-forward layer has a gate."""
_OTHER = ("mamba",)
"""Families whose layers are no transformer's."""


def looks_like_config(document: Document) -> bool:
    """Whether a file has the three degrees that nanotron's config has to have."""
    section = entry(document.root, "parallelism")
    return section is not None and all(entry(section.node, name) is not None for name in _REQUIRED)


def read_config(document: Document) -> Reading:
    """What a config claims; the data-parallel size is written, so that the degrees make up the world."""
    keys = keys_of(document.root)
    place = document.root.span if document.root is not None else None
    return Reading(LAYER, place, tuple(_claims(keys)), framework="nanotron")


def _claims(keys: Keys) -> Iterator[Claim]:
    for name in _WHOLE:
        yield from one(keys, NAMES[name], name, whole_number)
    for name, words in _WORDED.items():
        yield from worded(keys, NAMES[name], name, words)
    yield from one(keys, NAMES["overlap.tensor"], "overlap.tensor", flag)
    yield from one(keys, NAMES["optimizer.clip"], "optimizer.clip", number)
    yield from one(keys, NAMES["optimizer.name"], "optimizer.name", word)
    yield from one(keys, NAMES["communication.bucket_bytes"], "communication.bucket_bytes", _bytes)
    yield from _precision(keys)
    yield from _model(keys)


def _bytes(node: Node) -> Setting:
    found = number(node)
    if not isinstance(found, Value):
        return found
    size = float(str(found.value)) * MIB
    return found._replace(value=int(size)) if isfinite(size) else Unknown("no finite size", "", found.origin)


def _precision(keys: Keys) -> Iterator[Claim]:
    """Gradients that are summed in fp32 belong to fp32 copies of the weights; without them the optimizer works on the
    weights themselves (src/nanotron/helpers.py, init_optimizer_and_grad_accumulator).
    """
    yield from one(keys, NAMES["precision.compute"], "precision.compute", format_name)
    dtype = keys.node(*NAMES["precision.compute"])
    own = format_name(dtype) if dtype is not None else None
    kept = own.value if isinstance(own, Value) else None
    if kept is not None:
        yield from worded(keys, NAMES["precision.gradients"], "precision.gradients", {True: "fp32", False: kept})
    yield from worded(keys, NAMES["precision.gradients"], "precision.master", {True: "fp32", False: "none"})


def _model(keys: Keys) -> Iterator[Claim]:
    if any(keys.known(_FAMILY.format(name)) is True for name in _OTHER):
        return
    for name in _SHAPE:
        yield from one(keys, NAMES[name], name, whole_number)
    yield from one(keys, NAMES["model.tied_embeddings"], "model.tied_embeddings", flag)
    for name in _GATED:
        yield from worded(keys, (_FAMILY.format(name),), "model.gated_mlp", {True: True})
