"""What the flags that only ms-swift's `megatron sft` has claim."""

from __future__ import annotations

from collections.abc import Iterator

from dtlint.frameworks import Claim
from dtlint.frameworks.megatron.given import Given
from dtlint.frameworks.megatron.meanings import MEANINGS
from dtlint.frameworks.options import bound, integer, text_of
from dtlint.languages.traced import Word
from dtlint.value import default

_LORA_RANK = 8  # swift/megatron/arguments/megatron_args.py, ms-swift 3602360a
INTEGERS = {
    "virtual-pipeline-model-parallel-size": "parallel.virtual_pipeline",
    "max-length": "data.sequence_length",
    "ddp-timeout": "launch.timeout_seconds",
}


def is_swift(given: Given) -> bool:
    """Whether the flags are spelled as ms-swift does: the parser of Megatron-LM itself refuses underscores, so that a
    few of them among dashes are slips.
    """
    spelled = [option.spelled.lstrip("-") for option in given.flags.values() if option.name in MEANINGS]
    return sum("_" in name for name in spelled) > sum("-" in name for name in spelled)


def swift_claims(given: Given) -> Iterator[Claim]:
    """Claims of ms-swift's own flags; none for other command lines."""
    if not is_swift(given):
        return
    for flag, setting in INTEGERS.items():
        word = given.word(flag)
        if word is not None:
            value = integer(word) if flag != "max-length" or given.has("packing") else bound(word)
            yield Claim(setting, value, given.flags[flag].spelled)
    yield from _model(given)
    yield from _adapters(given, given.word("tuner-type") or given.word("train-type"))


def _model(given: Given) -> Iterator[Claim]:
    """The model's name, or that of its converted checkpoint (`GLM-4.5-Air-mcore`)."""
    model, checkpoint = given.word("model"), given.word("load") or given.word("mcore-model")
    if model is not None:
        yield Claim("model.name", text_of(model), "--model")
    elif checkpoint is not None:
        shown = checkpoint.shown.rstrip("/")
        name = checkpoint.part(0, len(shown.removesuffix("-mcore")))
        yield Claim("model.name", text_of(name), given.flags["load" if given.has("load") else "mcore-model"].spelled)


def _adapters(given: Given, kind: Word | None) -> Iterator[Claim]:
    if kind is None or not (kind.text or "").startswith("lora"):
        return
    rank = given.word("lora-rank")
    yield Claim("model.lora_rank", default(_LORA_RANK, "ms-swift") if rank is None else integer(rank), "--lora_rank")
