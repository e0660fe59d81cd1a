"""Bytes of a weight, a gradient and an optimizer's numbers, by who keeps them."""

from __future__ import annotations

from dtlint.cost import constants
from dtlint.cost.figures import Precision
from dtlint.cost.told import Values, word_in

_BYTES = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "int8": 1.0}


def precision_of(values: Values, style: str) -> Precision:
    """The number formats as told, else as the keeper of the states (`style`) has them."""
    compute = word_in(values, "precision.compute", "bf16")
    own_weights = style in ("fsdp", "ddp")
    master_word = word_in(values, "precision.master", "")
    weight, master = _weights(compute, master_word, own_weights)
    gradient = weight if own_weights else _gradient_bytes(values, compute, weight, style)
    reduce = _BYTES.get(word_in(values, "precision.reduce", ""), gradient if style != "fsdp" else 2.0)
    state = _BYTES.get(word_in(values, "optimizer.state_dtype", ""), weight if master_word == "none" else 4.0)
    moments = moment_bytes(word_in(values, "optimizer.name", "adam"), state)
    kept = not values.get("optimizer.in_backward")
    return Precision(compute, weight, gradient, reduce, master, moments, frozen_bytes(values), kept)


def frozen_bytes(values: Values) -> float:
    """Bytes of a weight that does not train: nf4 with its quantization constants 0.5 + 0.016 to 0.06 (QLoRA, section
    3)."""
    stored = word_in(values, "precision.frozen", word_in(values, "precision.compute", "bf16"))
    return {"nf4": 0.52, "int8": 1.0, "fp32": 4.0}.get(stored, 2.0)


def _weights(compute: str, master_word: str, own_weights: bool) -> tuple[float, float]:
    """Bytes of a weight as the model holds it, and of the optimizer's copy of it."""
    if compute == "fp32":
        return 4.0, 0.0
    if master_word == "none":
        return 2.0, 0.0
    return (_BYTES.get(master_word, 4.0), 0.0) if own_weights else (2.0, _BYTES.get(master_word, 4.0))


def _gradient_bytes(values: Values, compute: str, weight: float, style: str) -> float:
    """As told; else Megatron accumulates bf16 gradients in fp32 (arguments.py), also above DeepSpeed's bf16 optimizer,
    and elsewhere gradients have the format of the weights."""
    if compute == "bf16" and values.get("framework") == "megatron-deepspeed":
        return 4.0
    usual = 4.0 if style == "megatron" and compute not in ("fp16", "fp32") else weight
    return _BYTES.get(word_in(values, "precision.gradients", ""), usual)


OPTIMIZERS = (
    "ada", "adopt", "sgd", "lion", "muon", "lomo", "lamb", "lars", "rmsprop", "mini", "galore", "apollo", "onebit",
    "zeroone", "soap", "shampoo", "sophia", "novograd", "prodigy", "ranger", "came", "dion", "dummy", "mcore",
    "distributed",
)  # fmt: skip
"""What the names of optimizers hold whose moments are counted, near enough, as two numbers a parameter or by
`moment_bytes`."""


def is_counted(optimizer: str) -> bool:
    """Whether it is known what an optimizer keeps."""
    return any(name in optimizer.lower().replace("_", "") for name in OPTIMIZERS)


def moment_bytes(optimizer: str, state: float) -> float:
    """Bytes that an optimizer keeps per parameter beside the weights, with numbers of `state` bytes unless it stores
    them in fewer bits: 8 (Dettmers et al. 2022) or 4, each block with a scale of its own."""
    name = optimizer.lower().replace("_", "").replace("-", "")
    kept = 2.0
    if "adafactor" in name or "lomo" in name:
        kept = 0.05
    elif "lion" in name or "muon" in name or "sgd" in name or "mini" in name:
        kept = 1.0
    elif "galore" in name or "apollo" in name or "badam" in name:  # moments of a low rank, or of one block at a time
        kept = 0.25
    narrow = next((bits for bits in ("8bit", "4bit") if bits in name), "")
    return kept * (constants.NARROW_STATE_BYTES[narrow] if narrow else state)
