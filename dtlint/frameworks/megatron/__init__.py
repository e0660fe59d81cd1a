"""Megatron-LM, Megatron-DeepSpeed and `megatron sft`: what a training script's arguments say about the plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from dtlint.frameworks import Claim, Member, NamedFile, Reading
from dtlint.frameworks.arguments import stretch, texts
from dtlint.frameworks.megatron.combinations import excluded_flags, refused_combinations
from dtlint.frameworks.megatron.cuts import misfit_cuts
from dtlint.frameworks.megatron.flags import (
    inert_flags,
    later_flags,
    needed_flags,
    removed_flags,
    unknown_flags,
    unused_config,
)
from dtlint.frameworks.megatron.forks import foreign_flags, fork_claims
from dtlint.frameworks.megatron.given import SWITCHED_OFF, Given, has_deepspeed, read_flags, switched
from dtlint.frameworks.megatron.meanings import MEANINGS, Meaning
from dtlint.frameworks.megatron.model import model_claims
from dtlint.frameworks.megatron.pipeline import pipeline_claims
from dtlint.frameworks.megatron.restored import restored_claims
from dtlint.frameworks.megatron.slime import is_slime, slime_claims
from dtlint.frameworks.megatron.spelling import spell, spell_as_stated
from dtlint.frameworks.megatron.swift import is_swift, swift_claims
from dtlint.frameworks.megatron.training import ramp_members, training_claims
from dtlint.frameworks.megatron.values import invalid_values
from dtlint.frameworks.options import Option, canonical, integer, known_head, not_a, number, text_of
from dtlint.languages.traced import Word, setting_of
from dtlint.source import Span
from dtlint.value import Setting, Value

__all__ = ["read_arguments", "recognise", "spell", "spell_as_stated"]

LAYER = "megatron-arguments"

_TELLING = frozenset(
    (
        "tensor-model-parallel-size", "pipeline-model-parallel-size", "expert-model-parallel-size",
        "num-layers-per-virtual-pipeline-stage", "use-distributed-optimizer", "use-mcore-models", "transformer-impl",
    )
)  # fmt: skip
_USUAL = frozenset(
    (
        "num-layers", "hidden-size", "num-attention-heads", "seq-length", "max-position-embeddings",
        "micro-batch-size", "global-batch-size", "train-iters", "train-samples", "lr-decay-iters", "tokenizer-type",
        "vocab-file", "merge-file", "sequence-parallel", "context-parallel-size", "overlap-grad-reduce",
        "no-load-optim", "ckpt-format", "finetune",
    )
)  # fmt: skip


def recognise(words: Sequence[Word]) -> bool:
    """Whether a program's arguments are Megatron's: a flag that only Megatron has and another, or three usual ones as
    Megatron spells them."""
    names = {_names(word) for word in words}
    telling, usual = len(names & _TELLING), len(names & _USUAL)
    return (telling >= 1 and telling + usual >= 2) or len(_USUAL & {_dashed(word) for word in words}) >= 3


def read_arguments(words: Sequence[Word], place: Span) -> Reading:
    """What the arguments of a Megatron training script claim, flag by flag and together.

    `place` is where they stand if no flag is literally written. Of a flag that is given twice the last counts.
    """
    given = read_flags(words)
    claims = [claim for flag in given.flags.values() if (claim := _claim(flag)) is not None]
    for read in (training_claims, model_claims, pipeline_claims, swift_claims, slime_claims, restored_claims):
        claims.extend(read(given))
    swift = is_swift(given)
    if not swift and not is_slime(given):
        claims.extend(fork_claims(given, frozenset(claim.setting for claim in claims)))
    return Reading(
        LAYER,
        stretch(words, place, next((word for word in words if _names(word) in _TELLING), None)),
        _last_of_each(claims),
        files=tuple(_files(given)),
        framework="megatron-deepspeed" if has_deepspeed(given) else "megatron",
        frontend="ms-swift" if swift else "slime" if is_slime(given) else "",
        open=given.open or _elsewhere(given),
        unread=_replaced(given),
        collections=_collections(given, swift),
        refuses=frozenset() if swift else excluded_flags(given) | later_flags(given),
        foreign=() if swift or is_slime(given) else foreign_flags(given),
    )


def _names(word: Word) -> str:
    """The name of the flag that a word is, "" if it is none."""
    head = known_head(word)
    return canonical(head.partition("=")[0]) if head.startswith("--") else ""


def _dashed(word: Word) -> str:
    """The name of a flag as Megatron spells it; with `_` in it the usual ones are the arguments of many programs."""
    return "" if "_" in known_head(word).partition("=")[0] else _names(word)


def _claim(option: Option) -> Claim | None:
    """What one flag claims by the table."""
    meaning = MEANINGS.get(option.name)
    if meaning is None:
        return None
    setting = _fixed(option, meaning) if meaning.kind == "fixed" else _value(option.value, meaning)
    if setting is None:
        return None
    if meaning.scale != 1 and isinstance(setting, Value) and isinstance(setting.value, (int, float)):
        setting = setting._replace(value=setting.value * meaning.scale)
    return Claim(meaning.setting, setting, option.spelled)


def _fixed(option: Option, meaning: Meaning) -> Setting | None:
    """The value of a flag that is there; what `--flag false` switches off has the opposite value, if it has one."""
    if switched(option) is not False:
        return setting_of(option.flag, meaning.value)
    opposite = not meaning.value if isinstance(meaning.value, bool) else None
    return None if opposite is None or option.value is None else setting_of(option.value, opposite)


def _value(word: Word | None, meaning: Meaning) -> Setting:
    """The value of a flag, Unknown if it is not of the flag's kind."""
    if word is None or word.text is None or not meaning.words:
        return _READERS[meaning.kind](word)
    known = meaning.words.get(word.text)
    return not_a(word, f"one of {', '.join(meaning.words)}") if known is None else setting_of(word, known)


_READERS: Mapping[str, Callable[[Word | None], Setting]] = {"integer": integer, "number": number, "word": text_of}


def _last_of_each(claims: Sequence[Claim]) -> tuple[Claim, ...]:
    return tuple({claim.setting: claim for claim in claims}.values())


def _files(given: Given) -> Iterator[NamedFile]:
    """The YAML that replaces the arguments. (A DeepSpeed config is named as it is for every program.)"""
    config = given.word("yaml-cfg")
    if config is not None:
        yield NamedFile("megatron-yaml", config)


def _replaced(given: Given) -> str:
    """The file that stands for all arguments, with what it does; "" where there is none."""
    config = given.word("yaml-cfg")
    return "" if config is None else f"--yaml-cfg {config.shown} replaces the arguments"


def _elsewhere(given: Given) -> str:
    """Why settings may stand somewhere else than on the command line, "" if they don't."""
    if replaced := _replaced(given):
        return replaced
    if given.has("use-checkpoint-args"):
        return "--use-checkpoint-args takes the model's shape from the checkpoint"
    return ""


def _collections(given: Given, swift: bool) -> Mapping[str, tuple[Member, ...]]:
    """What the parser or the start-up would refuse, that changed, or has no effect; values that a later flag overrides.

    ms-swift has a parser of its own, and slime lets pass what Megatron's does not know. What no release takes is
    refused before anything is missed.
    """
    found: dict[str, Iterable[Member]] = {"config.repeated": _overridden(given), "batch.ramps": ramp_members(given)}
    if not swift:
        removed = removed_flags(given)
        refused = any("beside" in member.fields for member in removed)
        found.update(
            {
                "config.unknown": () if is_slime(given) else unknown_flags(given),
                "config.invalid": invalid_values(given),
                "config.refused": refused_combinations(given),
                "pipeline.misfits": misfit_cuts(given),
                "config.removed": removed,
                "config.inert": inert_flags(given),
                "config.needed": () if refused or is_slime(given) or _elsewhere(given) else needed_flags(given),
                SWITCHED_OFF: unused_config(given),
            }
        )
    settled = {name: tuple(members) for name, members in found.items()}
    return {name: members for name, members in settled.items() if members}


def _overridden(given: Given) -> Iterator[Member]:
    """Flags that a later one with another value overrides: setting, name, value, winner."""
    for option in given.repeated:
        winner, lost, won = given.flags[option.name], _claim(option), _claim(given.flags[option.name])
        if lost is None or won is None or not isinstance(lost.value, Value) or not isinstance(won.value, Value):
            continue
        if lost.value.value != won.value.value:
            fields = texts(option.place, setting=lost.setting, name=option.spelled)
            fields.update(value=lost.value, winner=won.value)
            yield Member(option.place, fields, ((winner.place, f"the later {winner.spelled} counts"),))
